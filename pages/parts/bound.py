"""Widgets tied to a page's own record of choices, which outlives them: a widget's value goes with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import streamlit as st


def bound(prefix: str, record: Any, attribute: str, then: Callable[[], None] | None = None) -> dict[str, Any]:
    """Keyword arguments that tie a widget to ``record.attribute``: its key, with its value put in, and its
    callback, which stores what was chosen and then calls ``then``."""
    key = f"{prefix}_{attribute}"
    st.session_state[key] = getattr(record, attribute)

    def store() -> None:
        setattr(record, attribute, st.session_state[key])
        if then is not None:
            then()

    return {"key": key, "on_change": store}


def is_dark() -> bool:
    """Whether the tab shows the dark theme."""
    return st.context.theme.type == "dark"
