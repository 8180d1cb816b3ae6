"""What one tab looks at: which trace, at which step, what is selected."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import streamlit as st

from core.trace.step import Trace
from pages.parts import address, library

Source = Literal["recorded", "live"]


@dataclass(slots=True)
class View:
    """One tab's place. ``steps`` remembers the step of every trace that it has shown."""

    source: Source = "recorded"
    lesson: str | None = None  # name of the recorded lesson; None: the opened file
    opened: Trace | None = None
    opened_name: str = ""
    steps: dict[str, int] = field(default_factory=dict)
    selected: Any = None
    proof: bool = False

    @property
    def key(self) -> str:
        """What ``steps`` files this trace under."""
        return "live" if self.source == "live" else f"lesson:{self.lesson}" if self.lesson else "opened"

    def index(self, trace: Trace) -> int:
        """The step on the screen, within the trace."""
        return min(max(self.steps.get(self.key, 0), 0), max(len(trace.steps) - 1, 0))

    def go(self, index: int) -> None:
        """Show this step of the trace."""
        if index != self.steps.get(self.key):
            self.steps[self.key] = index

    def show_lesson(self, name: str) -> None:
        """Show a recorded lesson, from where it was left."""
        self.source, self.lesson, self.selected = "recorded", name, None

    def show_opened(self, name: str, trace: Trace) -> None:
        """Show a trace that was opened from a file, from its start."""
        self.source, self.lesson, self.selected = "recorded", None, None
        self.opened, self.opened_name = trace, name
        self.steps["opened"] = 0


def first_view() -> View:
    """Where a new tab begins: at the lesson and step of its address, else at the first lesson."""
    names = library.lessons()
    view = View()
    asked = address.asked_lesson()
    if asked in names:
        view.show_lesson(asked)
        view.go(address.asked_step())
    elif names:
        view.show_lesson(next(iter(names)))
    return view


def view() -> View:
    """This tab's view, made on first use."""
    if "view" not in st.session_state:
        st.session_state.view = first_view()
    return st.session_state.view
