"""The main pictures of lessons, by name. "stage" is the stage; every other is a drawing made by a function.

A drawing is plain data, drawn by the component of ``sheet.py``:
  {"width", "height", "alt", "marks": [mark, ...]}     lengths in units; the sheet scales it to its room
  mark: [tag, {attribute: value}, text or [marks]]      tag: g, rect, path, line, circle, text, title
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

TAGS: Final = frozenset({"g", "rect", "path", "line", "circle", "text", "title"})


class Picture(Protocol):
    """Draws step ``index`` of ``trace``: pure, JSON-able, with a text alternative in ``lang``."""

    def __call__(self, trace: Any, index: int, lang: str) -> Drawing: ...


# name -> module:function. Imported when first shown.
PICTURES: Final[Mapping[str, str]] = MappingProxyType({})


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
