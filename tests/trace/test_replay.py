"""replay: what each event implies, on short runs told by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.memory.events import Admit, Allocate, Arrive, Finish, Free, Release, Write
from core.memory.views import BlockView
from core.trace import Replay, TraceError, load, replay
from tests.trace import stories

EXAMPLE = Path(__file__).parent.parent / "data" / "example.kvtrace.json"


def test_the_example_replays_to_its_pictures() -> None:
    trace = load(EXAMPLE)
    state = Replay(trace.meta, trace.requests)
    for step, (sequences, blocks) in zip(trace.steps, replay(trace), strict=True):
        assert sequences == step.sequences
        assert set(blocks) == set(step.blocks)
        state.apply(step.events)
        assert state.usage() == step.usage[0]


def test_swapped_blocks_keep_their_tokens_and_their_sharing() -> None:
    out, away, back = stories.swapped().steps
    assert [(s.block_table, s.written, s.state) for s in away.sequences] == [((), 6, "swapped")] * 2
    assert away.blocks == ()
    assert away.host_blocks == (
        BlockView(id=0, state="used", ref=2, filled=4, token_ids=(1, 2, 3, 4)),
        BlockView(id=1, state="used", ref=2, filled=2, token_ids=(5, 6)),
    )
    assert back.host_blocks == ()
    assert [s.block_table for s in back.sequences] == [(4, 3), (4, 3)]
    assert [(b.id, b.ref, b.token_ids) for b in back.blocks] == [(3, 2, (5, 6)), (4, 2, (1, 2, 3, 4))]
    assert out.usage[0].live == back.usage[0].live == 6


def test_cancelled_while_swapped_out_frees_the_host() -> None:
    trace = stories.swapped()
    state = Replay(trace.meta, trace.requests)
    for step in trace.steps[:2]:
        assert state.apply(step.events) == []
    state.apply([Finish("r0.0", "cancelled")])
    assert [block.ref for block in state.host.values()] == [1, 1]
    state.apply([Finish("r0.1", "cancelled")])
    assert state.host == {}


def test_recompute_begins_at_the_hit_and_writes_the_rest_again() -> None:
    steps = stories.recomputed().steps
    assert (steps[2].sequences[0].written, steps[2].sequences[0].state) == (0, "preempted")
    assert [(b.id, b.state, b.ref) for b in steps[2].blocks] == [(5, "cached", 0)]
    assert (steps[3].sequences[0].written, steps[3].sequences[0].block_table) == (7, (5, 6))
    assert [(b.id, b.token_ids) for b in steps[4].blocks] == [(5, (1, 2, 3, 4)), (6, (5, 6, 7, 8))]


def test_usage_tells_reserved_from_internal() -> None:
    """Prompt 5 and 2 new tokens fill 6 slots at most: of the two blocks' 8, 1 is reserved, 2 never used."""
    state = Replay(stories.META, [stories.request("r0", [1, 2, 3, 4, 5], new=2)])
    events = [Arrive("r0"), Admit("r0"), Allocate(0, "r0.0", 0), Allocate(1, "r0.0", 1)]
    state.apply([*events, Write("r0.0", 0, 0, 0, 4), Write("r0.0", 4, 1, 0, 1)])
    usage = state.usage()
    assert (usage.live, usage.reserved, usage.internal, usage.free) == (5, 1, 2, 24)
    assert (usage.running, usage.waiting) == (1, 0)


def test_a_request_that_waits_is_counted_and_holds_nothing() -> None:
    state = Replay(stories.META, [stories.request("r0", [1])])
    state.apply([Arrive("r0")])
    assert (state.usage().waiting, state.usage().running, state.usage().free) == (1, 0, 32)


def test_an_event_that_cannot_have_happened_is_an_error() -> None:
    trace = stories.told([stories.request("r0", [1])], [Arrive("r0"), Release(3, "r0.0", 0), Free(3)])
    with pytest.raises(TraceError, match="step 0: block 3 is released, but is free") as caught:
        list(replay(trace))
    assert caught.value.rule == 6
