"""Recompute or cache: every forward pass a row, every token a cell; a triangle beside a diagonal."""

from __future__ import annotations

from typing import Any, NamedTuple

from core.memory import events as ev
from pages.parts.lessons.drawings.basics import (
    Marks,
    bytes_text,
    drawing,
    legend,
    line,
    rect,
    text,
    token,
)  # fmt: skip
from pages.parts.lessons.pictures import Drawing
from pages.parts.words import t

MOST_COLUMNS = 40  # of a long text the newest are drawn
TOP, FOOT = 62, 96


class Pass(NamedTuple):
    """One forward pass of one sequence: tokens it has afterwards in the cache, and those computed in it."""

    step: int
    length: int
    fresh: int


class Work(NamedTuple):
    """What a way of working has done: tokens processed, multiplications of attention, bytes of K and V."""

    tokens: int
    multiplications: int
    kv_bytes: int


def passes(trace: Any, index: int) -> list[Pass]:
    """The forward passes of the first sequence up to step ``index``."""
    found, length = [], 0
    name = f"{trace.requests[0].id}.0" if trace.requests else ""
    for step in trace.steps[: index + 1]:
        fresh = sum(e.count for e in step.events if isinstance(e, ev.Write) and e.sequence == name)
        length += fresh
        if fresh:
            found.append(Pass(step.index, length, fresh))
    return found


def _work(trace: Any, spans: list[tuple[int, int]]) -> Work:
    """Processing the tokens ``start`` ... ``end`` - 1 in each span. Attention: every token processed is
    multiplied with each key up to its own, and again with each value, in every layer and query head."""
    model = trace.meta.get("model", {})
    heads = int(model.get("layers", 0)) * int(model.get("query_heads", 0)) * int(model.get("head_dim", 0))
    tokens = sum(end - start for start, end in spans)
    pairs = sum(position + 1 for start, end in spans for position in range(start, end))
    return Work(tokens, 2 * heads * pairs, tokens * int(trace.meta.get("bytes_per_token", 0)))


def without_cache(trace: Any, rows: list[Pass]) -> Work:
    """Every pass computes all tokens so far."""
    return _work(trace, [(0, row.length) for row in rows])


def with_cache(trace: Any, rows: list[Pass]) -> Work:
    """Every pass computes the tokens that are not in the cache yet."""
    return _work(trace, [(row.length - row.fresh, row.length) for row in rows])


def recompute(trace: Any, index: int, lang: str) -> Drawing:
    """Both ways side by side, up to step ``index``."""
    rows = passes(trace, index)
    columns = rows[-1].length if rows else 1
    request = trace.requests[0]
    wide = max(request.max_written, columns)
    first = max(columns - MOST_COLUMNS, 0) if wide > MOST_COLUMNS else 0
    shown = min(wide, MOST_COLUMNS)
    left = 0.0
    marks: Marks = []
    both = (("without", without_cache(trace, rows)), ("with", with_cache(trace, rows)))
    for way, work in both:
        marks += _half(trace, rows, way, left, (first, shown), request.max_new_tokens, lang)
        marks += _totals(left, work, lang)
        left += 672
    kinds = [("computed", "drawing.cache.computed"), ("live", "drawing.cache.kept")]
    marks += legend(0, 490, kinds, lang)
    numbers = {"n": len(rows), "all": both[0][1].tokens, "cached": both[1][1].tokens}
    return drawing(marks, t("drawing.cache.alt", lang, **numbers), 500)


def _half(
    trace: Any, rows: list[Pass], way: str, left: float, window: tuple[int, int], steps: int, lang: str
) -> Marks:  # fmt: skip
    first, shown = window
    cell = min(530 / shown, 62.0)
    high = min((500 - TOP - FOOT) / max(steps, len(rows), 1), 42.0)
    x0 = left + 58
    marks: Marks = [text(left, 12, t(f"drawing.cache.{way}", lang), "big")]
    tokens = trace.steps[rows[-1].step].sequences[0].token_ids if rows else ()
    for column in range(shown):
        if first + column < len(tokens) and cell > 22:
            label = token(trace, tokens[first + column], cell)
            marks.append(text(x0 + (column + 0.5) * cell, TOP - 14, label, "middle mono"))
    for number, row in enumerate(rows):
        y = TOP + number * high
        last = number == len(rows) - 1
        marks.append(text(left + 50, y + high / 2, t("drawing.cache.pass", lang, k=number + 1), "end quiet"))
        fresh = row.length if way == "without" else row.fresh
        for position in range(first, min(row.length, first + shown)):
            computed = position >= row.length - fresh
            cls = ("computed" + (" news" if last else " past")) if computed else "live"
            x = x0 + (position - first) * cell
            marks.append(rect(x + 1, y + 1, cell - 2, high - 2, cls, data_s=0, rx=2))
        x = x0 + (row.length - first) * cell + 8
        marks.append(text(x, y + high / 2 + 1, str(fresh), "shout" if last else "quiet"))
    length = rows[-1].length if rows else 0
    for number in range(len(rows), steps):  # the steps to come
        y = TOP + number * high
        ahead = min(length + number - len(rows) + 1 - first, shown)
        marks.append(text(left + 50, y + high / 2, t("drawing.cache.pass", lang, k=number + 1), "end quiet"))
        marks.append(rect(x0 + 1, y + 3, ahead * cell - 2, high - 6, "ahead", rx=2))
    return marks


def _totals(left: float, work: Work, lang: str) -> Marks:
    y = 500 - FOOT + 18
    marks = [line(left, y - 12, left + 640, y - 12)]
    shown = (
        ("tokens", f"{work.tokens:,}"),
        ("attention", f"{work.multiplications / 1e6:,.1f}"),
        ("bytes", bytes_text(work.kv_bytes)),
    )
    for number, (name, value) in enumerate(shown):
        x = left + number * 214
        cls = "big shout" if name == "tokens" else "big"
        marks += [text(x, y + 8, value, cls), text(x, y + 31, t(f"drawing.cache.{name}", lang), "quiet")]
    return marks
