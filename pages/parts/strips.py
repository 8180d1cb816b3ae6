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
from pages.parts.labels import letter
from pages.parts.say import strategy_name
from pages.parts.words import t

MAX_STRIPS = 4
Segment = list[Any]
Run = tuple[int, int, str, int]  # start, length, sequence, slots that hold a token


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
    runs, out_of_room = ({}, {}) if lockstep else _runs_of_events(trace, index)
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
    for name, found in runs.items():
        if not lockstep and name in usage:
            runs[name] = _scaled(found, usage[name].live)
    names = [name for name in usage if name != "paged"][: MAX_STRIPS - 1]
    rows = [
        _row(
            usage[name],
            _contiguous(usage[name], runs.get(name, []), place),
            _stopped(out_of_room.get(name, []), usage[name], place, lang)
            or _note(usage[name], waiting.get(name), refused.get(name, 0), lang),
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


def _stopped(sequences: list[str], usage: Usage, place: Mapping[str, int], lang: str) -> str:
    """That a sequence which goes on above has lost its run for want of room; empty when there is none."""
    who = "+".join(letter(place[name]) for name in sequences if name in place)
    return t("stage.no_room", lang, who=who, n=usage.copied) if who else ""


def _scaled(runs: list[Run], live: int) -> list[Run]:
    """The runs with ``live`` tokens in all: a strategy may be a step behind the sequences above it."""
    ahead = sum(run[3] for run in runs) - live
    scaled: list[Run] = []
    for left, (start, length, who, mine) in zip(range(len(runs), 0, -1), runs, strict=True):
        less = min(max(-(-ahead // left), mine - length), mine)  # its part of what is ahead, rounded up
        ahead -= less
        scaled.append((start, length, who, mine - less))
    return scaled


def _runs_of_events(trace: Trace, index: int) -> tuple[dict[str, list[Run]], dict[str, list[str]]]:
    """Runs that stand after step ``index``, from the events up to it, by strategy; and the sequences whose
    run was given back although they are not over: there was no room to go on."""
    standing: dict[str, dict[tuple[int, str], int]] = {}
    gone: dict[str, dict[str, None]] = {}
    for step in trace.steps[: index + 1]:
        for event in step.events:
            if not isinstance(event, (ev.Reserve, ev.Grow, ev.GiveBack)):
                continue
            match event:
                case ev.Reserve(strategy, sequence, start, length):
                    standing.setdefault(strategy, {})[start, sequence] = length
                    gone.setdefault(strategy, {}).pop(sequence, None)
                case ev.Grow(strategy, sequence, start, length, old_start, _, _):
                    runs = standing.setdefault(strategy, {})
                    runs.pop((old_start, sequence), None)
                    runs[start, sequence] = length
                case ev.GiveBack(strategy, sequence, start, _):
                    standing.setdefault(strategy, {}).pop((start, sequence), None)
                    gone.setdefault(strategy, {})[sequence] = None
    running = {view.id for view in trace.steps[index].sequences if view.state == "running"}
    stopped = {name: [who for who in names if who in running] for name, names in gone.items()}
    written = {view.id: view.written for view in trace.steps[index].sequences}
    found = {
        name: [
            (start, length, who, min(written.get(who, 0), length))
            for (start, who), length in sorted(runs.items())
        ]
        for name, runs in standing.items()
    }
    return found, stopped


def _contiguous(usage: Usage, runs: list[Run], place: dict[str, int]) -> list[Segment]:
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
