"""The comparison as a table: operating system, paged KV memory, and a link to the step that shows it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pages.parts import library
from pages.parts.lessons.analogy import BREAKS, SAME, Line, links
from pages.parts.lessons.drawings.basics import Marks, drawing, fitted, line, rect, text
from pages.parts.lessons.pictures import Drawing, mark
from pages.parts.words import t

COLUMNS = (0.0, 150.0, 620.0, 1140.0)
ROOM = (140.0, 450.0, 500.0, 170.0)


def same(trace: Any, index: int, lang: str) -> Drawing:
    """What corresponds, line by line."""
    return _table("same", SAME, lang)


def breaks(trace: Any, index: int, lang: str) -> Drawing:
    """Where the analogy breaks, line by line."""
    return _table("breaks", BREAKS, lang)


def _table(kind: str, lines: Sequence[Line], lang: str) -> Drawing:
    marks: Marks = []
    for column, head in enumerate(("what", "os", "kv", "see")):
        marks.append(text(COLUMNS[column], 14, t(f"analogy.{head}", lang), "strong"))
    high = 440 / len(lines)
    for number, (one, found) in enumerate(zip(lines, links(lines, library.lesson, lang), strict=True)):
        y = 38 + number * high
        marks.append(line(0, y, 1320, y))
        cells = (f"analogy.{one.name}", f"analogy.{one.name}.os", f"analogy.{one.name}.kv")
        for column, key in enumerate(cells):
            cls = "strong" if column == 0 else "shout" if kind == "breaks" and column == 2 else ""
            told = fitted(t(key, lang), ROOM[column], 14)
            first = y + high / 2 - (len(told) - 1) * 9.5
            marks += [text(COLUMNS[column], first + k * 19, part, cls) for k, part in enumerate(told)]
        if found is not None:
            run, step, address = found
            label = t("analogy.link", lang, k=step)
            marks.append(
                mark(
                    "a",
                    [
                        mark("title", library.title(run, lang)),
                        rect(COLUMNS[3] - 6, y + high / 2 - 15, 176, 30, "key", rx=6),
                        text(COLUMNS[3] + 82, y + high / 2 + 1, f"{label} ↗", "middle strong"),
                    ],
                    href=address,
                    target="_blank",
                    rel="noopener",
                )
            )
    return drawing(marks, t(f"analogy.{kind}.alt", lang, n=len(lines)), 490)
