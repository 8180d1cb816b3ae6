"""The contiguous strategies of a trace, step by step beside it: who holds what, who waits and why."""

from __future__ import annotations

from dataclasses import dataclass, field

from core.compare.lockstep import Lockstep
from core.compare.report import StepReport, capacity_of, max_model_len_of
from core.trace.step import Trace


@dataclass(slots=True)
class Follower:
    """Reports for a trace that may still grow: each step is followed once, and then kept."""

    trace: Trace
    reports: list[dict[str, StepReport]] = field(default_factory=list)
    _lockstep: Lockstep | None = None

    def so_far(self) -> list[dict[str, StepReport]]:
        """One dict a step, strategy -> report, for the contiguous strategies that the trace names."""
        trace = self.trace
        if self._lockstep is None:
            names = [u.strategy for u in trace.steps[0].usage if u.strategy != "paged"] if trace.steps else []
            self._lockstep = Lockstep(
                names,
                capacity=capacity_of(trace),
                max_model_len=max_model_len_of(trace),
                block_size=int(trace.meta["block_size"]),
            )
        requests = {request.id: request for request in trace.requests}
        for step in trace.steps[len(self.reports) :]:
            self.reports.append(self._lockstep.advance(step.index, step.sequences, requests))
        return self.reports


def follow(trace: Trace, memo: dict[str, Follower]) -> list[dict[str, StepReport]] | None:
    """The reports of ``trace``; ``memo`` (a tab's own) keeps the last trace's, so that a click costs nothing.

    None when a strategy of the trace is unknown here (a file of another program): its events are drawn then.
    """
    known = memo.get("last")
    if known is None or known.trace is not trace:
        known = memo["last"] = Follower(trace)
    if not trace.steps:
        return None
    try:
        return known.so_far()
    except ValueError:
        return None
