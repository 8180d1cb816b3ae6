"""The buddy allocator: runs are powers of two; a run is split in halves to serve, halves merge when both are
free.

    take(3) of 16:   [      16      ] -> [  8   |  8   ] -> [ 4 | 4 |  8   ]   the first 4 is taken

The Orca baselines of the PagedAttention paper (SOSP 2023, section 6.1) allocate so. It is fast, it leaves few
odd holes, and it wastes what rounding up to a power of two adds.
"""

from __future__ import annotations

from bisect import bisect_left, insort

from core.memory.address_space import check_length, not_held


def power_of_two(length: int) -> int:
    """The smallest power of two that is at least ``length`` (1 for anything below 2)."""
    return 1 << max(0, length - 1).bit_length()


class BuddySpace:
    """Power-of-two runs, each aligned to its own size. A capacity of any size is cut into aligned powers of
    two (12 = 8 + 4) that never merge with each other."""

    policy = "buddy"

    def __init__(self, capacity: int) -> None:
        """Raises ValueError when the capacity is below 1."""
        if capacity < 1:
            raise ValueError(f"an address space of {capacity} slots was asked for; it needs at least 1.")
        self.capacity = capacity
        self.free_slots = capacity
        self.peak_held = 0
        self._free: list[list[int]] = [[] for _ in range(capacity.bit_length())]  # [order] -> starts
        self._held: dict[int, int] = {}  # start -> order
        start = 0
        for order in reversed(range(capacity.bit_length())):
            if capacity >> order & 1:
                self._free[order].append(start)
                start += 1 << order

    def rounded(self, length: int) -> int:
        """The power of two that holds ``length``."""
        return power_of_two(length)

    def take(self, length: int) -> int | None:
        """Take the power of two that holds ``length``: the smallest free run that will do, halved as often
        as it can be. None if no free run is large enough."""
        check_length(length)
        order = (length - 1).bit_length()
        found = next((o for o in range(order, len(self._free)) if self._free[o]), None)
        if found is None:
            return None
        start = self._free[found].pop(0)
        for half in reversed(range(order, found)):
            insort(self._free[half], start + (1 << half))  # the upper half stays free
        self._held[start] = order
        self.free_slots -= 1 << order
        self.peak_held = max(self.peak_held, self.capacity - self.free_slots)
        return start

    def give_back(self, start: int) -> int:
        """Return a run; it merges with its buddy, and the pair with theirs, as long as the buddy is free.

        Raises ValueError if nobody holds a run that begins there.
        """
        order = self._held.pop(start, None)
        if order is None:
            raise not_held(start)
        length = 1 << order
        self.free_slots += length
        while True:
            starts, buddy = self._free[order], start ^ (1 << order)
            index = bisect_left(starts, buddy)
            if index == len(starts) or starts[index] != buddy:  # taken, split, or past the end of the space
                insort(starts, start)
                return length
            del starts[index]
            start = min(start, buddy)
            order += 1

    def holes(self) -> tuple[tuple[int, int], ...]:
        """The free runs, (start, length), in order of address; neighbours that are no buddies stay apart."""
        return tuple(sorted((s, 1 << order) for order, starts in enumerate(self._free) for s in starts))

    def held(self) -> tuple[tuple[int, int], ...]:
        """The runs taken, (start, length with its rounding), in order of address."""
        return tuple(sorted((start, 1 << order) for start, order in self._held.items()))

    def longest(self) -> int:
        """The largest free power of two; 0 when nothing is free."""
        return next((1 << o for o in reversed(range(len(self._free))) if self._free[o]), 0)
