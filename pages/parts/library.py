"""The recorded lessons: files that come with the app, each read once a process and shared by all tabs."""

from __future__ import annotations

import os
from pathlib import Path

import streamlit as st

from core.scenarios import LESSONS, SCENARIOS
from core.trace import load
from core.trace.step import Trace

_SUFFIX = ".kvtrace.json.gz"
EXTRA_FOLDER = "PAGED_KV_LESSONS"  # environment: a lecturer's own folder of recorded lessons


def folders() -> list[Path]:
    """Where lessons are looked for, in order."""
    extra = os.environ.get(EXTRA_FOLDER)
    return [LESSONS] + ([Path(extra)] if extra else [])


def lessons() -> dict[str, Path]:
    """Name -> file of every recorded lesson: the crafted ones in their order, then others by name.

    The first folder that has a name wins.
    """
    found: dict[str, Path] = {}
    for folder in folders():
        for path in sorted(folder.glob(f"*{_SUFFIX}")):
            found.setdefault(path.name.removesuffix(_SUFFIX), path)
    order = list(SCENARIOS)
    return dict(
        sorted(found.items(), key=lambda item: order.index(item[0]) if item[0] in order else len(order))
    )


@st.cache_resource(max_entries=32, show_spinner=False)
def _read(path: str, changed: int) -> Trace:
    return load(Path(path))


def lesson(name: str) -> Trace:
    """The trace of a lesson, not to be changed. Raises ValueError when there is none, or it is damaged."""
    path = lessons().get(name)
    if path is None:
        raise ValueError(f"There is no recorded lesson named {name!r}; choose one from the list.")
    return _read(str(path), path.stat().st_mtime_ns)


def _said(name: str, what: str, lang: str) -> str:
    scenario = SCENARIOS.get(name)
    return getattr(scenario, f"{what}_{lang}") if scenario else ""


def title(name: str, lang: str) -> str:
    """What a lesson is called; a lecturer's own recording goes by its file's name."""
    return _said(name, "title", lang) or name


def note(name: str, lang: str) -> str:
    """Where the recording differs from the course text; empty when there is nothing to say."""
    return _said(name, "note", lang)


def look(name: str, step: int, lang: str) -> str:
    """What to look at: in this step where it is one that matters, else in the lesson as a whole."""
    scenario = SCENARIOS.get(name)
    moments = {moment.step: moment for moment in scenario.moments} if scenario else {}
    return getattr(moments[step], lang) if step in moments else _said(name, "look", lang)
