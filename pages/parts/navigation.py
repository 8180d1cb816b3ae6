"""The pages of the app: one line each. ``url_path`` is fixed for ever; titles follow the language."""

from __future__ import annotations

from typing import Literal, NamedTuple

import streamlit as st
from streamlit.navigation.page import StreamlitPage

from pages.parts.words import t


class Entry(NamedTuple):
    """A page: its file and its address (one segment; "" is the first page).

    No icon: Streamlit would make it the browser tab's, and fetch that from another host.
    """

    file: str
    url_path: str


ENTRIES = (
    Entry("pages/live.py", ""),
    Entry("pages/course.py", "course"),
    Entry("pages/lesson.py", "lesson"),
    Entry("pages/compare.py", "compare"),
    Entry("pages/race.py", "race"),
    Entry("pages/sharing.py", "sharing"),
    Entry("pages/capacity.py", "capacity"),
    Entry("pages/kernel.py", "kernel"),
)


def register(position: Literal["sidebar", "hidden"], lang: str = "en") -> StreamlitPage:
    """Tell Streamlit the pages; returns the one to run. Titles: the words ``page.<file stem>``."""
    pages = [
        st.Page(
            entry.file,
            title=t("page." + entry.file.removeprefix("pages/").removesuffix(".py"), lang),
            url_path=entry.url_path or None,
            default=not entry.url_path,
        )
        for entry in ENTRIES
    ]
    return st.navigation(pages, position=position if len(pages) > 1 else "hidden")
