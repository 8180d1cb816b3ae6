"""What every picture of ours shares: its script as one text, its data on their way there, its actions back.

A picture is a Streamlit component v2 with a key: its DOM lives on over reruns and its script patches it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import streamlit as st

from pages.parts.words import LANGUAGES, area

_ASSETS = Path(__file__).resolve().parents[2] / "assets"
Action = dict[str, Any]


def bundle(words: str, scripts: Iterable[str], styles: Iterable[str]) -> str:
    """Files of ``assets`` as one script, in this order and one scope, with words and style put in.

    ``words``: the area that the script wants, in both languages. A payload then carries figures only.
    """
    said = {lang: area(words, lang) for lang in LANGUAGES}
    text = "\n".join((_ASSETS / name).read_text(encoding="utf-8") for name in scripts)
    style = "\n".join((_ASSETS / name).read_text(encoding="utf-8") for name in styles)
    text = text.replace("/*WORDS*/ {}", json.dumps(said, ensure_ascii=True))
    return text.replace('/*STYLE*/ ""', json.dumps(style, ensure_ascii=True))


def loader(name: str) -> str:
    """The few lines of a component whose real script comes with another: they call ``window[name]``.

    Streamlit sends a component's script with every change of its data. So a long script is that of a second
    component whose data never change (the browser keeps such a message, only its hash travels); it leaves
    behind ``window[name]``, and draws those that ``window[name + "Waiting"]`` holds.
    """
    return f"""
export default function (component) {{
  const waiting = (window.{name}Waiting ??= new Map());
  if (window.{name}) return window.{name}(component);
  waiting.set(component.parentElement, component);
  return () => {{
    waiting.delete(component.parentElement);
    window.{name}?.leave(component);
  }};
}}
"""


def in_a_list(payload: Mapping[str, Any]) -> list[Any]:
    """``payload`` as component data. Of a dict, Streamlit examines every value with pandas, whose import
    alone takes half a second of the first page; a list goes as it is."""
    return [payload]


def is_new(action: Any, seen: dict[str, int]) -> bool:
    """Whether this action has not been handled yet; notes it in ``seen`` (client -> last number).

    A browser numbers its actions. A number that was there before is a repeat (a rerun, a reconnect) and must
    not move the screen twice.
    """
    if not isinstance(action, dict):
        return False
    client, number = action.get("client"), action.get("n")
    if not isinstance(client, str) or not isinstance(number, int) or number <= seen.get(client, 0):
        return False
    seen[client] = number
    return True


def show(
    component: Any, payload: Mapping[str, Any], *, key: str, on_action: Callable[[Action], None]
) -> None:
    """Draw ``payload``; ``on_action`` gets each action once, before the next run.

    Every action is acknowledged with the next payload: the browser sends the next one only then.
    """
    seen = st.session_state.setdefault(f"_{key}_seen", {})

    def handle() -> None:
        value = st.session_state.get(key)
        action = None if value is None else value.get("action")
        if is_new(action, seen):
            on_action(dict(action))

    component(data=in_a_list({**payload, "ack": sum(seen.values())}), key=key, on_action_change=handle)
