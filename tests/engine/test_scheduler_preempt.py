"""When the pool runs dry: who gives way, how it comes back, and that its text is as if it had never left."""

from typing import Any

import pytest

from core.memory.events import Admit, Copy, Finish, Preempt, Resume, Share, SwapIn, SwapOut, Wait, Write
from tests.engine.driver import Driver


def texts(n: int = 1, mode: Any = None, **config: Any) -> tuple[Driver, dict[str, tuple[int, ...]]]:
    d = Driver(**{"block_size": 4, "vocab": 40, **config})
    for name, first in (("a", 1), ("b", 2)):
        d.submit(name, [first, *range(10, 17)], n=n, new=12, mode=mode)
    return d, d.run().texts()


@pytest.mark.parametrize("cache", [False, True])
@pytest.mark.parametrize("how", ["recompute", "swap"])
@pytest.mark.parametrize("sharing", ["copy-on-write", "append-only", "none"])
@pytest.mark.parametrize("tokens", [2048, 5])
@pytest.mark.parametrize(
    ("n", "mode", "pool"), [(1, None, 6), (2, None, 11), (2, "beam", 11), (4, "beam", 21)]
)
def test_same_tokens_as_if_never_preempted(
    n: int, mode: Any, pool: int, tokens: int, sharing: str, how: str, cache: bool
) -> None:
    """A9: 5 blocks each at the end, 10 > 6; recompute covers the prompt and all tokens so far."""
    options = {"sharing": sharing, "max_batch_tokens": tokens, "prefix_cache": cache}
    small, found = texts(n, mode, num_blocks=pool, preempt=how, host_blocks=64, **options)
    large, expected = texts(n, mode, num_blocks=200)
    assert found == expected
    assert large.of(Preempt) == []
    if mode is None:
        assert small.of(Preempt)


def test_the_last_to_arrive_gives_way_and_comes_back_first() -> None:
    d = Driver(block_size=4, num_blocks=6)
    for name in ("a", "b", "c"):
        d.submit(name, [ord(name), 2, 3, 4, 5, 6], new=9)
    d.run()
    assert d.of(Preempt)[0] == Preempt("c.0", "recompute")
    resumed = [e.sequence for e in d.of(Resume)]
    assert resumed and resumed == sorted(resumed)
    assert len(d.of(Admit)) == 3  # admitted once, resumed after


def test_each_position_is_written_again_once() -> None:
    """Rule 8 after a preemption: from 0, in order, up to the newest token."""
    d, _ = texts(num_blocks=6)
    where = next(i for i, step in enumerate(d.events) if any(isinstance(e, Resume) for e in step))
    preempted = d.of(Preempt)[0].sequence
    writes = [e for e in d.events[where] if isinstance(e, Write) and e.sequence == preempted]
    covered = [p for w in writes for p in range(w.position, w.position + w.count)]
    assert covered == list(range(len(covered))) and len(covered) > 8
    assert any(e.sequence == preempted for e in d.events[where] if e.name == "sample")


def test_nobody_is_admitted_while_somebody_waits_to_come_back() -> None:
    d = Driver(block_size=4, num_blocks=6)
    d.submit("a", [1] * 8, new=12)
    d.submit("b", [2] * 8, new=12)
    while not d.of(Preempt):
        d.step()
    d.submit("c", [3], new=1)
    d.step()
    assert [e.request for e in d.of(Wait)] == ["b"]
    d.run()
    flat = [e for step in d.events for e in step]
    assert flat.index(Admit("c")) > flat.index(Resume("b.0", "recompute"))


@pytest.mark.parametrize("n", [2, 3])
def test_recompute_restores_what_the_group_shared(n: int) -> None:
    """After it is computed again, the prompt's blocks are shared as before: no more blocks than before."""
    d = Driver(block_size=4, num_blocks=5 + 4 * n, vocab=40)
    d.submit("a", [1] * 9, n=n, new=12)
    d.submit("b", [2] * 9, n=n, new=12)
    while not d.of(Preempt):
        d.step()
    while not d.of(Resume):
        d.step()
    d.step()
    shares = [e for e in d.events[-1] if isinstance(e, Share)]
    assert [(e.sequence, e.logical, e.cause) for e in shares] == [
        (f"b.{i}", logical, "fork") for i in range(1, n) for logical in (0, 1)
    ]
    tables = [d.sequence(f"b.{i}").block_table for i in range(n)]
    assert len({table[:2] for table in tables}) == 1 and len({table[2] for table in tables}) == n


@pytest.mark.parametrize("host", [0, 1, 3, 8])
@pytest.mark.parametrize("prompt", [8, 6])
def test_swap_moves_each_block_once(host: int, prompt: int) -> None:
    """A15: two answers share the prompt; at a full and at a half-full block; a small host means recompute."""
    d = Driver(block_size=4, num_blocks=7, preempt="swap", host_blocks=host, vocab=40)
    d.submit("a", [1] * prompt, n=2, new=6)
    d.submit("b", [2] * prompt, n=2, new=6)
    d.run()
    how = {e.how for e in d.of(Preempt)}
    assert how == {"swap" if host == 8 else "recompute"} or host == 3
    first = [e for e in next(s for s in d.events if any(isinstance(e, Preempt) for e in s))]
    out = [e.block for e in first if isinstance(e, SwapOut)]
    assert len(out) == len(set(out))
    if how == {"swap"}:
        assert len(d.of(SwapOut)) == len(d.of(SwapIn))
        assert {e.cause for e in d.of(Share)} == {"fork", "swap"}
    large = Driver(block_size=4, num_blocks=70, vocab=40)
    large.submit("a", [1] * prompt, n=2, new=6)
    large.submit("b", [2] * prompt, n=2, new=6)
    assert d.texts() == large.run().texts()
    assert d.scheduler.host_blocks() == ()


def test_swapped_in_only_with_room_for_the_next_token_of_each_branch() -> None:
    """A15: 2 blocks come back and each of two branches needs a new one at slot 8: 4, not 2."""
    d = Driver(block_size=4, num_blocks=6, preempt="swap", host_blocks=8, vocab=40)
    d.submit("a", [1] * 7, n=2, new=4)
    d.submit("b", [2] * 8, n=2, new=2)
    d.run()
    assert d.of(SwapIn) and d.of(Wait)[0].need == 4
    back = next(i for i, step in enumerate(d.events) if any(isinstance(e, SwapIn) for e in step))
    assert [e.name for e in d.events[back]].count("allocate") == 2


def test_a_shared_half_block_is_copied_after_it_came_back() -> None:
    """Swapped out before its first copy: one plan moves it in and copies it; the other writes in place."""
    d = Driver(block_size=4, num_blocks=5, preempt="swap", host_blocks=8, vocab=40)
    d.submit("a", [1] * 8, new=3)
    d.submit("b", [2] * 6, n=2, new=2)
    for _ in range(4):
        d.step()
    assert [type(e) for e in d.events[1] if isinstance(e, Preempt | SwapOut)] == [Preempt] * 2 + [SwapOut] * 2
    plan = d.plans[3]
    assert [type(e) for e in plan.events] == [Resume, Resume, SwapIn, SwapIn, Share, Share, Copy]
    assert plan.copies[0][0] == plan.swap_in[1][1]  # what has just come back is what is copied
    assert {e.reason for e in d.of(Finish)} == {"length"} and not d.scheduler.has_work


def test_cancelled_while_swapped_out_the_host_is_free_again() -> None:
    d = Driver(block_size=4, num_blocks=6, preempt="swap", host_blocks=8)
    d.submit("a", [1] * 8, new=12)
    d.submit("b", [2] * 8, new=12)
    while not d.of(SwapOut):
        d.step()
    assert d.scheduler.host_blocks() and d.sequence("b.0").state == "swapped"
    assert d.sequence("b.0").block_table == () and d.sequence("b.0").written > 0
    d.cancel("b")
    d.step()
    assert d.scheduler.host_blocks() == () and d.of(Finish)[-1] == Finish("b.0", "cancelled")
    d.run()


@pytest.mark.parametrize(("watermark", "free"), [(0.0, 0), (0.01, 0), (0.3, 6)])
def test_the_watermark_is_for_admissions_only(watermark: float, free: int) -> None:
    """A20: rounded down to blocks; the one that runs may use the reserve."""
    d = Driver(block_size=4, num_blocks=20, watermark=watermark)
    d.submit("a", 4, new=40)
    d.step()
    d.submit("b", [9] * (4 * (19 - free) + 1), new=1)
    wait = [e for e in d.step() if isinstance(e, Wait)]
    assert len(wait) == 1 and wait[0].need == 20 - free
    assert wait[0].reason == ("watermark" if free else "blocks")
    d.cancel("b")
    d.run()
    assert len(d.sequence("a.0").token_ids) == 44


def test_the_watermark_does_not_hold_up_the_first() -> None:
    """A20: pool 2, a watermark of 1 block, a prompt of 2 blocks: admitted, because nothing runs."""
    d = Driver(block_size=4, num_blocks=2, watermark=0.5)
    d.submit("a", 8, new=1)
    d.step()
    assert d.of(Admit) == [Admit("a")]


@pytest.mark.parametrize("watermark", [1.0, 1.5, -0.1])
def test_a_watermark_of_the_whole_pool_is_refused(watermark: float) -> None:
    with pytest.raises(ValueError, match="watermark"):
        Driver(watermark=watermark)


def test_twins_can_not_be_swapped_out_for_ever() -> None:
    """append-only: b holds twins of its own blocks, more than it would need alone; it must come back."""
    d = Driver(
        block_size=1, num_blocks=9, sharing="append-only", preempt="swap", host_blocks=64, max_batch_tokens=99
    )
    d.submit("a", [1, 1, 1], new=5)
    d.submit("b", [1, 1, 1], n=3, new=3)
    d.run()
    assert {e.reason for e in d.of(Finish)} == {"length"}
