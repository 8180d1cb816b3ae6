"""Holes: what is free lies in pieces; the request that waits is drawn to the same scale as the memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from core.compare.report import StepReport, capacity_of
from core.memory.strips import Waiting
from core.trace.step import Trace
from pages.parts.labels import letter
from pages.parts.lessons import shadow
from pages.parts.lessons.drawings.basics import (
    SLOTS,
    Marks,
    choices,
    drawing,
    hues,
    legend,
    places,
    rect,
    segments,
    strip,
    text,
)  # fmt: skip
from pages.parts.lessons.drawings.reservation import blocks
from pages.parts.lessons.pictures import Drawing
from pages.parts.words import t

NAME = "exact"  # every length known beforehand: no strategy wastes less, and the holes come all the same
POLICIES = ("first fit", "best fit")
TOP = 86.0


def reports(trace: Trace, policy: str = "first fit", **settings: Any) -> tuple[StepReport, ...]:
    """The contiguous strategy that reserves what a request can fill, prompt + max_new_tokens - 1, no more.

    It is not told when a request ended early: a trace that is cut off must give the same picture.
    """
    return shadow.reports(trace, NAME, policy=policy, know_lengths=False, **settings)


def met(trace: Trace, index: int, policy: str = "first fit") -> Waiting | None:
    """Who waited at the head of the queue when step ``index`` began, and what there was."""
    return reports(trace, policy)[index - 1].waiting if index else None


def holes(trace: Any, index: int, lang: str) -> Drawing:
    """First fit after step ``index``, and the pool of the trace's own run below."""
    return _drawn(trace, index, lang, reports(trace)[index], "first fit", None)


def fits(trace: Any, index: int, lang: str) -> Drawing:
    """First fit, best fit: the same requests, chosen with a button."""
    drawn = [_drawn(trace, index, lang, reports(trace, p)[index], p, None) for p in POLICIES]
    return choices(
        t("drawing.holes.policy", lang), [t(f"drawing.holes.{p}", lang) for p in POLICIES], drawn, 1
    )


def compaction(trace: Any, index: int, lang: str) -> Drawing:
    """The same step as it was, and with the memory compacted before it: a button, and its cost."""
    compacted = reports(trace, compact_at=(index,))[index]
    moved = sum(copy.tokens for copy in compacted.copies)
    drawn = [
        _drawn(trace, index, lang, reports(trace)[index], "first fit", None),
        _drawn(trace, index, lang, compacted, "first fit", moved),
    ]
    options = [t("drawing.holes.as_is", lang), t("drawing.holes.compact", lang)]
    return choices(t("drawing.holes.compaction", lang), options, drawn, 0)


def _drawn(
    trace: Trace, index: int, lang: str, now: StepReport, policy: str, moved: int | None
) -> Drawing:  # fmt: skip
    step, capacity = trace.steps[index], capacity_of(trace)
    place = places(step.sequences)
    hue = hues(trace, index, *(reports(trace, name) for name in POLICIES))
    unit = 1320 / capacity
    free = shadow.holes(now.runs, capacity)
    numbers = {"n": len(free), "free": sum(free), "longest": max(free, default=0)}
    title = t(f"drawing.holes.title.{policy}", lang, n=capacity)
    marks: Marks = [text(0, 14, title, "strong")]
    marks.append(text(1320, 14, t("drawing.at_once", lang, n=now.usage.running), "end strong"))
    waiting = now.waiting
    if waiting is not None and waiting.sequence in place:
        marks += _candidate(waiting, unit, place[waiting.sequence], hue.get(waiting.sequence, 0), lang)
    else:
        marks.append(text(0, 56, t("drawing.holes.nobody", lang), "quiet"))
    marks += strip(0, TOP, 1320, 58, segments(now.runs, capacity), place, hue=hue)
    if moved is None and index:
        marks += _left(reports(trace, policy)[index - 1], now, capacity, unit)
    told = t("drawing.holes.sum", lang, **numbers)
    if moved is not None:
        told = t("drawing.holes.moved", lang, n=moved)
    marks.append(text(0, TOP + 80, told, "shout" if waiting or moved else "quiet"))
    marks += _paged(trace, index, hue, lang)
    foot = _foot(int(trace.meta["num_blocks"]))
    marks += legend(0, foot + 36, SLOTS, lang)
    wants = {"need": waiting.need, "who": letter(place.get(waiting.sequence, 0))} if waiting else {}
    alt = t("drawing.holes.alt.waits" if waiting else "drawing.holes.alt", lang, **numbers, **wants)
    return drawing(marks, alt, foot + 48)


def _left(before: StepReport, now: StepReport, capacity: int, unit: float) -> Marks:
    """The holes that somebody left in this step, in the accent colour."""
    held = {run.owner for run in now.runs}
    gone = [(run.start, run.start + run.length) for run in before.runs if run.owner not in held]
    marks: Marks = []
    at = 0
    for kind, length, _ in segments(now.runs, capacity):
        if kind == "free" and any(start < at + length and end > at for start, end in gone):
            marks.append(rect(at * unit, TOP - 2, length * unit, 62, "news", rx=2))
            if length * unit > 16:
                marks.append(text((at + length / 2) * unit, TOP + 30, f"{length:,}", "middle shout"))
        at += length
    return marks


def _candidate(waiting: Waiting, unit: float, who: int, hue: int, lang: str) -> Marks:
    wide = waiting.need * waiting.runs * unit
    told = {"who": letter(who), "need": waiting.need}
    return [
        rect(0, 34, wide, 40, "soft news", data_s=hue),
        text(wide / 2, 55, f"{letter(who)} {waiting.need}", "middle strong"),
        text(wide + 16, 55, t(f"drawing.holes.{waiting.reason}", lang, **told), "shout"),
    ]


def _paged(trace: Trace, index: int, hue: Mapping[str, int], lang: str) -> Marks:
    step = trace.steps[index]
    size, total = int(trace.meta["block_size"]), int(trace.meta["num_blocks"])
    used = sum(1 for block in step.blocks if block.ref)
    marks: Marks = [text(0, 218, t("drawing.holes.paged", lang, size=size, n=total), "strong")]
    marks.append(text(1320, 218, t("drawing.at_once", lang, n=step.usage[0].running), "end strong"))
    marks += blocks(trace, index, 0, 236, 1320, 190, hue)
    marks.append(text(0, _foot(total), t("drawing.holes.any", lang, n=total - used), "quiet"))
    return marks


def _foot(total: int) -> float:
    """Below a pool of ``total`` blocks."""
    rows = max(1, round((total * 190 / 1320) ** 0.5))
    return 236 + rows * min(190 / rows, 64.0) + 22
