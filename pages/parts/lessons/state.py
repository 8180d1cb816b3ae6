"""What one tab has of the course: which lesson, where in it, at what pace, and what was predicted."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import streamlit as st

from pages.parts import address
from pages.parts.lessons import LESSON_IDS, lesson
from pages.parts.lessons.lesson import Lesson
from pages.parts.lessons.walk import Pace, Place

SKIPPED = "skipped"  # an answer that was not given: the truth is told, nothing stands beside it


@dataclass(slots=True)
class Study:
    """One tab's place in the course. ``answers``: by (lesson, live or recorded, stop)."""

    id: str
    place: Place = field(default_factory=Place)
    pace: Pace = "stops"
    gates: bool = True
    live: bool = False
    selected: Any = None
    answers: dict[tuple[str, str, int], Any] = field(default_factory=dict)
    asked_stop: int | None = None  # from the address, until the lesson's runs are known
    quiz: dict[str, Any] = field(default_factory=dict)

    @property
    def lesson(self) -> Lesson:
        """The lesson on the screen."""
        return lesson(self.id)

    def key(self, stop: int) -> tuple[str, str, int]:
        """What the answer before a stop is filed under."""
        return self.id, "live" if self.live else "recorded", stop

    def forget(self) -> None:
        """Drop what was predicted and answered in this lesson, recorded or live: it asks again."""
        mine = self.key(0)[:2]
        self.answers = {key: value for key, value in self.answers.items() if key[:2] != mine}
        self.quiz = {key: value for key, value in self.quiz.items() if not key.startswith(f"quiz_{self.id}_")}

    def open(self, name: str, stop: int = 0) -> None:
        """Go to a stop of a lesson, recorded."""
        self.id, self.live, self.selected = name, False, None
        self.place, self.asked_stop = Place(), stop


def study() -> Study:
    """This tab's study, made on first use at the lesson and stop of the address."""
    if "study" not in st.session_state:
        asked = address.asked_lesson()
        begun = Study(asked if asked in LESSON_IDS else LESSON_IDS[0])
        begun.asked_stop = max(address.asked_step() - 1, 0)
        st.session_state.study = begun
    mine: Study = st.session_state.study
    return mine
