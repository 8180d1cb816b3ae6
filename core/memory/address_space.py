"""Contiguous addresses, and who holds which run of them: first fit and best fit.

    slots   0         4         8         12
            |  A      |  (hole) |  B      |      take(5) fails: 4 are free, but not 5 in a row

Pure bookkeeping: a run is [start, start + length) in token slots. Free runs are kept in order of address and
neighbours are always merged, so two free runs never touch. No slot has two owners; held + free = capacity.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import NamedTuple, Protocol

POLICIES = ("first fit", "best fit", "buddy")


class Move(NamedTuple):
    """Compaction moves the run [source, source + length) down to [target, target + length)."""

    source: int
    target: int
    length: int


class AddressSpace(Protocol):
    """What every allocator of contiguous runs offers; all figures in token slots."""

    policy: str
    capacity: int
    free_slots: int
    peak_held: int

    def rounded(self, length: int) -> int:
        """How many slots a request for ``length`` really takes."""
        ...

    def take(self, length: int) -> int | None:
        """Take a run of at least ``length`` slots: its start, or None if no free run is long enough."""
        ...

    def give_back(self, start: int) -> int:
        """Return the run that begins at ``start``; gives its length. Raises ValueError if nobody holds it."""
        ...

    def holes(self) -> tuple[tuple[int, int], ...]:
        """The free runs as the allocator sees them: (start, length) in order of address."""
        ...

    def held(self) -> tuple[tuple[int, int], ...]:
        """The runs taken: (start, length) in order of address."""
        ...

    def longest(self) -> int:
        """The longest run that could be taken now; 0 when nothing is free."""
        ...


def check_length(length: int) -> None:
    """Raises ValueError unless ``length`` is a run that can be asked for."""
    if length < 1:
        raise ValueError(f"a run of {length} slots was asked for; it must have at least 1.")


def not_held(start: int) -> ValueError:
    return ValueError(f"slot {start} does not begin a run that is held; it cannot be given back (again).")


class FitSpace:
    """First fit (the lowest hole that is long enough) or best fit (the shortest one; of equals the
    lowest)."""

    def __init__(self, capacity: int, policy: str = "first fit") -> None:
        """Raises ValueError when the capacity is below 1 or the policy is neither of the two."""
        if capacity < 1:
            raise ValueError(f"an address space of {capacity} slots was asked for; it needs at least 1.")
        if policy not in ("first fit", "best fit"):
            raise ValueError(f"the policy is {policy!r}; it must be 'first fit' or 'best fit'.")
        self.policy = policy
        self.capacity = capacity
        self.free_slots = capacity
        self.peak_held = 0
        self._starts = [0]  # of the free runs, ascending; two free runs never touch
        self._free = {0: capacity}  # start -> length of each free run
        self._held: dict[int, int] = {}  # start -> length of each run taken

    def rounded(self, length: int) -> int:
        """Exactly ``length``: these policies round nothing up."""
        return length

    def _find(self, length: int) -> int | None:
        free = self._free
        if self.policy == "first fit":
            return next((start for start in self._starts if free[start] >= length), None)
        fitting = [(free[start], start) for start in self._starts if free[start] >= length]
        return min(fitting)[1] if fitting else None

    def take(self, length: int) -> int | None:
        """Take ``length`` slots from the low end of the chosen hole; None if no hole is long enough."""
        check_length(length)
        start = self._find(length)
        if start is None:
            return None
        rest = self._free.pop(start) - length
        index = bisect_left(self._starts, start)
        if rest:
            self._starts[index] = start + length
            self._free[start + length] = rest
        else:
            del self._starts[index]
        self._held[start] = length
        self.free_slots -= length
        self.peak_held = max(self.peak_held, self.capacity - self.free_slots)
        return start

    def give_back(self, start: int) -> int:
        """Return a run; it merges with the free neighbours on both sides.

        Raises ValueError if nobody holds a run that begins there (given back twice, for one).
        """
        length = self._held.pop(start, None)
        if length is None:
            raise not_held(start)
        self.free_slots += length
        index = bisect_left(self._starts, start)
        merged = length
        if index < len(self._starts) and self._starts[index] == start + length:  # the hole above
            merged += self._free.pop(start + length)
            del self._starts[index]
        if index and self._starts[index - 1] + self._free[self._starts[index - 1]] == start:  # the hole below
            self._free[self._starts[index - 1]] += merged
        else:
            insort(self._starts, start)
            self._free[start] = merged
        return length

    def holes(self) -> tuple[tuple[int, int], ...]:
        """The free runs, (start, length), in order of address."""
        return tuple((start, self._free[start]) for start in self._starts)

    def held(self) -> tuple[tuple[int, int], ...]:
        """The runs taken, (start, length), in order of address."""
        return tuple(sorted(self._held.items()))

    def longest(self) -> int:
        """The longest hole; 0 when nothing is free."""
        return max(self._free.values(), default=0)

    def compact(self) -> list[Move]:
        """Slide every run down so that one hole remains, at the top. Returns the moves in a safe order.

        Each move goes to lower addresses and the moves are in order of address, so that carrying them out one
        after the other, front to back, never overwrites a run that is still to be moved.
        """
        moves, target = [], 0
        held: dict[int, int] = {}
        for start, length in self.held():
            if start != target:
                moves.append(Move(start, target, length))
            held[target] = length
            target += length
        self._held = held
        self._starts = [target] if target < self.capacity else []
        self._free = {target: self.capacity - target} if target < self.capacity else {}
        return moves


def make_space(capacity: int, policy: str) -> AddressSpace:
    """The address space for a policy's name. Raises ValueError for a name that is not in POLICIES."""
    from core.memory.buddy import BuddySpace  # here: buddy.py needs this module's helpers

    if policy == "buddy":
        return BuddySpace(capacity)
    if policy not in POLICIES:
        raise ValueError(f"the policy is {policy!r}; it must be one of {', '.join(map(repr, POLICIES))}.")
    return FitSpace(capacity, policy)
