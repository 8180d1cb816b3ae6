"""The recorded lessons: files that come with the app, each read once a process and shared by all tabs."""

from __future__ import annotations

import os
from pathlib import Path

import streamlit as st

from core.trace import load
from core.trace.step import Trace
from pages.parts.words import t, vocabulary

_SUFFIX = ".kvtrace.json.gz"
_LESSONS = Path(__file__).resolve().parents[2] / "assets" / "lessons"
EXTRA_FOLDER = "PAGED_KV_LESSONS"  # environment: a lecturer's own folder of recorded lessons


def folders() -> list[Path]:
    """Where lessons are looked for, in order."""
    extra = os.environ.get(EXTRA_FOLDER)
    return [_LESSONS] + ([Path(extra)] if extra else [])


def lessons() -> dict[str, Path]:
    """Name -> file of every recorded lesson; the first folder that has a name wins."""
    found: dict[str, Path] = {}
    for folder in folders():
        for path in sorted(folder.glob(f"*{_SUFFIX}")):
            found.setdefault(path.name.removesuffix(_SUFFIX), path)
    return found


@st.cache_resource(max_entries=32, show_spinner=False)
def _read(path: str, changed: int) -> Trace:
    return load(Path(path))


def lesson(name: str) -> Trace:
    """The trace of a lesson, not to be changed. Raises ValueError when there is none, or it is damaged."""
    path = lessons().get(name)
    if path is None:
        raise ValueError(f"There is no recorded lesson named {name!r}; choose one from the list.")
    return _read(str(path), path.stat().st_mtime_ns)


def title(name: str, lang: str) -> str:
    """What a lesson is called: the words ``lesson.<name>``, else its name (a lecturer's own recording)."""
    return t(f"lesson.{name}", lang) if f"lesson.{name}" in vocabulary(lang) else name


def note(name: str, lang: str) -> str | None:
    """What to look at in a lesson: the words ``lesson.<name>.note``."""
    key = f"lesson.{name}.note"
    return t(key, lang) if key in vocabulary(lang) else None
