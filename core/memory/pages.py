"""Holding in pages of one's own, and holding nothing at all."""

from __future__ import annotations

import heapq
from collections.abc import Callable

from core.memory.events import Event, GiveBack, Reserve
from core.memory.holders import Copied, Lane, Need, Piece


class Pages:
    """Pages of ``block_size`` slots, handed out on demand, lowest number first; nothing is shared.

    ``promise``: admission sets aside as many pages as prompt + new tokens can need, so that no sequence ever
    runs dry. Without it, pages may run out, and the youngest request gives way (``preempts``).
    """

    keeps = True

    def __init__(
        self, strategy: str, capacity: int, block_size: int, promise: bool, events: list[Event]
    ) -> None:
        """Raises ValueError when not even one page fits."""
        if capacity < block_size:
            raise ValueError(f"{capacity} slots do not hold one page of {block_size}; take a smaller page.")
        self.strategy, self.block_size, self.events = strategy, block_size, events
        self.preempts = not promise
        self.copies: list[Copied] = []
        self.written: Callable[[str], int] = lambda sequence: 0
        self._promise = promise
        self._total = capacity // block_size
        self._rest = capacity % block_size  # slots at the end that make no page
        self._free = list(range(self._total))  # a heap: the lowest page is the next one handed out
        self._pieces: dict[str, tuple[Piece, ...]] = {}
        self._promised: dict[str, int] = {}  # pages set aside and not handed out yet
        self._set_aside = 0

    def _count(self, length: int) -> int:
        return -(-length // self.block_size)

    def _pages_for(self, lane: Lane) -> int:
        most = lane.prompt + lane.new - 1 if self._promise else 0
        return self._count(max(lane.length, most))

    def need(self, lanes: list[Lane]) -> Need:
        return Need(sum(map(self._pages_for, lanes)) * self.block_size)

    def fits(self, need: Need) -> bool:
        return self._count(need.length) <= len(self._free) - self._set_aside

    def hopeless(self, need: Need) -> bool:
        return self._count(need.length) > self._total

    def admit(self, lanes: list[Lane]) -> bool:
        if not self.fits(self.need(lanes)):
            return False
        for lane in lanes:
            self._pieces[lane.sequence] = ()
            self._promised[lane.sequence] = self._pages_for(lane) if self._promise else 0
            self._set_aside += self._promised[lane.sequence]
            self.extend(lane.sequence, lane.length)
        return True

    def extend(self, sequence: str, length: int) -> Need | None:
        pieces, size = self._pieces[sequence], self.block_size
        lacking = self._count(length) - len(pieces)
        if lacking <= 0:
            return None
        promised = min(self._promised[sequence], lacking)
        if lacking - promised > len(self._free) - self._set_aside:
            return Need(lacking * size)
        self._promised[sequence] -= promised
        self._set_aside -= promised
        pages = [heapq.heappop(self._free) for _ in range(lacking)]
        new = (Piece(page * size, size, (len(pieces) + i) * size) for i, page in enumerate(pages))
        self._pieces[sequence] = (*pieces, *new)
        self.events.extend(Reserve(self.strategy, sequence, page * size, size) for page in pages)
        return None

    def moves(self, sequence: str) -> bool:
        return True

    def release(self, sequence: str) -> None:
        self._set_aside -= self._promised.pop(sequence, 0)
        for piece in reversed(self._pieces.pop(sequence, ())):
            heapq.heappush(self._free, piece.start // self.block_size)
            self.events.append(GiveBack(self.strategy, sequence, piece.start, piece.length))

    def pieces(self, sequence: str) -> tuple[Piece, ...]:
        return self._pieces.get(sequence, ())

    def promised(self, sequence: str) -> int:
        return self._promised.get(sequence, 0) * self.block_size

    def free(self) -> int:
        return (len(self._free) - self._set_aside) * self.block_size + self._rest

    def longest(self) -> int:
        """Any free page serves any need: all of them together are as good as one run."""
        return (len(self._free) - self._set_aside) * self.block_size

    def too_short(self, need: Need) -> int:
        return 0


class Nothing:
    """No cache: nothing is held, so nothing is ever lacking."""

    keeps = False
    preempts = False

    def __init__(self, capacity: int) -> None:
        self.copies: list[Copied] = []
        self.written: Callable[[str], int] = lambda sequence: 0
        self._capacity = capacity

    def need(self, lanes: list[Lane]) -> Need:
        return Need(0)

    def fits(self, need: Need) -> bool:
        return True

    def hopeless(self, need: Need) -> bool:
        return False

    def admit(self, lanes: list[Lane]) -> bool:
        return True

    def extend(self, sequence: str, length: int) -> Need | None:
        return None

    def moves(self, sequence: str) -> bool:
        return True

    def release(self, sequence: str) -> None:
        return None

    def pieces(self, sequence: str) -> tuple[Piece, ...]:
        return ()

    def promised(self, sequence: str) -> int:
        return 0

    def free(self) -> int:
        return self._capacity

    def longest(self) -> int:
        return self._capacity

    def too_short(self, need: Need) -> int:
        return 0
