"""The pool: every block in one place, counts that cannot go wrong unnoticed, first in first out."""

import pytest

from core.memory.block_pool import BlockPool, PoolError, initial_order
from core.memory.prefix import PrefixIndex
from core.memory.usage import paged_usage


def pool_of(num_blocks: int, size: int = 4, *, keep: bool = False) -> BlockPool:
    index = PrefixIndex(size) if keep else None
    return BlockPool(num_blocks, size, order=list(range(num_blocks)), index=index, keep=keep)


def filled_block(pool: BlockPool, tokens: list[int]) -> int:
    block, _ = pool.take(pool.block_size)
    pool.write(block, 0, tokens)
    assert pool.index is not None
    pool.index.register(block, None, tuple(tokens))
    return block


@pytest.mark.parametrize("num_blocks", [2, 3, 4, 8, 32, 1000])
def test_first_blocks_are_not_the_identity(num_blocks: int) -> None:
    for seed in range(50):
        order = initial_order(num_blocks, None, seed)
        assert sorted(order) == list(range(num_blocks))
        assert order[0] != 0 and order[1] != order[0] + 1
        assert order == initial_order(num_blocks, None, seed)
    assert len({tuple(initial_order(32, None, seed)) for seed in range(50)}) == 50


def test_a_scenario_fixes_the_first_blocks() -> None:
    assert initial_order(6, (1, 3), 0) == [1, 3, 0, 2, 4, 5]
    assert initial_order(1, None, 0) == [0]


def test_taken_first_in_first_out() -> None:
    pool = pool_of(4)
    assert [pool.take(4) for _ in range(4)] == [(0, False), (1, False), (2, False), (3, False)]
    for block in (2, 0, 3, 1):
        assert pool.release(block) == (0, "free")
    assert pool.free_ids == (2, 0, 3, 1)


def test_taking_and_releasing_for_ever() -> None:
    """A8: one more round than there are blocks; the count is 1 after taking and all are free each time."""
    pool = pool_of(3)
    for _ in range(4):
        block, _ = pool.take(4)
        assert pool.ref[block] == 1
        pool.release(block)
        assert pool.available == 3


def test_released_once_too_often() -> None:
    """A12: [7, 7] with ref 1 raises, and the block is free once."""
    pool = pool_of(8)
    for _ in range(8):
        pool.take(4)
    pool.release(7)
    with pytest.raises(PoolError, match="block 7 was released once more than it was taken"):
        pool.release(7)
    assert pool.free_ids == (7,)
    assert pool.ref[7] == 0


def test_fork_finish_finish() -> None:
    """A12: two holders give it back one by one; it is free once."""
    pool = pool_of(2)
    block, _ = pool.take(4)
    assert pool.share(block) == 2
    assert pool.release(block) == (1, None)
    assert pool.release(block) == (0, "free")
    assert pool.free_ids == (1, 0)


def test_an_empty_pool_and_a_free_block_say_no() -> None:
    pool = pool_of(1)
    with pytest.raises(PoolError, match="free block holds nothing"):
        pool.share(0)
    with pytest.raises(PoolError, match="not held"):
        pool.write(0, 0, [1])
    pool.take(4)
    with pytest.raises(PoolError, match="all 1 blocks are held"):
        pool.take(4)


def test_no_gap_and_no_overflow() -> None:
    pool = pool_of(1)
    block, _ = pool.take(4)
    with pytest.raises(PoolError, match="0 of 4 slots"):
        pool.write(block, 1, [9])
    pool.write(block, 0, [1, 2, 3])
    with pytest.raises(PoolError, match="3 of 4 slots"):
        pool.write(block, 3, [4, 5])
    assert pool.tokens(block) == (1, 2, 3)


def test_exactly_full_is_full() -> None:
    """A4: a block of 4 with 4 tokens has 4, not 0; an untouched one has 0."""
    pool = pool_of(2)
    block, _ = pool.take(4)
    assert pool.filled(block) == 0
    pool.write(block, 0, [1, 2, 3, 4])
    assert pool.filled(block) == 4
    view = pool.view(block)
    assert view is not None and (view.filled, view.token_ids) == (4, (1, 2, 3, 4))
    assert pool.view(1) is None


def test_cached_blocks_go_last_and_oldest_first() -> None:
    pool = pool_of(3, keep=True)
    a, b = filled_block(pool, [1, 2, 3, 4]), filled_block(pool, [5, 6, 7, 8])
    assert pool.release(b) == (0, "cache")
    assert pool.release(a) == (0, "cache")
    assert pool.cached_ids == (b, a) and pool.available == 3
    assert pool.take(4) == (2, False)  # the plain free one first
    assert pool.take(4) == (b, True)
    assert pool.take(4) == (a, True)
    assert pool.index is not None and len(pool.index) == 0


def test_a_cached_block_is_used_again() -> None:
    pool = pool_of(2, keep=True)
    block = filled_block(pool, [1, 2, 3, 4])
    pool.release(block)
    assert pool.share(block) == 1
    assert pool.cached_ids == () and pool.live_slots == 4
    assert pool.tokens(block) == (1, 2, 3, 4)


def test_every_slot_stands_somewhere() -> None:
    """3 usable slots of 4, 2 of them written: 2 live, 1 reserved, 1 that can never be used."""
    pool = pool_of(4, keep=True)
    block, _ = pool.take(3)
    pool.write(block, 0, [1, 2])
    usage = paged_usage(pool, copied=0, running=1, waiting=0)
    assert (usage.live, usage.reserved, usage.internal, usage.cached, usage.free) == (2, 1, 1, 0, 12)
    pool.release(filled_block(pool, [1, 2, 3, 4]))
    pool.share(block)
    usage = paged_usage(pool, copied=2, running=2, waiting=1)
    assert (usage.live, usage.reserved, usage.internal, usage.cached, usage.free) == (2, 1, 1, 4, 8)
    assert (usage.external, usage.copied, usage.running, usage.waiting) == (0, 2, 2, 1)
