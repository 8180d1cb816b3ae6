"""Any trace under any set of strategies, without running the model again. Pure Python.

The paged run of the trace sets the tokens; every other strategy follows them on the same number of slots,
with its own queue and at its own pace (see ``core.memory.contiguous``). Strategies that admit later finish
later: the report goes on after the trace's last step until all of them are done.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from core.compare.report import StepReport, capacity_of, final_lengths, max_model_len_of, paged_report
from core.memory.contiguous import STRATEGIES, make_strategy
from core.memory.scripts import Scripts
from core.memory.strategy import Strategy
from core.memory.views import RequestView, SequenceView
from core.trace.step import Trace

PAGED = "paged"  # the trace's own run, with whatever it shares
MAX_EXTRA_STEPS = 100_000


class Lockstep:
    """Several strategies behind one paged run. Feed it a picture a step; it answers with a report a
    strategy."""

    def __init__(
        self,
        names: Sequence[str],
        *,
        capacity: int,
        max_model_len: int,
        block_size: int = 16,
        policy: str | None = None,
        estimate: int | None = None,
        overflow: str = "stop",
        final_lengths: Mapping[str, int] | None = None,
        hindsight: bool = False,
    ) -> None:
        """See ``make_strategy`` for the settings. ``hindsight``: usage and runs are counted with
        ``final_lengths``. Raises ValueError for a strategy that does not exist."""
        scripts = Scripts()
        self._finals = final_lengths if hindsight else None
        self.strategies: dict[str, Strategy] = {
            name: make_strategy(
                name, capacity=capacity, max_model_len=max_model_len, block_size=block_size, policy=policy,
                estimate=estimate, overflow=overflow, final_lengths=final_lengths, scripts=scripts,
            )
            for name in names
        }  # fmt: skip

    def advance(
        self,
        index: int,
        sequences: tuple[SequenceView, ...],
        requests: Mapping[str, RequestView],
        compact: bool = False,
    ) -> dict[str, StepReport]:
        """Every strategy after step ``index``. ``compact``: those that can are compacted before it."""
        reports = {}
        for name, strategy in self.strategies.items():
            moved = strategy.compact() if compact and strategy.can_compact else ()
            events = strategy.advance(index, sequences, requests)
            reports[name] = StepReport(
                strategy.usage(self._finals),
                strategy.holdings(self._finals),
                strategy.head_of_queue(),
                events,
                moved + strategy.copies,
                strategy.recomputed,
                strategy.preempted,
                tuple(strategy.stopped.values()),
                compacted=sum(copy.tokens for copy in moved),
            )
        return reports

    @property
    def changed(self) -> bool:
        """Something happened in some strategy in the last step."""
        return any(strategy.changed for strategy in self.strategies.values())


def lockstep(
    trace: Trace,
    names: Sequence[str] = STRATEGIES,
    *,
    max_model_len: int | None = None,
    policy: str | None = None,
    estimate: int | None = None,
    overflow: str = "stop",
    know_lengths: bool = True,
    hindsight: bool = False,
    drain: bool = True,
    compact_at: Collection[int] = (),
) -> list[dict[str, StepReport]]:
    """The trace step by step under each strategy in ``names``; "paged" is the trace's own run.

    One dict a step, strategy name -> StepReport, in the order of ``names``; after the trace's last step it
    goes on until every strategy has nothing left to do (``drain``; otherwise it is cut at the trace's
    length), and the trace's own run stands still. ``know_lengths``: "exact" and "reserve power of two" know
    the true lengths of the finished sequences; otherwise they go by max_new_tokens. ``hindsight``: reserved
    slots that were never used in the end count as internal. ``compact_at``: steps before which first and
    best fit strategies are compacted. The other settings are those of ``make_strategy``. Raises ValueError
    for a strategy or setting that does not exist.
    """
    size = trace.meta.get("block_size", 16)
    finals = final_lengths(trace)
    followers = Lockstep(
        [name for name in names if name != PAGED], capacity=capacity_of(trace), block_size=size,
        max_model_len=max_model_len or max_model_len_of(trace), policy=policy, estimate=estimate,
        overflow=overflow, final_lengths=finals if know_lengths or hindsight else None, hindsight=hindsight,
    )  # fmt: skip
    requests = {request.id: request for request in trace.requests}
    result: list[dict[str, StepReport]] = []
    for index in range(len(trace.steps) + (MAX_EXTRA_STEPS if drain else 0)):
        step = trace.steps[min(index, len(trace.steps) - 1)]
        reports = followers.advance(index, step.sequences, requests, compact=index in compact_at)
        if index >= len(trace.steps) and not followers.changed:
            break
        if PAGED in names:
            reports[PAGED] = paged_report(step, requests, size, finals if hindsight else None)
        result.append({name: reports[name] for name in names})
    return result
