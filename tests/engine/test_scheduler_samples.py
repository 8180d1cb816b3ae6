"""Many answers to one prompt: shared, counted, copied by whoever writes first."""

import pytest

from core.memory.events import Allocate, Copy, Fork, Share, Write
from tests.engine.driver import Driver

ORDER = tuple(range(20))


def test_four_answers_three_copies() -> None:
    """A2: P 6, block 4, n 4: the last holder writes in place; 1 shared + 4 private blocks."""
    d = Driver(block_size=4, num_blocks=20, free_order=ORDER)
    d.submit("r0", 6, n=4, new=3)
    events = d.step()
    assert d.model.tokens_computed == 6  # the prompt was computed once
    assert d.refs() == {0: 4, 1: 4}
    names = [e.name for e in events[2:]]
    assert names == ["allocate"] * 2 + ["write"] * 2 + ["fork", "share", "share"] * 3 + ["sample"] * 4
    assert d.of(Share)[:2] == [Share(0, "r0.1", 0, 2, "fork"), Share(1, "r0.1", 1, 2, "fork")]
    events = d.step()
    assert d.of(Copy) == [Copy(1, 2, "r0.0", 1, 2), Copy(1, 3, "r0.1", 1, 2), Copy(1, 4, "r0.2", 1, 2)]
    assert d.plans[-1].copies == ((1, 2), (1, 3), (1, 4))
    assert d.refs() == {0: 4, 1: 1, 2: 1, 3: 1, 4: 1}
    assert Write("r0.3", 6, 1, 2, 1) in events
    assert (d.scheduler.usage().live, d.scheduler.usage().copied) == (4 + 4 * 3, 6)
    d.run()
    assert d.scheduler.blocks() == ()


def test_no_copy_where_the_prompt_ends_at_the_edge() -> None:
    """A2: P 8: zero copies, 2 shared + 4 new = 6."""
    d = Driver(block_size=4, num_blocks=20, free_order=ORDER)
    d.submit("r0", 8, n=4, new=3)
    d.step()
    d.step()
    assert d.of(Copy) == [] and d.refs() == {0: 4, 1: 4, 2: 1, 3: 1, 4: 1, 5: 1}


def test_two_answers_as_in_the_trace_format() -> None:
    """The example of the trace format: copy of block 2 to 7, the other writes in place, all given back."""
    d = Driver(block_size=4, num_blocks=8, free_order=(5, 2, 7))
    d.submit("r0", 6, n=2, new=3)
    d.step()
    usage = d.scheduler.usage()
    assert (usage.live, usage.reserved, usage.internal, usage.free, usage.copied) == (6, 2, 0, 24, 0)
    d.step()
    assert d.of(Copy) == [Copy(2, 7, "r0.0", 1, 2)]
    usage = d.scheduler.usage()
    assert (usage.live, usage.reserved, usage.internal, usage.free, usage.copied) == (10, 2, 0, 20, 2)
    assert d.sequence("r0.0").block_table == (5, 7) and d.sequence("r0.1").block_table == (5, 2)
    assert d.sequence("r0.1").parent == "r0.0"


@pytest.mark.parametrize("sharing", ["copy-on-write", "append-only", "none"])
@pytest.mark.parametrize("prompt", [6, 8])
@pytest.mark.parametrize("n", [2, 4])
def test_each_answer_is_the_one_it_would_be_alone(sharing: str, prompt: int, n: int) -> None:
    """A2: whatever is shared, each branch reads its own past."""
    d = Driver(block_size=4, num_blocks=64, sharing=sharing, vocab=50)
    d.submit("r0", prompt, n=n, new=9)
    alone = Driver(block_size=4, num_blocks=64, sharing="none", vocab=50)
    alone.submit("r0", prompt, n=n, new=9)
    assert d.run().texts() == alone.run().texts()
    assert len(set(d.texts().values())) == n


def test_append_only_computes_the_half_block_again() -> None:
    d = Driver(block_size=4, num_blocks=20, free_order=ORDER, sharing="append-only")
    d.submit("r0", 6, n=2, new=3)
    d.step()
    assert d.of(Share) == [Share(0, "r0.1", 0, 2, "prefix")]
    child = d.sequence("r0.1")
    assert (child.written, child.block_table, len(child.token_ids)) == (4, (0,), 7)
    rows = {r.sequence: (r.start, len(r.token_ids)) for r in d.plan().scheduled}
    assert rows == {"r0.0": (6, 1), "r0.1": (4, 3)}
    d.finish_step()
    assert d.of(Copy) == [] and d.refs() == {0: 2, 1: 1, 2: 1}


def test_nothing_shared_computes_all_of_it_again() -> None:
    d = Driver(block_size=4, num_blocks=20, free_order=ORDER, sharing="none")
    d.submit("r0", 6, n=2, new=3)
    d.step()
    assert d.of(Fork) == [Fork("r0.0", "r0.1")] and d.of(Share) == []
    assert d.sequence("r0.1").block_table == ()
    d.step()
    assert d.refs() == {0: 1, 1: 1, 2: 1, 3: 1}


def test_append_only_in_a_small_batch_waits_until_all_can_go_on() -> None:
    """Two tokens a step: the child catches up first, and then both get their next token in one step."""
    d = Driver(block_size=4, num_blocks=20, sharing="append-only", max_batch_tokens=2)
    d.submit("r0", 7, n=2, new=3)
    d.run()
    rows = [[(r.sequence, len(r.token_ids), r.num_samples) for r in plan.scheduled] for plan in d.plans]
    assert rows[4:6] == [[("r0.1", 2, 0)], [("r0.1", 1, 0)]]
    assert rows[6] == [("r0.0", 1, 1), ("r0.1", 1, 1)]


def test_one_new_token_never_needs_a_copy() -> None:
    """The prompt's blocks are all that n answers of one token ever hold."""
    d = Driver(block_size=4, num_blocks=2)
    d.submit("r0", 6, n=4, new=1)
    d.run()
    assert len(d.of(Allocate)) == 2 and [len(t) for t in d.texts().values()] == [7] * 4


def test_the_lesson_where_nobody_copies() -> None:
    """Both write the shared slot; the model that reads it notices."""
    d = Driver(block_size=4, num_blocks=20, copy_on_write_disabled=True, vocab=50)
    d.submit("r0", 6, n=2, new=4)
    d.step()
    d.step()
    assert d.of(Copy) == [] and d.sequence("r0.0").block_table == d.sequence("r0.1").block_table
    d.run()
    alone = Driver(block_size=4, num_blocks=20, vocab=50)
    alone.submit("r0", 6, n=2, new=4)
    texts, right = d.texts(), alone.run().texts()
    assert texts != right and texts["r0.1"] == right["r0.1"]  # the last writer is unharmed
    assert d.scheduler.blocks() == ()


def test_logprob_is_the_sum_for_samples_and_absent_for_greedy() -> None:
    d = Driver()
    d.submit("r0", 3, n=2, new=2)
    d.submit("r1", 3, new=2)
    d.run()
    view = d.sequence("r0.1")
    first = d.model.draw(view.token_ids[:3], 1)
    second = d.model.draw(view.token_ids[:4], 1)
    assert view.logprob == first.logprob + second.logprob
    assert d.sequence("r1.0").logprob is None
