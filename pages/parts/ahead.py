"""What the first page needs is imported when the server starts, not while the first class waits for it.

``streamlit run app.py`` finds an ``st.App`` in the file, so the server imports it and then runs it as the
script of every tab. Measured on two cores: the first page comes half a second to a second earlier.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import import_module
from typing import Any

# The last two are for Streamlit: an icon brings numpy, the first label of an option compiles the emoji.
MODULES = ("pages.parts.main_page", "pages.parts.lessons.screen", "numpy", "streamlit.emojis")


@asynccontextmanager
async def lifespan(_app: Any) -> AsyncIterator[dict[str, Any]]:
    """Called by the server once its runtime is up: the pictures' components belong to it."""
    for name in MODULES:
        import_module(name)
    yield {}
