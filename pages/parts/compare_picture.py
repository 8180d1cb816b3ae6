"""The comparison's picture: strips, table, memory over time, transport, as one keyed component."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import streamlit as st

from pages.parts import component

# The small helpers, the colours and the drawings of a slot are the stage's own: the same look on both pages.
_SCRIPTS = ("stage/dom.js", "compare/transport.js", "compare/strips.js", "compare/figures.js", "compare.js")
_CODE = st.components.v2.component(
    "paged_kv_compare_code",
    html="<i hidden></i>\n",
    js=component.bundle("picture", _SCRIPTS, ("stage.css", "compare.css")),
)
_PICTURE = st.components.v2.component(
    "paged_kv_compare",
    html='<div class="stage compare"></div>\n',
    js=component.loader("__pagedKvCompare"),
)


def show_picture(payload: dict[str, Any], *, key: str, on_action: Callable[[component.Action], None]) -> None:
    """Draw ``payload`` (from ``compare_payload``); ``on_action`` gets each action once, before the next run.

    An action is {"do": step | back | start | end | goto, "arg": ..., "step": the step on the screen}.
    """
    component.show(_PICTURE, payload, key=key, on_action=on_action)
    _CODE(data={}, key=f"{key}_code")
