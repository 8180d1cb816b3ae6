"""The rules of the trace format, checked on a live scheduler: on its insides and on its pictures."""

from __future__ import annotations

from collections import Counter

from core.engine.scheduler import Scheduler
from core.memory.events import Event
from core.memory.sequence import Sequence
from core.memory.views import RequestView
from core.trace.pictures import paged_usage
from core.trace.replay import Replay


def living(scheduler: Scheduler) -> list[Sequence]:
    """All sequences that are not over."""
    return [seq for group in scheduler._state.groups.values() for seq in group.live]


def check_invariants(scheduler: Scheduler, *, committed: bool = True) -> None:
    """Rules 1, 2, 5 and 7 at any moment; ``committed``: rule 3 and the pictures as well."""
    _check_pool(scheduler)
    _check_index(scheduler)
    _check_host(scheduler)
    if committed:
        _check_pictures(scheduler)


def _check_pool(scheduler: Scheduler) -> None:
    pool, seqs = scheduler._state.memory.pool, living(scheduler)
    listed = Counter(block for seq in seqs for block in seq.table)
    free, cached, used = set(pool.free_ids), set(pool.cached_ids), set(listed)
    assert len(free) == len(pool.free_ids), "a block is on the free list twice"
    assert free | cached | used == set(range(pool.num_blocks)), "rule 1: a block is lost"
    assert len(free) + len(cached) + len(used) == pool.num_blocks, "rule 1: a block is in two places"
    for block in range(pool.num_blocks):
        assert pool.ref[block] == listed[block], f"rule 2: block {block}"
        assert pool.filled(block) == 0 or block not in free
    for block in cached:
        assert pool.filled(block) == pool.block_size, "a cached block is not full"
    for seq in seqs:
        assert len(set(seq.table)) == len(seq.table), f"{seq.id} lists a block twice"
        for logical, block in enumerate(seq.table):
            theirs = seq.token_ids[logical * pool.block_size : seq.written][: pool.block_size]
            if not scheduler.config.copy_on_write_disabled and seq.state == "running":
                assert pool.tokens(block) == tuple(theirs), f"rule 5: block {block} of {seq.id}"
    assert pool.live_slots == sum(pool.filled(block) for block in used)


def _check_index(scheduler: Scheduler) -> None:
    memory, index = scheduler._state.memory, scheduler._state.memory.index
    if index is None:
        assert not memory.pool.cached_ids
        return
    for block in range(memory.pool.num_blocks):
        node = index.node_of(block)
        if node is None:
            continue
        assert memory.pool.filled(block) == memory.pool.block_size, "an unwritten block is on offer"
        assert index._nodes[node].tokens == memory.pool.tokens(block)
        parent = index._nodes[node].parent
        assert parent == 0 or parent in index._nodes, f"block {block} cannot be reached any more"
        if memory.pool.ref[block] == 0:
            assert block in memory.pool.cached_ids
    if scheduler._pending is None:
        for seq in living(scheduler):
            if seq.state == "running" and not scheduler.config.copy_on_write_disabled:
                for block in seq.table[: seq.registered]:
                    assert block in index, "a block counts as offered and is not"


def _check_host(scheduler: Scheduler) -> None:
    host = scheduler._state.memory.host
    listed = Counter(block for seq in living(scheduler) for block in seq.host_table)
    assert dict(listed) == host.ref
    assert len(listed) + host.num_free == scheduler.config.host_blocks
    for seq in living(scheduler):
        assert not (seq.table and seq.host_table)


def _check_pictures(scheduler: Scheduler) -> None:
    size, pool = scheduler.config.block_size, scheduler._state.memory.pool
    views = {view.id: view for view in scheduler.sequences()}
    blocks = {view.id: view for view in scheduler.blocks()}
    assert list(blocks) == sorted(blocks)
    listed = Counter(block for view in views.values() for block in view.block_table)
    assert {b: v.ref for b, v in blocks.items() if v.ref} == dict(listed), "rule 2"
    for view in views.values():
        if view.state in ("finished", "swapped"):
            assert view.block_table == ()
            continue
        assert len(view.block_table) == -(-view.written // size), f"rule 3: {view}"
        for logical, block in enumerate(view.block_table):
            theirs = view.token_ids[logical * size : view.written][:size]
            assert blocks[block].state == "used"
            if not scheduler.config.copy_on_write_disabled:
                assert blocks[block].token_ids == theirs, "rule 5"
    for seq in living(scheduler):
        view = views[seq.id]
        assert (view.state, view.written, view.block_table) == (seq.state, seq.written, tuple(seq.table))
        assert view.token_ids == tuple(seq.token_ids)
    for block in range(pool.num_blocks):
        assert blocks.get(block) == pool.view(block), f"the picture of block {block} is old"
    if all(view.state == "finished" for view in views.values()):
        assert not any(pool.ref), "rule 7"


class Witness:
    """Follows the events alone and holds them against the scheduler, step by step: rules 4, 6, 8, usage."""

    def __init__(self, scheduler: Scheduler) -> None:
        config = scheduler.config
        self.scheduler = scheduler
        self.replay = Replay({"block_size": config.block_size, "num_blocks": config.num_blocks}, [])

    def request(self, request: RequestView) -> None:
        """A request that has been accepted."""
        self.replay.requests[request.id] = request

    def follow(self, events: tuple[Event, ...]) -> None:
        """One step's events, after its commit."""
        faults = self.replay.apply(events)
        assert not faults, faults
        mine, theirs = self.replay, self.scheduler
        views = theirs.sequences()
        assert list(mine.sequences) == [view.id for view in views], "order of creation"
        for view, seq in zip(views, mine.sequences.values(), strict=True):
            assert view.parent == seq.parent
            assert (view.state, view.written, view.block_table, view.token_ids) == (
                seq.state, seq.written, tuple(seq.table), tuple(seq.tokens),
            )  # fmt: skip
        assert {b.id: (b.ref, list(b.token_ids)) for b in theirs.blocks()} == {
            number: (block.ref, block.tokens) for number, block in mine.blocks.items()
        }
        assert {b.id: (b.ref, list(b.token_ids)) for b in theirs.host_blocks()} == {
            number: (block.ref, block.tokens) for number, block in mine.host.items()
        }
        assert theirs.usage() == paged_usage(
            mine.sequences.values(),
            mine.blocks,
            mine.requests,
            block_size=mine.block_size,
            num_blocks=mine.num_blocks,
            copied=mine.copied,
        )
