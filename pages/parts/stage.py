"""The stage: one component that draws the whole main picture and sends back what was clicked.

Its script patches what is there: a block map of 256 blocks changes in about 20 ms. The chart of memory over
time is drawn in here too, as SVG, because a Plotly chart is mounted anew on every change, 100 to 400 ms each.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import streamlit as st

from pages.parts import component

_PARTS = ("dom", "top", "logical", "physical", "links", "lower", "beams", "table", "lesson", "draw", "keys")
_SCRIPTS = (*(f"stage/{part}.js" for part in _PARTS), "stage.js")
_CODE = st.components.v2.component(
    "paged_kv_stage_code", html="<i hidden></i>\n", js=component.bundle("stage", _SCRIPTS, ("stage.css",))
)
_STAGE = st.components.v2.component(
    "paged_kv_stage", html='<div class="stage"></div>\n', js=component.loader("__pagedKv")
)


def show_stage(payload: dict[str, Any], *, key: str, on_action: Callable[[component.Action], None]) -> None:
    """Draw ``payload`` (from ``build_payload``); ``on_action`` gets each action once, before the next run.

    An action is {"do": ..., "arg": ..., "step": the step that was on the screen, "n", "client"}: see
    ``pages.parts.transport.apply``. ``payload["near"]`` may hold the payloads of the next and the previous
    step, {"step": ..., "back": ...}: the browser draws them at once, before the server answers.
    """
    component.show(_STAGE, payload, key=key, on_action=on_action)
    _CODE(data={}, key=f"{key}_code")
