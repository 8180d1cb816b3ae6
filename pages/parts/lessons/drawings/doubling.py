"""Doubling: the runs of a growing array, where each came from, and the tokens copied so far."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from core.compare.report import StepReport, capacity_of
from core.memory import events as ev
from core.trace.step import Trace
from pages.parts.labels import letter
from pages.parts.lessons import shadow
from pages.parts.lessons.drawings.basics import (
    SLOTS,
    Marks,
    bytes_text,
    curve,
    drawing,
    hues,
    legend,
    line,
    places,
    rect,
    segments,
    strip,
    text,
)  # fmt: skip
from pages.parts.lessons.pictures import Drawing, mark
from pages.parts.words import t

NAMES = ("doubling", "grow by one")
COLOURS = {"doubling": "#7B61C4", "grow by one": "#A6761D", "paged": "#0072B2"}  # those of the compare page
MOST_ARROWS = 2  # more of them at once teach nothing
CHART = (150.0, 330.0, 860.0, 120.0)  # left, top, width, height


def reports(trace: Trace, name: str = "doubling") -> tuple[StepReport, ...]:
    """A growing strategy behind the trace."""
    return shadow.reports(trace, name)


def doubling(trace: Any, index: int, lang: str) -> Drawing:
    """Both growing strategies after step ``index``, and what each has copied since the first step."""
    place = places(trace.steps[index].sequences)
    hue = hues(trace, index, *(reports(trace, name) for name in NAMES))
    capacity = capacity_of(trace)
    marks: Marks = []
    for number, name in enumerate(NAMES):
        marks += _memory(reports(trace, name)[index], 22 + number * 140, capacity, place, hue, lang)
    marks += _chart(trace, index, lang)
    kinds = [*SLOTS, ("ghost", "drawing.doubling.old")]
    marks += legend(0, 490, kinds, lang)
    told = {name: reports(trace, name)[index].usage.copied for name in NAMES}
    alt = t("drawing.doubling.alt", lang, double=told[NAMES[0]], one=told[NAMES[1]])
    return drawing(marks, alt, 500)


def _memory(
    now: StepReport, y: float, capacity: int, place: dict[str, int], hue: dict[str, int], lang: str
) -> Marks:  # fmt: skip
    usage = now.usage
    unit = 1320 / capacity
    title = t(f"strategy.{usage.strategy}", lang)
    marks: Marks = [text(0, y, title, "strong")]
    told = t("drawing.doubling.copied", lang, n=usage.copied)
    marks.append(text(1320, y, told, "end strong"))
    marks += strip(0, y + 18, 1320, 42, segments(now.runs, capacity), place, hue=hue)
    held = shadow.running(now)
    grown = [event for event in shadow.grown(now) if event.sequence in held]  # others have ended since
    for event in grown if len(grown) <= MOST_ARROWS else ():
        who = t("drawing.doubling.was", lang, who=letter(place[event.sequence]))
        marks += _move(event, y + 18, unit, hue[event.sequence], who)
    marks += _stuck(now, y + 18, capacity, unit)
    marks.append(
        text(0, y + 104, _said(now, grown, place, lang), "shout" if grown or now.waiting else "quiet")
    )
    return marks


def _stuck(now: StepReport, y: float, capacity: int, unit: float) -> Marks:
    """Who cannot grow, and the free pieces that are all too short, in the accent colour."""
    if now.waiting is None or not now.waiting.growing or now.waiting.reason != "fragmented":
        return []
    whole = [(run.start, run.length) for run in now.runs if run.owner == now.waiting.sequence]
    at = 0
    for kind, length, _ in segments(now.runs, capacity):
        whole += [(at, length)] if kind == "free" else []
        at += length
    return [rect(start * unit + 1.5, y - 1, length * unit - 3, 44, "news", rx=2) for start, length in whole]


def _move(event: ev.Grow, y: float, unit: float, who: int, was: str) -> Marks:
    """The old run, given back a moment ago, and an arrow to where its tokens went."""
    old = (event.old_start * unit, event.old_length * unit)
    new = (event.start * unit, event.length * unit)
    a, b = old[0] + old[1] / 2, new[0] + event.copied * unit / 2
    low = y + 42
    path = f"M{a:.1f} {low}C{a:.1f} {low + 30},{b:.1f} {low + 30},{b:.1f} {low + 4}"
    return [
        rect(old[0], y - 3, old[1], 48, "ghost", data_s=who),
        rect(new[0], y - 2, new[1], 46, "news", data_s=who),
        ["path", {"d": path, "class": "arrow shout"}, ""],
        [
            "path",
            {"d": f"M{b - 5:.1f} {low + 11}L{b:.1f} {low + 2}L{b + 5:.1f} {low + 11}Z", "class": "head"},
            "",
        ],
        text(old[0] + 4, low + 13, was, "quiet over")
        if b > a
        else text(old[0] + old[1] - 4, low + 13, was, "quiet over end"),  # where the arrow does not go
    ]


def _said(now: StepReport, grown: Sequence[ev.Grow], place: dict[str, int], lang: str) -> str:
    if len(grown) == 1:
        one = grown[0]
        told = {"who": letter(place[one.sequence]), "old": one.old_length, "new": one.length, "n": one.copied}
        return t("drawing.doubling.grew", lang, both=one.old_length + one.length, **told)
    if grown:
        total = sum(event.copied for event in grown)
        return t("drawing.doubling.many", lang, moves=len(grown), n=total)
    if now.waiting is not None and now.waiting.growing:
        waiting = now.waiting
        who = letter(place[waiting.sequence])
        told = {"who": who, "need": waiting.need, "longest": waiting.longest, "free": waiting.free}
        return t(f"drawing.doubling.{waiting.reason}", lang, **told)
    return t("drawing.doubling.none" if now.runs else "drawing.doubling.over", lang)


def _chart(trace: Trace, index: int, lang: str) -> Marks:
    """Tokens copied since the first step, by step, up to now; the room is for the whole run."""
    left, top, width, height = CHART
    told = {name: [one.usage.copied for one in reports(trace, name)] for name in NAMES}
    most = max(_most(trace), *(copied[-1] for copied in told.values()))
    last = max(int(trace.meta.get("steps_in_all", len(trace.steps))) - 1, 1)
    across = width / last
    marks: Marks = [text(0, top - 18, t("drawing.doubling.chart", lang), "strong")]
    marks += [line(left, top + height, left + width, top + height), line(left, top, left, top + height)]
    marks += [
        text(left - 10, top + 4, f"{most:,}", "end quiet"),
        text(left - 10, top + height, "0", "end quiet"),
    ]
    for step in (0, last // 2, last):
        marks.append(text(left + step * across, top + height + 15, step, "middle quiet"))
    ends = []
    for name in (*NAMES, "paged"):
        copied = told.get(name) or [step.usage[0].copied for step in trace.steps]
        points = [(left + k * across, top + height * (1 - copied[k] / most)) for k in range(index + 1)]
        style = f"--h:{COLOURS[name]}"
        marks.append(curve(points, "curve", style=style))
        x, y = points[-1]
        marks.append(mark("circle", cx=round(x, 1), cy=round(y, 1), r=5, cls="badge", style=style))
        label = f"{t(f'strategy.{name}', lang)}: {copied[index]:,}"
        label += f" ({bytes_text(copied[index] * int(trace.meta.get('bytes_per_token', 0)))})"
        ends.append((y, label, style))
    below = top - 20.0
    for y, label, style in sorted(ends):
        at = max(y, below + 20)
        below = at
        marks += [rect(left + width + 16, at - 6, 12, 12, "badge", style=style)]
        marks.append(text(left + width + 36, at + 1, label, "strong"))
    marks.append(line(left + index * across, top, left + index * across, top + height, "rule shout"))
    return marks


def _most(trace: Trace) -> int:
    """Tokens that growing by one copies if every request takes all the tokens that it may: known beforehand,
    so that the axis is the same in every step."""
    prompts = ((len(one.prompt_token_ids), one.max_new_tokens) for one in trace.requests)
    return sum(sum(range(prompt, prompt + new - 1)) for prompt, new in prompts) or 1
