"""A fixed reservation: the memory as a strip, and for each request what was reserved beside what is used."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from core.compare.report import StepReport, capacity_of, max_model_len_of
from core.trace.step import Trace
from pages.parts.labels import letter
from pages.parts.lessons import shadow
from pages.parts.lessons.drawings.basics import (
    SLOTS,
    Marks,
    badge,
    choices,
    drawing,
    legend,
    line,
    places,
    rect,
    segments,
    strip,
    text,
)  # fmt: skip
from pages.parts.lessons.pictures import Drawing
from pages.parts.words import t

NAME = "reserve max"
MOST_ROWS = 6
BAR_X, BAR = 330.0, 640.0


class Row(NamedTuple):
    """One sequence under the strategy. ``state``: "waiting", "running", "stopped", "done"."""

    sequence: str
    state: str
    prompt: int
    written: int
    reserved: int


def rows(trace: Trace, index: int, **settings: Any) -> list[Row]:
    """Every sequence that has arrived, in order, as it stands under the strategy after step ``index``."""
    steps = shadow.reports(trace, NAME, **settings)
    now = steps[index]
    held = {h.sequence: h for h in now.holdings}
    stopped = {s.sequence: s for s in now.stopped}
    taken = {e.sequence: e.length for one in steps[: index + 1] for e in one.events if e.name == "reserve"}
    prompts = {request.id: len(request.prompt_token_ids) for request in trace.requests}
    found = []
    for view in trace.steps[index].sequences:
        prompt, reserved = prompts[view.request], taken.get(view.id, 0)
        if view.id in held:
            one = held[view.id]
            reserved = sum(piece.length for piece in one.pieces)
            found.append(Row(view.id, "running", prompt, one.written, reserved))
        elif view.id in stopped:
            found.append(Row(view.id, "stopped", prompt, stopped[view.id].written, reserved))
        elif reserved:
            found.append(Row(view.id, "done", prompt, view.written, reserved))
        else:
            found.append(Row(view.id, "waiting", prompt, 0, 0))
    return found


def estimates(trace: Trace) -> list[int]:
    """Lengths to reserve, from the maximum down by halves, none below the shortest prompt."""
    longest = max_model_len_of(trace)
    shortest = min(len(request.prompt_token_ids) for request in trace.requests)
    found = [longest]
    while found[-1] // 2 > shortest and len(found) < 6:
        found.append(found[-1] // 2)
    return found


def reservation(trace: Any, index: int, lang: str, **settings: Any) -> Drawing:
    """The strip, the requests and what lies idle, after step ``index``."""
    now = shadow.report(trace, index, NAME, **settings)
    views = trace.steps[index].sequences
    place = places(views)
    capacity = capacity_of(trace)
    reserve = settings.get("estimate") or max_model_len_of(trace)
    marks: Marks = [
        text(0, 14, t("drawing.memory", lang, n=capacity), "strong"),
        text(1320, 14, t("drawing.reserve.each", lang, n=reserve), "end quiet"),
    ]
    marks += strip(0, 30, 1320, 48, segments(now.runs, capacity), place)
    shown = rows(trace, index, **settings)
    marks.append(text(0, 112, t("drawing.reserve.rows", lang), "strong"))
    marks += _rows(shown, reserve, place, now, lang)
    marks += _totals(now, lang)
    marks += legend(0, 490, SLOTS, lang)
    usage = now.usage
    numbers = {
        "live": usage.live,
        "held": usage.live + usage.reserved + usage.internal,
        "waiting": usage.waiting,
    }
    return drawing(marks, t("drawing.reserve.alt", lang, reserve=reserve, **numbers), 500)


def _rows(shown: list[Row], reserve: int, place: Mapping[str, int], now: StepReport, lang: str) -> Marks:
    """A line a request; the fewer there are, the taller they are."""
    unit = BAR / max([reserve, *(row.written for row in shown)])
    apart = min(270 / max(len(shown[:MOST_ROWS]), 1), 66.0)
    marks: Marks = []
    for number, row in enumerate(shown[:MOST_ROWS]):
        y = 126 + (number + 0.5) * apart
        marks += _row(row, y, min(0.3 * apart, 20.0), place, unit, now, lang)
    return marks


def _row(
    row: Row, y: float, half: float, place: Mapping[str, int], unit: float, now: StepReport, lang: str
) -> Marks:  # fmt: skip
    who = place[row.sequence]
    marks = badge(14, y, who)
    told = {"prompt": row.prompt, "new": max(row.written - row.prompt, 0)}
    marks.append(text(36, y + 1, t("drawing.reserve.lengths", lang, **told), "quiet"))
    end = BAR_X
    if row.state != "waiting":
        end = BAR_X + row.reserved * unit
        over = row.state == "done"  # it holds nothing any more
        bar = (BAR_X, y - half, row.reserved * unit, 2 * half)
        marks.append(rect(*bar, "ahead" if over else "empty", data_s=who))
        marks.append(rect(*bar[:2], row.written * unit, bar[3], "soft" if over else "live", data_s=who))
    if row.state == "stopped":
        marks.append(line(end, y - half - 5, end, y + half + 5, "rule shout"))
    numbers = {"reserved": row.reserved, "used": row.written, "idle": row.reserved - row.written}
    if row.state == "waiting" and now.waiting is not None:
        numbers |= {"need": now.waiting.need, "longest": now.waiting.longest}
        first = now.waiting.request == row.sequence.rpartition(".")[0]
        part = "queued" if not first else "next" if now.waiting.reason == "next" else "waiting"
        marks.append(text(BAR_X, y + 1, t(f"drawing.reserve.{part}", lang, **numbers), "shout"))
    elif row.state != "waiting":
        cls = "shout" if row.state == "stopped" else ""
        marks.append(
            text(max(end, BAR_X) + 14, y + 1, t(f"drawing.reserve.{row.state}", lang, **numbers), cls)
        )
    return marks


def _totals(now: StepReport, lang: str) -> Marks:
    usage = now.usage
    held = usage.live + usage.reserved + usage.internal
    share = f"{100 * usage.live / held:.0f} %" if held else "–"
    shown = [
        ("running", f"{usage.running}", ""),
        ("waiting", f"{usage.waiting}", ""),
        ("live", f"{usage.live:,}", ""),
        ("idle", f"{held - usage.live:,}", " shout"),
        ("share", share, ""),
    ]
    return _sums(shown, lang)


def _sums(shown: list[tuple[str, str, str]], lang: str) -> Marks:
    marks = [line(0, 412, 1320, 412)]
    for number, (name, value, cls) in enumerate(shown):
        x = number * 268
        marks += [
            text(x, 434, value, "big" + cls),
            text(x, 458, t(f"drawing.reserve.sum.{name}", lang), "quiet"),
        ]
    return marks


def knob(trace: Any, index: int, lang: str) -> Drawing:
    """The same step under other reserved lengths, chosen with a slider; a run that is full stops."""
    lengths = estimates(trace)
    drawings = [_whole(trace, index, lang, length) for length in lengths]
    at = min(too_small(trace, index), len(lengths) - 1)
    return choices(t("drawing.reserve.knob", lang), [f"{n:,}" for n in lengths], drawings, at)


def _whole(trace: Trace, index: int, lang: str, estimate: int) -> Drawing:
    """The run up to step ``index`` under one reserved length: the memory at its fullest, then what became of
    every request."""
    steps = shadow.reports(trace, NAME, estimate=estimate)[: index + 1]
    fullest = max(range(len(steps)), key=lambda k: (steps[k].usage.running, -k))
    capacity, place = capacity_of(trace), places(trace.steps[index].sequences)
    told = {"n": capacity, "k": fullest, "running": steps[fullest].usage.running}
    marks: Marks = [
        text(0, 14, t("drawing.reserve.fullest", lang, **told), "strong"),
        text(1320, 14, t("drawing.reserve.each", lang, n=estimate), "end quiet"),
    ]
    marks += strip(0, 30, 1320, 48, segments(steps[fullest].runs, capacity), place)
    marks.append(text(0, 112, t("drawing.reserve.rows", lang), "strong"))
    shown = rows(trace, index, estimate=estimate)
    marks += _rows(shown, estimate, place, steps[-1], lang)
    count = {state: sum(row.state == state for row in shown) for state in ("done", "stopped")}
    never = sum(row.reserved - row.written for row in shown if row.state == "done")
    left = len(shown) - sum(count.values())
    sums = [("peak", told["running"], ""), ("done", count["done"], ""), ("left", left, "")]
    sums += [("stopped", count["stopped"], " shout"), ("never", never, "")]
    marks += _sums([(name, f"{value:,}", cls) for name, value, cls in sums], lang)
    marks += legend(0, 490, SLOTS, lang)
    alt = t("drawing.reserve.knob.alt", lang, reserve=estimate, never=never, peak=told["running"], **count)
    return drawing(marks, alt, 500)


def too_small(trace: Trace, index: int) -> int:
    """Place of the longest reservation under which a sequence had to stop; the last one if none had to."""
    lengths = estimates(trace)
    for place, length in enumerate(lengths):
        if any(row.state == "stopped" for row in rows(trace, index, estimate=length)):
            return place
    return len(lengths) - 1


def paged(trace: Any, index: int, lang: str) -> Drawing:
    """The same requests in blocks, taken as tokens come: the trace's own run on the same slots."""
    step = trace.steps[index]
    place, usage = places(step.sequences), step.usage[0]
    capacity = capacity_of(trace)
    size = int(trace.meta["block_size"])
    now = shadow.report(trace, index, NAME)
    marks: Marks = [text(0, 14, t("strategy.reserve max", lang), "strong")]
    marks.append(text(1320, 14, t("drawing.at_once", lang, n=now.usage.running), "end strong"))
    marks += strip(0, 30, 1320, 48, segments(now.runs, capacity), place)
    marks.append(text(0, 114, t("drawing.paged", lang, size=size), "strong"))
    marks.append(text(1320, 114, t("drawing.at_once", lang, n=usage.running), "end strong shout"))
    marks += blocks(trace, index, 0, 132, 1320, 340)
    held = usage.live + usage.reserved + usage.internal
    shown = {"live": usage.live, "held": held, "idle": held - usage.live, "n": usage.running, "size": size}
    marks += legend(0, 490, SLOTS, lang)
    return drawing(marks, t("drawing.reserve.paged", lang, **shown), 500)


def blocks(
    trace: Trace, index: int, x: float, y: float, width: float, height: float,
    hue: Mapping[str, int] | None = None,
) -> Marks:  # fmt: skip
    """The pool as small blocks in order of number, each filled as far as it is written."""
    step, size = trace.steps[index], int(trace.meta["block_size"])
    total = int(trace.meta["num_blocks"])
    place = places(step.sequences)
    hue = place if hue is None else hue
    owner = {block: view.id for view in reversed(step.sequences) for block in view.block_table}
    filled = {block.id: block.filled for block in step.blocks}
    rows_ = max(1, round((total * height / width) ** 0.5))
    across = -(-total // rows_)
    wide, high = width / across, min(height / rows_, 64.0)
    marks: Marks = []
    for block in range(total):
        left, top = x + (block % across) * wide, y + (block // across) * high
        who = place.get(owner[block]) if block in owner else None
        box = (left + 1.5, top + 1.5, wide - 3, high - 3)
        if who is None:
            marks.append(rect(*box, "free"))
            continue
        tint = hue.get(owner[block], who)
        written = box[2] * filled.get(block, 0) / size
        marks.append(rect(*box, "empty", data_s=tint))
        marks.append(rect(box[0], box[1], written, box[3], "live", data_s=tint))
        if wide > 18:  # the letter never stands on the border between what is written and what is not
            inside = written >= 26 or wide < 40
            at = min(left + 12, left + wide / 2 - 5) if inside else box[0] + written + 6
            marks.append(text(at, top + high / 2 + 1, letter(who), "strong" if inside else "strong over"))
    return marks
