"""Keys of the questions at the end: a component that draws nothing and hands over what was pressed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import streamlit as st

from pages.parts import component

_ASSETS = Path(__file__).resolve().parents[3] / "assets"
_KEYS = st.components.v2.component(
    "paged_kv_quiz_keys",
    html="<i hidden></i>\n",
    js=(_ASSETS / "lessons_quiz_keys.js").read_text(encoding="utf-8"),
)


def listen(on_action: Callable[[component.Action], None]) -> None:
    """Hand over {"do": "predict", "arg": digit}, or "step", "back", "start", once each."""
    component.show(_KEYS, {}, key="quiz_keys", on_action=on_action)
