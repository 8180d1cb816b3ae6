"""The sheet: a component that shows a drawing under the same sentence, question and keys as the stage."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import streamlit as st

from pages.parts import component

_ASSETS = Path(__file__).resolve().parents[3] / "assets"
_SHEET = st.components.v2.component(
    "paged_kv_sheet",
    html='<div class="sheet"></div>\n',
    css=(_ASSETS / "lessons_sheet.css").read_text(encoding="utf-8"),
    js=(_ASSETS / "lessons_sheet.js").read_text(encoding="utf-8"),
)


def show_sheet(payload: dict[str, Any], *, key: str, on_action: Callable[[dict[str, Any]], None]) -> None:
    """Draw ``payload`` and hand each action over once, as ``pages.parts.stage.show_stage`` does.

    payload: {"title", "lang", "about": [..], "say": {"head", "text"}, "gate" (as the stage's), "drawing" (see
    pictures.py), "can_step", "can_back", "lecture", "words": {"step", "back", "pick", "skip", "predicted",
    "was_so", "unanswered", "right", "wrong"}}.
    """
    component.show(_SHEET, payload, key=key, on_action=on_action)
