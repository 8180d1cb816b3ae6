"""One step's plan: who computes what, and which blocks that takes.

running groups in order of arrival   all of a group or nothing; tokens go to decodes first, the rest to
                                     prompts in chunks; blocks go by arrival: the last to arrive gives way
then preempted ones                  nobody is admitted while somebody waits to come back
then new ones                        first come, first served: nobody overtakes the head of the queue
"""

from __future__ import annotations

from dataclasses import dataclass, field

from core.engine.finishing import finish_group, finish_sequence
from core.engine.groups import Chunk, Group
from core.engine.plan import Scheduled
from core.engine.preemption import (
    attach,
    blocks_to_catch_up,
    blocks_to_resume,
    cached_prefix,
    preempt,
    resume,
)
from core.engine.state import State
from core.memory.events import Admit, Event, Wait
from core.memory.sequence import Sequence
from core.trace.step import StepKind


@dataclass(slots=True)
class Batch:
    """What a step computes, as it is put together. ``budget``: tokens left."""

    budget: int
    events: list[Event]
    scheduled: list[Scheduled] = field(default_factory=list)
    work: list[tuple[Group, list[Chunk], bool]] = field(default_factory=list)
    preempted: bool = False
    phases: set[str] = field(default_factory=set)

    @property
    def kind(self) -> StepKind:
        """ "prefill" (also computing again), "decode", "mixed" or "idle"."""
        if not self.phases:
            return "idle"
        if self.phases == {"decode"}:
            return "decode"
        return "mixed" if "decode" in self.phases else "prefill"


def fill(state: State, batch: Batch) -> None:
    """Put the step together: running groups, then those that come back, then new ones."""
    _schedule_running(state, batch)
    _resume(state, batch)
    if not state.preempted:
        _admit(state, batch)


# -- running ---------------------------------------------------------------------------------------------


def _schedule_running(state: State, batch: Batch) -> None:
    """Each decoding group is granted a token a sequence, as far as the budget goes; prompts get the rest."""
    grants, rest = {}, batch.budget
    for group in state.running:
        if group.phase == "decode" and len(group.live) <= rest:
            grants[group.arrival] = len(group.live)
            rest -= len(group.live)
    for group in tuple(state.running):
        granted = grants.get(group.arrival, 0)
        if group.how is not None:  # has been preempted in this step
            rest += granted
        elif not (granted and _decode_in_place(state, batch, group)):
            rest += granted - _schedule(state, batch, group, rest + granted)
    batch.budget = rest


def _decode_in_place(state: State, batch: Batch, group: Group) -> bool:
    """The common case, in short: one answer, one token, and room for it in a block that is its own.

    Gives what ``_schedule`` would; hundreds of sequences are planned in a millisecond or two by it.
    """
    seq = group.live[0]
    if len(group.live) > 1 or group.beams is not None or len(seq.token_ids) - seq.written != 1:
        return False
    memory = state.memory
    if seq.written % memory.block_size == 0:
        if not memory.pool.available:
            return False
        memory.extend(seq, 1, batch.events)
    elif memory.pool.ref[seq.table[-1]] > 1:
        return False
    batch.work.append((group, [(seq, 1)], True))
    batch.phases.add("decode")
    batch.scheduled.append(
        Scheduled(
            sequence=seq.id,
            request=seq.request,
            start=seq.written,
            token_ids=(seq.token_ids[-1],),
            block_table=seq.table_view or seq.block_table,
        )
    )
    return True


def _schedule(state: State, batch: Batch, group: Group, budget: int) -> int:
    """Let the group compute what it may; gives the number of tokens."""
    if budget <= 0:
        return 0
    if group.restore:
        attach(group, state.memory, batch.events)
    chunks, complete = group.chunks(budget)
    if not chunks:
        return 0
    need = state.memory.blocks_needed(chunks)
    if need > state.memory.pool.available:
        if state.config.preempt == "none":
            chunks = _run_short(state, batch, group, chunks)
        elif not _make_room(state, batch, group, need):
            chunks = []
    used = 0
    for seq, count in chunks:
        state.memory.extend(seq, count, batch.events)
        used += count
        batch.scheduled.append(_scheduled(group, seq, count, complete))
    if chunks:
        batch.work.append((group, chunks, complete))
        batch.phases.add("decode" if group.phase == "decode" else "prefill")
    return used


def _scheduled(group: Group, seq: Sequence, count: int, complete: bool) -> Scheduled:
    """The sequence's row of the packed batch; the last row gives the next token if the group is complete."""
    start = seq.written
    samples = candidates = 0
    if complete:
        if group.beams is not None:
            candidates = group.beams.num_candidates
        else:
            samples = group.width if group.phase == "prefill" else 1
    return Scheduled(
        sequence=seq.id,
        request=seq.request,
        start=start,
        token_ids=tuple(seq.token_ids[start : start + count]),
        block_table=seq.block_table,
        num_samples=samples,
        num_candidates=candidates,
    )


def _make_room(state: State, batch: Batch, group: Group, need: int) -> bool:
    """Preempt later groups, the last first, until ``need`` blocks are there. False if the group cannot go on.

    A group with answers under way that nobody later can help gives way itself; one that still computes its
    prompt keeps what it has and waits.
    """
    while need > state.memory.pool.available:
        last = state.running[-1]
        if last is group and group.phase != "decode":
            return False
        state.running.pop()
        preempt(last, state.memory, batch.events)
        state.preempted.appendleft(last)
        batch.preempted = True
        if last is group:
            return False
    return True


def _run_short(state: State, batch: Batch, group: Group, chunks: list[Chunk]) -> list[Chunk]:
    """Without preemption: who cannot get a block ends, its text kept; a prompt waits for its blocks."""
    memory = state.memory
    if group.phase != "decode":
        return []
    if group.beams is not None:
        finish_group(state, group, "out_of_memory", batch.events)
        return []
    kept: list[Chunk] = []
    for chunk in chunks:
        if memory.blocks_needed([*kept, chunk]) <= memory.pool.available:
            kept.append(chunk)
        else:
            finish_sequence(state, group, chunk[0], "out_of_memory", batch.events)
    return kept


# -- coming back, coming in ------------------------------------------------------------------------------


def _promised(state: State) -> int:
    """Blocks that groups which compute their prompts, or compute them again, have still to take."""
    return sum(blocks_to_catch_up(g, state.memory) for g in state.running if g.phase != "decode")


def _resume(state: State, batch: Batch) -> None:
    """Never in a step that has preempted: swaps go one way a step."""
    while state.preempted and not batch.preempted:
        group = state.preempted[0]
        tokens = len(group.live) if group.how == "swap" and group.phase == "decode" else 1
        if not _may_start(state, batch, group, tokens, reserve=0):
            return
        state.preempted.popleft()
        resume(group, state.memory, batch.events)
        state.running.append(group)
        batch.budget -= _schedule(state, batch, group, batch.budget)


def _admit(state: State, batch: Batch) -> None:
    while state.waiting:
        group = state.waiting[0]
        reserve = state.watermark_blocks if state.running else 0
        if not _may_start(state, batch, group, 1, reserve):
            return
        state.waiting.popleft()
        state.running.append(group)
        batch.events.append(Admit(group.request.id))
        first = group.live[0]
        state.set_state(first, "running")
        if state.memory.config.prefix_cache and state.memory.index is not None:
            group.hit = state.memory.index.explain(first.token_ids)
        state.memory.share(first, cached_prefix(first, state.memory), "prefix", batch.events)
        batch.budget -= _schedule(state, batch, group, batch.budget)


def _may_start(state: State, batch: Batch, group: Group, tokens: int, reserve: int) -> bool:
    """Whether the head of the queue may run now; if not, one Wait says what is short: the first of sequences,
    tokens and blocks. ``reserve``: blocks that must stay free."""
    running, limit = state.num_running, state.config.max_running
    if running + group.width > limit:
        return _wait(batch, group, group.width, limit - running, "sequences")
    if batch.budget < tokens:
        return _wait(batch, group, tokens, batch.budget, "tokens")
    need = blocks_to_resume(group, state.memory)
    have = state.memory.pool.available - _promised(state)
    if need > have:
        return _wait(batch, group, need, max(have, 0), "blocks")
    if need > have - reserve:
        return _wait(batch, group, need, max(have - reserve, 0), "watermark")
    return True


def _wait(batch: Batch, group: Group, need: int, have: int, reason: str) -> bool:
    batch.events.append(Wait(group.request.id, need, have, reason))
    return False
