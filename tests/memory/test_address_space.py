"""Contiguous addresses: what fits, what merges, what it costs to compact. Exact addresses."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from core.memory.address_space import AddressSpace, FitSpace, Move, make_space
from core.memory.buddy import BuddySpace, power_of_two


def check(space: AddressSpace) -> None:
    """No slot has two owners, free + held = capacity, free neighbours are merged."""
    taken, free = space.held(), space.holes()
    slots = [slot for start, length in (*taken, *free) for slot in range(start, start + length)]
    assert sorted(slots) == list(range(space.capacity))
    assert space.free_slots == sum(length for _, length in free)
    assert space.longest() == max((length for _, length in free), default=0)
    if isinstance(space, FitSpace):
        assert all(a + n < b for (a, n), (b, _) in pairwise(free)), "two holes touch"
    else:
        for start, length in (*taken, *free):
            assert length == power_of_two(length) and start % length == 0
        mates = {(start ^ length, length) for start, length in free}
        assert not mates & set(free), "two free buddies have not merged"


@pytest.mark.parametrize("order", [(0, 2, 1), (0, 1, 2), (2, 1, 0), (1, 0, 2), (1, 2, 0), (2, 0, 1)])
@pytest.mark.parametrize("policy", ["first fit", "best fit"])
def test_freed_neighbours_merge_on_both_sides(policy: str, order: tuple[int, ...]) -> None:
    """A23: A, B, C of 4 in 12 slots, freed in any order, leave one hole of 12."""
    space = make_space(12, policy)
    starts = [space.take(4) for _ in range(3)]
    assert starts == [0, 4, 8]
    for i in order:
        space.give_back(4 * i)
        check(space)
    assert space.holes() == ((0, 12),)
    assert space.take(12) == 0


def holes_of_eight_and_four(policy: str) -> AddressSpace:
    space = make_space(14, policy)
    for length in (8, 1, 4, 1):
        space.take(length)
    space.give_back(0)
    space.give_back(9)
    assert space.holes() == ((0, 8), (9, 4))
    return space


def test_first_fit_spends_the_big_hole() -> None:
    """A23: holes of 8 and 4; after 4, first fit has no 8 left. Enough is free, in pieces."""
    space = holes_of_eight_and_four("first fit")
    assert space.take(4) == 0
    assert space.free_slots == 8 and space.longest() == 4
    assert space.take(8) is None
    check(space)


def test_best_fit_keeps_the_big_hole() -> None:
    space = holes_of_eight_and_four("best fit")
    assert space.take(4) == 9
    assert space.take(8) == 0
    check(space)


def test_best_fit_takes_the_lowest_of_equal_holes() -> None:
    space = FitSpace(12, "best fit")
    for _ in range(4):
        space.take(3)
    space.give_back(6)
    space.give_back(0)
    assert space.take(3) == 0


def test_buddy_splits_and_merges() -> None:
    space = BuddySpace(16)
    assert space.take(3) == 0 and space.holes() == ((4, 4), (8, 8))
    assert space.take(5) == 8 and space.take(1) == 4
    assert space.holes() == ((5, 1), (6, 2))
    assert space.take(3) is None and space.free_slots == 3
    for start, length in ((0, 4), (4, 1), (8, 8)):
        assert space.give_back(start) == length
        check(space)
    assert space.holes() == ((0, 16),)


def test_buddy_with_a_capacity_that_is_no_power_of_two() -> None:
    space = BuddySpace(13)
    assert space.holes() == ((0, 8), (8, 4), (12, 1))
    assert space.take(9) is None, "8 + 4 are neighbours, but no buddies"
    assert [space.take(4), space.take(8), space.take(1), space.take(1)] == [8, 0, 12, None]
    for start in (12, 0, 8):
        space.give_back(start)
    assert space.holes() == ((0, 8), (8, 4), (12, 1))


@pytest.mark.parametrize("policy", ["first fit", "best fit", "buddy"])
def test_misuse_is_refused(policy: str) -> None:
    space = make_space(8, policy)
    start = space.take(2)
    assert start == 0
    space.give_back(0)
    with pytest.raises(ValueError, match="given back"):
        space.give_back(0)
    with pytest.raises(ValueError, match="at least 1"):
        space.take(0)
    with pytest.raises(ValueError, match="at least 1"):
        make_space(0, policy)
    with pytest.raises(ValueError, match="worst fit"):
        make_space(8, "worst fit")


def test_compaction_makes_one_hole_and_moves_are_safe_in_order() -> None:
    space = FitSpace(16)
    for length in (3, 2, 4, 1, 3):
        space.take(length)
    for start in (0, 5):
        space.give_back(start)
    store = ["."] * 16
    for start, length in space.held():
        store[start : start + length] = [f"{start}"] * length
    moves = space.compact()
    assert moves == [Move(3, 0, 2), Move(9, 2, 1), Move(10, 3, 3)]
    for source, target, length in moves:  # carried out front to back, slot by slot
        for i in range(length):
            store[target + i] = store[source + i]
    assert store[:6] == ["3", "3", "9", "10", "10", "10"]
    assert space.holes() == ((6, 10),)
    check(space)
    assert space.compact() == []


def test_compaction_of_a_full_space_leaves_no_hole() -> None:
    space = FitSpace(4)
    space.take(4)
    assert space.compact() == [] and space.holes() == () and space.longest() == 0


@pytest.mark.parametrize("policy", ["first fit", "best fit", "buddy"])
@pytest.mark.parametrize("capacity", [1, 2, 7, 64, 100])
def test_random_operations(policy: str, capacity: int) -> None:
    rng = random.Random(f"{policy}{capacity}")
    space = make_space(capacity, policy)
    mine: dict[int, int] = {}
    for _ in range(1500):
        if mine and rng.random() < 0.5:
            start = rng.choice(sorted(mine))
            assert space.give_back(start) == mine.pop(start)
        else:
            length = rng.randint(1, max(1, capacity // 3))
            start = space.take(length)
            if start is None:
                assert space.longest() < space.rounded(length)
            else:
                mine[start] = space.rounded(length)
        assert dict(space.held()) == mine
        check(space)
    for start in mine:
        space.give_back(start)
    check(space)
    assert space.free_slots == capacity
