"""The stage: one component that draws the whole main picture and sends back what was clicked.

A Streamlit component v2 with a key: its DOM lives on over reruns and the script patches it (a block map of
256 blocks changes in about 20 ms). The chart of memory over time is drawn in here too, as SVG, because a
Plotly chart is mounted anew on every change, 100 to 400 ms each.

The script is the text of ``assets/stage/*.js`` and ``assets/stage.js``, with ``assets/stage.css`` and the
words of the picture in both languages put into it once, at import: a payload carries figures only.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import streamlit as st

from pages.parts.words import LANGUAGES, area

_ASSETS = Path(__file__).resolve().parents[2] / "assets"


# In this order: the parts share one scope, as if they were one file.
_PARTS = ("dom", "top", "logical", "physical", "links", "lower", "beams", "table", "lesson", "draw", "keys")


def _script() -> str:
    """The parts of the script as one text, with the words of all languages in the place kept for them."""
    words = {lang: area("stage", lang) for lang in LANGUAGES}
    files = [_ASSETS / "stage" / f"{part}.js" for part in _PARTS] + [_ASSETS / "stage.js"]
    text = "\n".join(path.read_text(encoding="utf-8") for path in files)
    style = (_ASSETS / "stage.css").read_text(encoding="utf-8")
    text = text.replace("/*WORDS*/ {}", json.dumps(words, ensure_ascii=True))
    return text.replace('/*STYLE*/ ""', json.dumps(style, ensure_ascii=True))


# Streamlit sends a component's script with every change of its data. So the script, 80 KB, is that of a
# component whose data never change: the browser keeps such a message (from 10 KB on), only its hash
# travels. The stage itself has a script of a few lines and calls what the other one left behind.
_CODE = st.components.v2.component("paged_kv_stage_code", html="<i hidden></i>\n", js=_script())
_STAGE = st.components.v2.component(
    "paged_kv_stage",
    html='<div class="stage"></div>\n',
    js="""
export default function (component) {
  const waiting = (window.__pagedKvWaiting ??= new Map());
  if (window.__pagedKv) return window.__pagedKv(component);
  waiting.set(component.parentElement, component);
  return () => {
    waiting.delete(component.parentElement);
    window.__pagedKv?.leave(component);
  };
}
""",
)


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


def show_stage(payload: dict[str, Any], *, key: str, on_action: Callable[[dict[str, Any]], None]) -> None:
    """Draw ``payload`` (from ``build_payload``); ``on_action`` gets each action once, before the next run.

    An action is {"do": ..., "arg": ..., "step": the step that was on the screen, "n", "client"}: see
    ``pages.parts.transport.apply``. Every action is acknowledged with the next payload: the browser sends
    the next one only then.
    """
    seen = st.session_state.setdefault(f"_{key}_seen", {})

    def handle() -> None:
        value = st.session_state.get(key)
        action = None if value is None else value.get("action")
        if is_new(action, seen):
            on_action(dict(action))

    _STAGE(data=payload | {"ack": sum(seen.values())}, key=key, on_action_change=handle)
    _CODE(data={}, key=f"{key}_code")
