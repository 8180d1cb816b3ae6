"""One strategy's memory as a strip: what lies where, from slot 0 to the last. Pure.

A segment is [kind, length, owners, news]. Kinds, drawn the same on every page: "live" holds tokens,
"reserved" is held and may still be used, "internal" is held and never will be, "hole" (external) is free in a
run too short for who waits, "cached" is kept for reuse, "free". "promised" has been promised and lies nowhere
yet. ``news``: "" | "new" | "moved" in this step. The lengths of each kind add up to the step's usage.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from core.compare.report import StepReport
from core.memory import events as ev

Segment = list[Any]


def segments(report: StepReport, places: Mapping[str, int], policy: str | None) -> list[Segment]:
    """The strip after a step. ``places``: sequence -> its number, which is its letter and colour."""
    news = _news(report)
    usage = report.usage
    result: list[Segment] = []
    at = 0
    for start, length, owner, live, usable in report.runs:
        result += _gap(at, start, report, policy)
        who = [places[name] for name in owner.split("+") if name in places]
        mark = news.get(start, "")
        if not owner:
            _add(result, "cached", length, [], "")
        else:
            _add(result, "live", live, who, mark)
            _add(result, "reserved", usable - live, who, mark)
            _add(result, "internal", length - usable, who, mark)
        at = start + length
    result += _gap(at, usage.capacity, report, policy)
    return _promise(result, report, places)


def _add(result: list[Segment], kind: str, length: int, who: list[int], news: str) -> None:
    """Append, or lengthen the last segment where it is of the same kind and owners."""
    if length <= 0:
        return
    if result and result[-1][0] == kind and result[-1][2:] == [who, news]:
        result[-1][1] += length
    else:
        result.append([kind, length, who, news])


def _news(report: StepReport) -> dict[int, str]:
    """Start of a run -> what happened to it in this step."""
    found: dict[int, str] = {}
    for event in report.events:
        if isinstance(event, ev.Reserve):
            found[event.start] = "new"
        elif isinstance(event, ev.Grow) and event.strategy != "grow by one":  # it moves all, always
            found[event.start] = "moved"
    if report.compacted:
        targets = {copy.target for copy in report.copies}
        found |= {run.start: "moved" for run in report.runs if run.start in targets}
    return found


def _gap(start: int, end: int, report: StepReport, policy: str | None) -> list[Segment]:
    """The free slots [start, end) as the allocator sees them, each piece long enough for who waits or not."""
    result: list[Segment] = []
    for length in _pieces(start, end, policy):
        short = report.usage.external and report.waiting is not None and length < report.waiting.need
        _add(result, "hole" if short else "free", length, [], "")
    return result


def _pieces(start: int, end: int, policy: str | None) -> Iterator[int]:
    """A buddy allocator's free slots lie in powers of two, aligned to their size; others' in one piece."""
    if policy != "buddy":
        if end > start:
            yield end - start
        return
    while start < end:
        size = (end - start).bit_length() - 1
        if start:
            size = min(size, (start & -start).bit_length() - 1)
        yield 1 << size
        start += 1 << size


def _promise(result: list[Segment], report: StepReport, places: Mapping[str, int]) -> list[Segment]:
    """Slots promised and not handed out yet, drawn at the end of the free ones: they have no address."""
    due: list[Segment] = []
    for sequence, _, limit, pieces, promised in reversed(report.holdings):
        held = sum(piece.length for piece in pieces)
        usable = min(max(limit - held, 0), promised)
        who = [places[sequence]] if sequence in places else []
        _add(due, "promised", usable, who, "")
        _add(due, "internal", promised - usable, who, "")
    rest = sum(segment[1] for segment in due)
    for segment in reversed(result):
        if segment[0] == "free" and rest:
            taken = min(rest, segment[1])
            segment[1] -= taken
            rest -= taken
    return [segment for segment in result if segment[1]] + due


def sums(strip: list[Segment]) -> dict[str, int]:
    """Slots of each kind; what is promised counts as reserved."""
    found = dict.fromkeys(("live", "reserved", "internal", "external", "cached", "free"), 0)
    names = {"hole": "external", "promised": "reserved"}
    for kind, length, _, _ in strip:
        found[names.get(kind, kind)] += length
    return found
