"""Orders of block copies: nothing is overwritten before it has been read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernels.pairs import SAVED, check_pairs, copy_orders


def carry_out(orders: list, num_blocks: int) -> list[int]:
    """Each list by itself, as a program of the copy kernel does it."""
    blocks = list(range(num_blocks))
    for order in orders:
        saved = None
        for source, target in order:
            content = saved if source == SAVED else blocks[source]
            if target == SAVED:
                saved = content
            else:
                blocks[target] = content
    return blocks


def test_a_chain_is_walked_from_its_end() -> None:
    assert copy_orders([(1, 2), (2, 3)]) == [[(2, 3), (1, 2)]]


def test_an_exchange_sets_one_block_aside() -> None:
    assert copy_orders([(1, 2), (2, 1)]) == [[(2, SAVED), (1, 2), (SAVED, 1)]]


def test_copies_that_share_nothing_go_side_by_side() -> None:
    assert sorted(copy_orders([(0, 1), (2, 3), (2, 4)])) == [[(0, 1)], [(2, 4), (2, 3)]]


@given(data=st.data(), blocks=st.integers(1, 12))
def test_any_copies(data: st.DataObject, blocks: int) -> None:
    targets = data.draw(st.lists(st.integers(0, blocks - 1), unique=True))
    pairs = check_pairs([(data.draw(st.integers(0, blocks - 1)), t) for t in targets], blocks)
    expected = list(range(blocks))
    for source, target in pairs:
        expected[target] = source
    orders = copy_orders(pairs)
    assert carry_out(orders, blocks) == expected
    assert carry_out(orders[::-1], blocks) == expected  # lists are independent: their order is free
    used = [{b for pair in order for b in pair} - {SAVED} for order in orders]
    assert sum(map(len, used)) == len(set().union(*used))


@pytest.mark.parametrize(
    ("pairs", "sentence"),
    [
        ([(0, 4)], "leaves the pool of 4 blocks"),
        ([(-1, 0)], "leaves"),
        ([(0, 2), (1, 2)], "target of two copies"),
    ],
)
def test_copies_that_make_no_sense(pairs: list, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        check_pairs(pairs, 4)
