"""The same requests in contiguous memory: one strip of all token slots a strategy, to the same scale. Pure.

A strip is a list of segments [kind, length, owners]: what lies where, from slot 0 to the last. Kinds:
"live" holds tokens, "empty" is taken and holds none, "hole" is free in a run too short for the next request,
"free", "cached".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from core.memory import events as ev
from core.memory.views import Usage
from core.trace.step import Step, Trace
from pages.parts.say import strategy_name
from pages.parts.words import t

MAX_STRIPS = 4
Segment = list[Any]


class Report(Protocol):
    """What is used of a ``core.compare.report.StepReport``."""

    @property
    def usage(self) -> Usage: ...
    @property
    def runs(self) -> Sequence[Any]: ...
    @property
    def waiting(self) -> Any: ...
    @property
    def stopped(self) -> Sequence[Any]: ...


def strips(
    trace: Trace, index: int, lang: str, lockstep: Sequence[Mapping[str, Report]] | None
) -> list[dict[str, Any]]:
    """One strip a strategy, the contiguous ones first and "paged" last.

    ``lockstep``: per step {name: report} as ``core.compare.lockstep`` gives it. Without it the runs are
    those of the trace's own reserve, grow and give_back events.
    """
    step = trace.steps[index]
    usage = {entry.strategy: entry for entry in step.usage}
    runs = {} if lockstep else _runs_of_events(trace, index)
    waiting: dict[str, Any] = {}
    refused: dict[str, int] = {}
    for name, report in lockstep[min(index, len(lockstep) - 1)].items() if lockstep else ():
        usage[name] = report.usage
        waiting[name] = report.waiting
        refused[name] = len(
            {end.sequence.rpartition(".")[0] for end in report.stopped if end.reason == "never fits"}
        )
        runs[name] = [(run.start, run.length, run.owner, run.live) for run in report.runs]
    place = {view.id: number for number, view in enumerate(step.sequences)}
    names = [name for name in usage if name != "paged"][: MAX_STRIPS - 1]
    rows = [
        _row(
            usage[name],
            _contiguous(usage[name], runs.get(name, []), place),
            _note(usage[name], waiting.get(name), refused.get(name, 0), lang),
            lang,
        )
        for name in names
    ]
    if "paged" in usage:
        left = t("stage.left", lang, n=_blocks_left(trace, step))
        rows.append(
            _row(usage["paged"], _paged(step, usage["paged"], int(trace.meta["block_size"])), left, lang)
        )
    return rows


def _blocks_left(trace: Trace, step: Step) -> int:
    return int(trace.meta["num_blocks"]) - sum(1 for block in step.blocks if block.state == "used")


def _row(usage: Usage, segments: list[Segment], note: str, lang: str) -> dict[str, Any]:
    return {
        "name": usage.strategy,
        "label": strategy_name(usage.strategy, lang),
        "segs": segments,
        "useful": useful(usage),
        "note": note,
    }


def useful(usage: Usage) -> int | None:
    """Of the slots that a strategy has taken, the per cent that hold tokens; None when it has taken none."""
    taken = usage.live + usage.reserved + usage.internal
    return round(100 * usage.live / taken) if taken else None


def _note(usage: Usage, head: Any, refused: int, lang: str) -> str:
    """What this strategy pays just now: who waits and why, else what was copied, else what is left."""
    if head is not None and head.reason in ("full", "fragmented"):
        return t(f"stage.why.{head.reason}", lang, need=head.need, free=head.free, longest=head.longest)
    if refused:
        return t("stage.never_fits", lang, n=refused)
    if usage.waiting:
        return t("stage.waits", lang, n=usage.waiting)
    if usage.copied:
        return t("stage.moved", lang, n=usage.copied)
    return t("stage.slots_left", lang, n=usage.free + usage.external)


def _runs_of_events(trace: Trace, index: int) -> dict[str, list[tuple[int, int, str, int]]]:
    """Runs (start, length, sequence, live) that stand after step ``index``, from the events up to it."""
    standing: dict[str, dict[tuple[int, str], int]] = {}
    for step in trace.steps[: index + 1]:
        for event in step.events:
            if not isinstance(event, (ev.Reserve, ev.Grow, ev.GiveBack)):
                continue
            match event:
                case ev.Reserve(strategy, sequence, start, length):
                    standing.setdefault(strategy, {})[start, sequence] = length
                case ev.Grow(strategy, sequence, start, length, old_start, _, _):
                    runs = standing.setdefault(strategy, {})
                    runs.pop((old_start, sequence), None)
                    runs[start, sequence] = length
                case ev.GiveBack(strategy, sequence, start, _):
                    standing.setdefault(strategy, {}).pop((start, sequence), None)
    written = {view.id: view.written for view in trace.steps[index].sequences}
    return {
        name: [
            (start, length, who, min(written.get(who, 0), length))
            for (start, who), length in sorted(runs.items())
        ]
        for name, runs in standing.items()
    }


def _contiguous(usage: Usage, runs: list[tuple[int, int, str, int]], place: dict[str, int]) -> list[Segment]:
    """Segments of a strip from its runs; what lies between them is free, or a hole while somebody waits."""
    gap = "hole" if usage.external else "free"
    segments: list[Segment] = []
    at = 0
    for start, length, owner, live in sorted(runs):
        if start > at:
            segments.append([gap, start - at, []])
        who = [place[name] for name in owner.split("+") if name in place]
        segments += [["live", live, who]] if live else []
        segments += [["empty", length - live, who]] if length > live else []
        at = start + length
    if at < usage.capacity:
        segments.append([gap, usage.capacity - at, []])
    return segments


def _paged(step: Step, usage: Usage, size: int) -> list[Segment]:
    """The pool as a strip: blocks with the same owners side by side, a shared one once."""
    groups: dict[tuple[int, ...], list[int]] = {}
    for place, view in enumerate(step.sequences):
        for block in view.block_table:
            groups.setdefault((block,), []).append(place)
    filled = {block.id: block.filled for block in step.blocks}
    sums: dict[tuple[int, ...], list[int]] = {}
    for (block,), owners in groups.items():
        total = sums.setdefault(tuple(owners), [0, 0])
        total[0] += filled.get(block, 0)
        total[1] += size - filled.get(block, 0)
    segments: list[Segment] = []
    for owners, (live, empty) in sorted(sums.items(), key=lambda item: (-len(item[0]), item[0])):
        segments += [["live", live, list(owners)]] if live else []
        segments += [["empty", empty, list(owners)]] if empty else []
    segments += [["cached", usage.cached, []]] if usage.cached else []
    rest = usage.capacity - sum(segment[1] for segment in segments)
    return segments + ([["free", rest, []]] if rest > 0 else [])
