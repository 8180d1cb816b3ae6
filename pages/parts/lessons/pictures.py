"""The main pictures of lessons, by name. "stage" is the stage; every other is a drawing made by a function.

A drawing is plain data, drawn by the component of ``sheet.py``:
  {"width", "height", "alt", "marks": [mark, ...]}     lengths in units; the sheet scales it to its room
  mark: [tag, {attribute: value}, text or [marks]]      tag: g, a, rect, path, line, circle, text, title
An "a" leads to another page of the app only ("./?..."). A drawing with "choices": {"label", "options", "at",
"drawings"} is one of several: the sheet offers a slider, or buttons when there are two, and asks nobody.
Attribute "class" picks colours and weights from assets/lessons_sheet.css (the four states of a slot are the
stage's: "live", "empty", "cached", "free"); "data-b" makes a mark answer a question of kind "block";
"data-s" gives it the hue of that sequence. Text is only ever set as text.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, Protocol

Drawing = dict[str, Any]

TAGS: Final = frozenset({"g", "a", "rect", "path", "line", "circle", "text", "title"})


class Picture(Protocol):
    """Draws step ``index`` of ``trace``: pure, JSON-able, with a text alternative in ``lang``."""

    def __call__(self, trace: Any, index: int, lang: str) -> Drawing: ...


# name -> module:function. Imported when first shown.
PICTURES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "recompute": "pages.parts.lessons.drawings.recompute:recompute",
        "reservation": "pages.parts.lessons.drawings.reservation:reservation",
        "reservation-knob": "pages.parts.lessons.drawings.reservation:knob",
        "reservation-paged": "pages.parts.lessons.drawings.reservation:paged",
        "holes": "pages.parts.lessons.drawings.holes:holes",
        "holes-fits": "pages.parts.lessons.drawings.holes:fits",
        "holes-compaction": "pages.parts.lessons.drawings.holes:compaction",
        "doubling": "pages.parts.lessons.drawings.doubling:doubling",
        "os-pages": "pages.parts.lessons.drawings.os_pages:os_pages",
        "analogy-same": "pages.parts.lessons.drawings.analogy:same",
        "analogy-breaks": "pages.parts.lessons.drawings.analogy:breaks",
        "batch": "pages.parts.lessons.drawings.batch:batch",
    }
)


def picture(name: str) -> Picture:
    """The function that draws ``name``. Raises ValueError for a picture that does not exist."""
    where = PICTURES.get(name)
    if where is None:
        raise ValueError(f"there is no picture {name!r}; there are stage, {', '.join(PICTURES)}.")
    module, function = where.split(":")
    drawn: Picture = getattr(importlib.import_module(module), function)
    return drawn


def mark(tag: str, inner: str | list[Any] = "", **attributes: Any) -> list[Any]:
    """One mark. ``cls`` is the class; an underscore in a name stands for a hyphen.

    Raises ValueError for a tag that the sheet does not draw.
    """
    if tag not in TAGS:
        raise ValueError(f"{tag!r} cannot be drawn; use one of {', '.join(sorted(TAGS))}.")
    named = {name: value for name, value in attributes.items() if value is not None}
    return [tag, {"class" if n == "cls" else n.replace("_", "-"): v for n, v in named.items()}, inner]
