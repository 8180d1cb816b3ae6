"""Block tables with exact ids: growing, copy-on-write, sharing by content, the way to the host and back."""

from typing import Any

import pytest

from core.config import EngineConfig
from core.memory.events import Allocate, Copy, Event, Free, Release, Share, SwapIn, SwapOut, Write
from core.memory.paged import PagedMemory
from core.memory.sequence import Sequence
from core.memory.snapshot import Snapshot
from core.memory.usage import paged_usage


def memory_of(num_blocks: int = 8, size: int = 4, **changes: Any) -> PagedMemory:
    order = tuple(range(num_blocks))
    return PagedMemory(EngineConfig(num_blocks=num_blocks, block_size=size, free_order=order, **changes))


def sequence_of(tokens: int, name: str = "r0.0", limit: int = 100) -> Sequence:
    return Sequence(name, "r0", None, limit, list(range(10, 10 + tokens)), state="running")


def advance(memory: PagedMemory, seq: Sequence, count: int) -> list[Event]:
    events: list[Event] = []
    memory.extend(seq, count, events)
    memory.write(seq, count, events)
    return events


def fork(memory: PagedMemory, parent: Sequence, name: str) -> tuple[Sequence, list[Event]]:
    child = Sequence(name, "r0", parent.id, parent.limit, list(parent.token_ids), state="running")
    events: list[Event] = []
    memory.fork(parent, child, events)
    return child, events


def test_a_block_is_taken_when_its_first_slot_is_written() -> None:
    memory, seq = memory_of(), sequence_of(9)
    assert advance(memory, seq, 3) == [Allocate(0, "r0.0", 0), Write("r0.0", 0, 0, 0, 3)]
    assert advance(memory, seq, 1) == [Write("r0.0", 3, 0, 3, 1)]
    assert seq.block_table == (0,) and memory.blocks_for(4) == 1 and memory.blocks_for(0) == 0
    assert advance(memory, seq, 5) == [
        Allocate(1, "r0.0", 1),
        Allocate(2, "r0.0", 2),
        Write("r0.0", 4, 1, 0, 4),
        Write("r0.0", 8, 2, 0, 1),
    ]


def test_the_writer_copies_and_the_last_holder_writes_in_place() -> None:
    memory, a = memory_of(), sequence_of(8)
    advance(memory, a, 6)
    b, events = fork(memory, a, "r0.1")
    assert events[1:] == [Share(0, "r0.1", 0, 2, "fork"), Share(1, "r0.1", 1, 2, "fork")]
    assert memory.blocks_needed([(a, 1), (b, 1)]) == 1
    events = []
    memory.extend(a, 1, events)
    memory.extend(b, 1, events)
    assert events == [Copy(1, 2, "r0.0", 1, 2)]
    assert memory.take_moves() == ((), (), ((1, 2),))
    assert (a.table, b.table, memory.pool.ref[:3]) == ([0, 2], [0, 1], [2, 1, 1])
    assert memory.copied_tokens == 2


def test_nothing_is_copied_at_the_edge_of_a_block() -> None:
    memory, a = memory_of(), sequence_of(9)
    advance(memory, a, 8)
    b, _ = fork(memory, a, "r0.1")
    assert memory.blocks_needed([(a, 1), (b, 1)]) == 2
    assert [type(e) for e in advance(memory, a, 1) + advance(memory, b, 1)] == [Allocate, Write] * 2


def test_the_lesson_without_copies() -> None:
    memory, a = memory_of(copy_on_write_disabled=True), sequence_of(8)
    advance(memory, a, 6)
    b, _ = fork(memory, a, "r0.1")
    assert memory.blocks_needed([(a, 1), (b, 1)]) == 0
    events: list[Event] = []
    memory.extend(a, 1, events)
    assert events == [] and a.table == b.table


def test_append_only_shares_full_blocks_and_none_shares_nothing() -> None:
    memory, a = memory_of(sharing="append-only"), sequence_of(6)
    advance(memory, a, 6)
    b, events = fork(memory, a, "r0.1")
    assert events[1:] == [Share(0, "r0.1", 0, 2, "prefix")]
    assert (b.written, b.table) == (4, [0])
    memory, a = memory_of(sharing="none"), sequence_of(6)
    advance(memory, a, 6)
    b, events = fork(memory, a, "r0.1")
    assert (len(events), b.written, b.table) == (1, 0, [])


def test_the_end_of_the_table_goes_first() -> None:
    memory, seq = memory_of(), sequence_of(6)
    advance(memory, seq, 6)
    events: list[Event] = []
    memory.release(seq, events)
    assert events == [Release(1, "r0.0", 0), Free(1), Release(0, "r0.0", 0), Free(0)]
    assert memory.pool.free_ids == (2, 3, 4, 5, 6, 7, 1, 0)


def test_only_written_full_blocks_are_offered() -> None:
    """A11: between taking a block and writing it nobody finds it."""
    memory, seq = memory_of(prefix_cache=True), sequence_of(9)
    memory.extend(seq, 9, [])
    assert memory.find(seq.token_ids, 2) == []
    memory.write(seq, 9, [])
    assert memory.find(seq.token_ids, 2) == [0, 1]


def test_each_block_goes_to_the_host_once_and_comes_back_shared() -> None:
    """A15: sharing and content survive the round trip."""
    memory = memory_of(preempt="swap", host_blocks=4)
    a = sequence_of(7)
    advance(memory, a, 6)
    b, _ = fork(memory, a, "r0.1")
    events: list[Event] = []
    memory.swap_out([a, b], events)
    assert events[:2] == [SwapOut(0, 0), SwapOut(1, 1)]
    assert memory.host.ref == {0: 2, 1: 2} and memory.pool.available == 8
    assert (a.table, b.table, a.written) == ([], [], 6)
    events = []
    memory.swap_in([a, b], events)
    assert events == [
        SwapIn(2, 0, "r0.0", 0),
        SwapIn(3, 1, "r0.0", 1),
        Share(2, "r0.1", 0, 2, "swap"),
        Share(3, "r0.1", 1, 2, "swap"),
    ]
    assert memory.take_moves() == (((0, 0), (1, 1)), ((0, 2), (1, 3)), ())
    assert memory.pool.tokens(2) == (10, 11, 12, 13) and memory.pool.tokens(3) == (14, 15)
    assert memory.host.ref == {} and memory.host.num_free == 4


def test_pictures_of_what_did_not_change_are_the_same_objects() -> None:
    memory, a, b = memory_of(), sequence_of(9), sequence_of(9, "r1.0")
    snapshot = Snapshot(paged_usage(memory.pool, copied=0, running=0, waiting=0))
    advance(memory, a, 6)
    advance(memory, b, 6)
    snapshot.update(memory, snapshot.usage)
    before = {s.id: s for s in snapshot.sequences()}, {k.id: k for k in snapshot.blocks()}
    advance(memory, a, 1)
    snapshot.update(memory, snapshot.usage)
    after = {s.id: s for s in snapshot.sequences()}, {k.id: k for k in snapshot.blocks()}
    assert after[0]["r1.0"] is before[0]["r1.0"] and after[0]["r0.0"] is not before[0]["r0.0"]
    assert [k for k in after[1] if after[1][k] is not before[1][k]] == [a.table[1]]
    assert after[0]["r0.0"].token_ids is before[0]["r0.0"].token_ids
    assert list(after[1]) == sorted(after[1])


@pytest.mark.parametrize("size", [1, 2, 3, 4, 16])
def test_table_length_is_always_rounded_up(size: int) -> None:
    memory, seq = memory_of(64, size), sequence_of(40)
    for written in range(1, 41):
        advance(memory, seq, 1)
        assert len(seq.table) == -(-written // size)
        assert memory.pool.filled(seq.table[-1]) == (written - 1) % size + 1
