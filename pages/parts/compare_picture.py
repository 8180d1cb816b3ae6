"""The comparison's picture: strips, table, memory over time, transport, as one keyed component.

Like the stage (``pages.parts.stage``): its DOM lives on over reruns and the script patches it. The script
travels once, with a second component whose data never change; a payload carries figures only.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import streamlit as st

from pages.parts.stage import is_new
from pages.parts.words import LANGUAGES, area

_ASSETS = Path(__file__).resolve().parents[2] / "assets"
# The small helpers, the colours and the drawings of a slot are the stage's own: the same look on both pages.
_SCRIPTS = ("stage/dom.js", "compare/transport.js", "compare/strips.js", "compare/figures.js", "compare.js")
_STYLES = ("stage.css", "compare.css")


def _script() -> str:
    """All parts as one script, with the words of both languages and the styles put into it."""
    words = {lang: area("picture", lang) for lang in LANGUAGES}
    text = "\n".join((_ASSETS / name).read_text(encoding="utf-8") for name in _SCRIPTS)
    style = "\n".join((_ASSETS / name).read_text(encoding="utf-8") for name in _STYLES)
    text = text.replace("/*WORDS*/ {}", json.dumps(words, ensure_ascii=True))
    return text.replace('/*STYLE*/ ""', json.dumps(style, ensure_ascii=True))


_CODE = st.components.v2.component("paged_kv_compare_code", html="<i hidden></i>\n", js=_script())
_PICTURE = st.components.v2.component(
    "paged_kv_compare",
    html='<div class="stage compare"></div>\n',
    js="""
export default function (component) {
  const waiting = (window.__pagedKvCompareWaiting ??= new Map());
  if (window.__pagedKvCompare) return window.__pagedKvCompare(component);
  waiting.set(component.parentElement, component);
  return () => {
    waiting.delete(component.parentElement);
    window.__pagedKvCompare?.leave(component);
  };
}
""",
)


def show_picture(payload: dict[str, Any], *, key: str, on_action: Callable[[dict[str, Any]], None]) -> None:
    """Draw ``payload`` (from ``compare_payload``); ``on_action`` gets each action once, before the next run.

    An action is {"do": step | back | start | end | goto, "arg": ..., "step": the step on the screen}.
    """
    seen = st.session_state.setdefault(f"_{key}_seen", {})

    def handle() -> None:
        value = st.session_state.get(key)
        action = None if value is None else value.get("action")
        if is_new(action, seen):
            on_action(dict(action))

    _PICTURE(data=payload | {"ack": sum(seen.values())}, key=key, on_action_change=handle)
    _CODE(data={}, key=f"{key}_code")
