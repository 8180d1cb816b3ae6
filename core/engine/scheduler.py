"""Scheduler: plan -> commit over a pool of blocks, without tensors.

plan()    decides the next step and takes its blocks; the pictures stay those of the last commit, so that
          a class can be asked what will come. The same plan until it is committed.
commit()  takes over what the forward pass has written and what was sampled; forks, ends, releases.
"""

from __future__ import annotations

from core.config import EngineConfig
from core.engine.answers import answer
from core.engine.beams import BeamOptions, BeamSearch, Child
from core.engine.errors import RequestRefused
from core.engine.finishing import finish_group
from core.engine.groups import Group
from core.engine.plan import Outcome, StepPlan
from core.engine.planning import Batch, fill
from core.engine.refusal import NeverFits, check_request
from core.engine.state import State
from core.memory.events import Arrive, Event, Reject, Wait
from core.memory.paged import PagedMemory
from core.memory.prefix import Hit
from core.memory.snapshot import Snapshot
from core.memory.views import BlockView, RequestView, SequenceView, Usage


class SchedulerStuck(RuntimeError):
    """A step would change nothing although requests are there: a fault of the scheduler, stated in full."""


class Scheduler:
    """Groups of sequences, first come first served, on one paged memory.

    Requests and cancellations may come at any time; between plan and commit they are kept for the next plan.
    """

    def __init__(self, config: EngineConfig) -> None:
        self.config = config
        self._state = State(config, PagedMemory(config))
        self._pending: tuple[StepPlan, Batch] | None = None
        self._snapshot = Snapshot(self._state.usage())

    # -- asking ------------------------------------------------------------------------------------------

    def submit(
        self,
        request: RequestView,
        stop_token_ids: frozenset[int] = frozenset(),
        beam_options: BeamOptions | None = None,
    ) -> None:
        """Hand a request in; it arrives with its ``arrival_step``, or with the next step if that is past.

        Raises RequestRefused with one sentence for what can never be served; if it needs more blocks than
        there are (NeverFits, unit "blocks"), the next step also tells it: arrive, reject.
        """
        state = self._state
        if request.id in state.groups:
            raise RequestRefused(f"The request id {request.id!r} is taken; choose another.")
        try:
            check_request(request, self.config)
        except NeverFits as refusal:
            if refusal.unit == "blocks":
                state.refusals.append(Arrive(request.id))
                state.refusals.append(Reject(request.id, refusal.need, refusal.have, str(refusal)))
            raise
        group = Group(request, state.arrivals, stop_token_ids)
        if request.mode == "beam":
            options = beam_options or BeamOptions()
            start = [Child("", -1, 0.0, sequence=f"{request.id}.0")]
            group.beams = BeamSearch(request.n, request.max_new_tokens, stop_token_ids, options, start)
        state.arrivals += 1
        state.groups[request.id] = group
        state.future.append(group)

    def cancel(self, request_id: str) -> None:
        """End a request with the next step; its blocks go back. One that is over, or cancelled, is ignored.

        Raises KeyError for a request that was never accepted.
        """
        group = self._state.groups[request_id]
        if not group.over and request_id not in self._state.cancels:
            self._state.cancels.append(request_id)

    @property
    def has_work(self) -> bool:
        """Whether a step would tell or do anything, now or when requests arrive later."""
        s = self._state
        return self._pending is not None or bool(
            s.running or s.preempted or s.waiting or s.future or s.refusals or s.cancels
        )

    def explain_hit(self, token_ids: tuple[int, ...]) -> Hit:
        """What a prompt would find in the prefix cache now, and why no more; nothing without one."""
        index = self._state.memory.index
        if index is None:
            return Hit((), 0, "absent", 0, self.config.block_size)
        return index.explain(token_ids)

    def hit_of(self, request_id: str) -> Hit | None:
        """What the request found when it was admitted; None before that and without a prefix cache."""
        return self._state.groups[request_id].hit

    def beam_result(self, request_id: str) -> list[tuple[str, tuple[int, ...], float]]:
        """(sequence id, tokens, score) of the results so far, best first; [] if it is no beam search."""
        group = self._state.groups[request_id]
        if group.beams is None:
            return []
        tokens = {s.id: s.token_ids for s in self.sequences()}
        return [(r.sequence, tokens[r.sequence], r.score) for r in group.beams.results]

    # -- pictures of the last commit -----------------------------------------------------------------------

    def sequences(self) -> tuple[SequenceView, ...]:
        """All sequences ever created, in order of creation."""
        return self._snapshot.sequences()

    def blocks(self) -> tuple[BlockView, ...]:
        """All blocks that are not free, in order of id."""
        return self._snapshot.blocks()

    def host_blocks(self) -> tuple[BlockView, ...]:
        """All host blocks that are not free, in order of id."""
        return self._snapshot.host_blocks()

    def usage(self) -> Usage:
        """Where every slot of the pool stands."""
        return self._snapshot.usage

    # -- steps ---------------------------------------------------------------------------------------------

    def plan(self) -> StepPlan:
        """Decide the next step. Gives the same plan until it is committed.

        Raises SchedulerStuck when nothing can move and nothing is going to arrive.
        """
        if self._pending is None:
            state = self._state
            batch = Batch(self.config.max_batch_tokens, [])
            self._take_news(batch.events)
            fill(state, batch)
            there = state.running or state.preempted or state.waiting
            if there and not batch.work and all(isinstance(e, Wait) for e in batch.events):
                raise SchedulerStuck(state.stuck())
            swap_out, swap_in, copies = state.memory.take_moves()
            plan = StepPlan(
                index=state.index,
                kind=batch.kind,
                events=tuple(batch.events),
                scheduled=tuple(batch.scheduled),
                swap_out=swap_out,
                swap_in=swap_in,
                copies=copies,
            )
            self._pending = (plan, batch)
        return self._pending[0]

    def _take_news(self, events: list[Event]) -> None:
        """Refusals, arrivals and cancellations since the last plan."""
        state = self._state
        events.extend(state.refusals)
        state.refusals = []
        cancels, state.cancels = state.cancels, []
        for group in tuple(state.future):
            if group.request.arrival_step <= state.index or group.request.id in cancels:
                state.future.remove(group)
                state.waiting.append(group)
                state.memory.touch(group.new_sequence(None))
                events.append(Arrive(group.request.id))
        for request in cancels:
            finish_group(state, state.groups[request], "cancelled", events)

    def commit(self, plan: StepPlan, outcome: Outcome) -> tuple[Event, ...]:
        """Take over the forward pass and its tokens. Gives the events after the plan's, in order.

        Order: writes, forks with their shares, samples (``text`` is empty), ends with their releases.
        Raises ValueError, and changes nothing, if the plan is not the pending one or a token is missing.
        """
        if self._pending is None or plan is not self._pending[0]:
            raise ValueError("This is not the pending plan; commit the one that plan() gives.")
        _check_outcome(plan, outcome)
        state, batch, events = self._state, self._pending[1], list[Event]()
        for _, chunks, _ in batch.work:
            for seq, count in chunks:
                state.memory.write(seq, count, events)
        answer(state, [group for group, _, complete in batch.work if complete], outcome, events)
        state.index += 1
        self._pending = None
        self._snapshot.update(state.memory, state.usage())
        return tuple(events)


def _check_outcome(plan: StepPlan, outcome: Outcome) -> None:
    for row in plan.scheduled:
        drawn = len(outcome.samples.get(row.sequence, ()))
        if drawn < row.num_samples:
            raise ValueError(f"{row.sequence} needs {row.num_samples} sampled tokens and got {drawn}.")
        if row.num_candidates and not outcome.candidates.get(row.sequence):
            raise ValueError(f"{row.sequence} needs {row.num_candidates} candidates and got none.")
