"""The kernel picture: a keyed component; stepping through the turns happens in the browser."""

from __future__ import annotations

from typing import Any

import streamlit as st

from pages.parts import component

_PICTURE = st.components.v2.component(
    "paged_kv_kernel",
    html='<div class="kernel"></div>\n',
    js=component.bundle("kernel.view", ("stage/dom.js", "kernel.js"), ("kernel.css",)),
)


def show_picture(payload: dict[str, Any]) -> None:
    """Draw ``payload`` (from ``kernel_page_payload.build``)."""
    _PICTURE(data=component.in_a_list(payload), key="kernel_picture")
