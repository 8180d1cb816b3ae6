"""The course: every idea of the text as a lesson. Each lesson is a file here that defines ``LESSON``."""

from __future__ import annotations

import importlib
from functools import cache
from typing import Final

from pages.parts.lessons.lesson import Lesson

# In the order of the course text; the id is the address, the module its name with underscores.
LESSON_IDS: Final[tuple[str, ...]] = (
    "parts",
    "recompute-or-cache",
    "fixed-reservation",
    "holes",
    "doubling",
    "os-pages",
    "paged-attention",
    "sharing",
    "copy-on-write",
    "many-answers",
    "sharing-rules",
    "beam-search",
    "batch-size",
    "prefix-reuse",
    "running-dry",
)


@cache
def lesson(name: str) -> Lesson:
    """The lesson with this id. Raises ValueError when there is none."""
    if name not in LESSON_IDS:
        raise ValueError(f"There is no lesson {name!r}; there are {', '.join(LESSON_IDS)}.")
    module = importlib.import_module(f"pages.parts.lessons.{name.replace('-', '_')}")
    found: Lesson = module.LESSON
    return found
