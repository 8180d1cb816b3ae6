"""The contiguous strategies behind a trace, as lessons ask for them: reports by step, computed once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from core.compare.lockstep import lockstep
from core.compare.report import StepReport
from core.memory import events as ev
from core.trace.step import Trace


class _Same:
    """A trace as a key: the same object at the same length (a live one grows)."""

    def __init__(self, trace: Trace) -> None:
        self.trace, self.steps = trace, len(trace.steps)

    def __hash__(self) -> int:
        return hash((id(self.trace), self.steps))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.trace is other.trace and self.steps == other.steps


@lru_cache(maxsize=64)
def _reports(key: _Same, name: str, settings: tuple[tuple[str, Any], ...]) -> tuple[StepReport, ...]:
    steps = lockstep(key.trace, [name], drain=False, **dict(settings))
    return tuple(step[name] for step in steps)


def reports(trace: Trace, name: str, **settings: Any) -> tuple[StepReport, ...]:
    """One report a step of ``trace`` under strategy ``name``; ``settings``: those of ``lockstep``."""
    return _reports(_Same(trace), name, tuple(sorted(settings.items())))


def report(trace: Trace, index: int, name: str, **settings: Any) -> StepReport:
    """The strategy after step ``index``."""
    return reports(trace, name, **settings)[index]


def holes(runs: Sequence[Any], capacity: int) -> list[int]:
    """Lengths of the free runs between ``runs``, in order of address."""
    found, at = [], 0
    for run in runs:
        if run.start > at:
            found.append(run.start - at)
        at = run.start + run.length
    return found + ([capacity - at] if at < capacity else [])


def grown(one: StepReport) -> list[ev.Grow]:
    """Sequences that moved to a longer run in this step."""
    return [event for event in one.events if isinstance(event, ev.Grow)]


def admitted(steps: Sequence[StepReport], index: int) -> set[str]:
    """Sequences that have had memory at some time up to step ``index``."""
    return {e.sequence for one in steps[: index + 1] for e in one.events if isinstance(e, ev.Reserve)}


def running(one: StepReport) -> set[str]:
    """Sequences that hold memory."""
    return {holding.sequence for holding in one.holdings}


def peak(steps: Sequence[StepReport]) -> int:
    """The most sequences that held memory at once."""
    return max((one.usage.running for one in steps), default=0)


def lengths(trace: Trace, index: int) -> Mapping[str, int]:
    """Tokens written by every sequence of the trace's own run after step ``index``."""
    return {view.id: view.written for view in trace.steps[index].sequences}
