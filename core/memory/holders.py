"""How a strategy holds a sequence's tokens: in one contiguous run, in pages of its own, or not at all.

A holder answers "is there room?" and says what it copied; who asks, and in which order, is
``core.memory.contiguous``. All figures are token slots.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from core.memory.address_space import AddressSpace
from core.memory.events import Event, GiveBack, Grow, Reserve


class Piece(NamedTuple):
    """Slots [start, start + length) held by one sequence; ``first`` is the position of its first token
    there."""

    start: int
    length: int
    first: int


class Need(NamedTuple):
    """Room that is asked for: ``runs`` runs of ``length`` slots each (pages: one "run", anywhere)."""

    length: int
    runs: int = 1


class Lane(NamedTuple):
    """A sequence to be admitted: it is to write ``length`` tokens now, and ``prompt`` + ``new`` - 1 at the
    most."""

    sequence: str
    prompt: int
    new: int
    length: int


class Copied(NamedTuple):
    """``tokens`` tokens are to be copied from slots [source, ...) to [target, ...)."""

    source: int
    target: int
    tokens: int


@dataclass(frozen=True, slots=True)
class Rule:
    """The lengths that a contiguous strategy asks for.

    ``first(prompt, new, length)``: slots for a sequence with this prompt and up to ``new`` new tokens that
    is to write ``length`` tokens now. ``more(held, length)``: slots of the run it moves to when ``length``
    no longer fit into ``held``; None if it never moves.
    """

    first: Callable[[int, int, int], int]
    more: Callable[[int, int], int | None]


class Holder(Protocol):
    """One way of holding. ``preempts``: a sequence that lacks room takes it from the youngest request."""

    preempts: bool
    copies: list[Copied]

    def need(self, lanes: list[Lane]) -> Need:
        """The room that ``admit`` would take."""
        ...

    def fits(self, need: Need) -> bool:
        """There is that much room now."""
        ...

    def hopeless(self, need: Need) -> bool:
        """Not even an empty memory would do."""
        ...

    def admit(self, lanes: list[Lane]) -> bool:
        """Take room for all lanes, or for none."""
        ...

    def extend(self, sequence: str, length: int) -> Need | None:
        """See to it that the sequence can hold ``length`` tokens; None when it can, else what is lacking."""
        ...

    def moves(self, sequence: str) -> bool:
        """The sequence can get more room than it has, if there is any."""
        ...

    def release(self, sequence: str) -> None:
        """Give back everything that the sequence holds (nothing: no effect)."""
        ...

    def pieces(self, sequence: str) -> tuple[Piece, ...]:
        """What the sequence holds, in order of position."""
        ...

    def promised(self, sequence: str) -> int:
        """Slots that are set aside for the sequence and not handed out yet."""
        ...

    def free(self) -> int:
        """Slots that nobody holds and nobody was promised."""
        ...

    def longest(self) -> int:
        """The longest run that could be taken now (pages: all free ones together)."""
        ...

    def too_short(self, need: Need) -> int:
        """Free slots that lie in runs shorter than what is needed."""
        ...


class Runs:
    """One run a sequence in a contiguous address space; moving to a longer one holds both while it copies."""

    preempts = False

    def __init__(self, strategy: str, space: AddressSpace, rule: Rule, events: list[Event]) -> None:
        self.strategy, self.space, self.rule, self.events = strategy, space, rule, events
        self.copies: list[Copied] = []
        self.written: Callable[[str], int] = lambda _: 0  # set by the strategy: tokens that a move must copy
        self._pieces: dict[str, tuple[Piece, ...]] = {}

    def _wanted(self, lane: Lane) -> int:
        return max(lane.length, self.rule.first(lane.prompt, lane.new, lane.length))

    def need(self, lanes: list[Lane]) -> Need:
        return Need(self.space.rounded(max(map(self._wanted, lanes))), len(lanes))

    def fits(self, need: Need) -> bool:
        return sum(length // need.length for _, length in self.space.holes()) >= need.runs

    def hopeless(self, need: Need) -> bool:
        return self.space.rounded(need.length) * need.runs > self.space.capacity

    def admit(self, lanes: list[Lane]) -> bool:
        taken: list[int] = []
        for lane in lanes:
            start = self.space.take(self._wanted(lane))
            if start is None:
                for taken_start in reversed(taken):
                    self.space.give_back(taken_start)
                return False
            taken.append(start)
        for lane, start in zip(lanes, taken, strict=True):
            self._hold(lane.sequence, start, self.space.rounded(self._wanted(lane)))
        return True

    def _hold(self, sequence: str, start: int, held: int) -> None:
        self._pieces[sequence] = (Piece(start, held, 0),)
        self.events.append(Reserve(self.strategy, sequence, start, held))

    def extend(self, sequence: str, length: int) -> Need | None:
        old = self._pieces[sequence][0]
        if length <= old.length:
            return None
        wanted = self.rule.more(old.length, length)
        if wanted is None:
            return Need(length)
        start = self.space.take(wanted)
        if start is None:
            return Need(self.space.rounded(wanted))
        tokens = self.written(sequence)
        self.copies.append(Copied(old.start, start, tokens))
        self.space.give_back(old.start)
        held = self.space.rounded(wanted)
        self._pieces[sequence] = (Piece(start, held, 0),)
        self.events.append(
            Grow(self.strategy, sequence, start, held, old.start, old.length, tokens)
        )
        return None

    def moves(self, sequence: str) -> bool:
        held = self._pieces[sequence][0].length
        return self.rule.more(held, held + 1) is not None

    def release(self, sequence: str) -> None:
        for piece in self._pieces.pop(sequence, ()):
            self.space.give_back(piece.start)
            self.events.append(GiveBack(self.strategy, sequence, piece.start, piece.length))

    def pieces(self, sequence: str) -> tuple[Piece, ...]:
        return self._pieces.get(sequence, ())

    def promised(self, sequence: str) -> int:
        return 0

    def free(self) -> int:
        return self.space.free_slots

    def longest(self) -> int:
        return self.space.longest()

    def too_short(self, need: Need) -> int:
        return sum(length for _, length in self.space.holes() if length < need.length)

    def relocate(self, targets: dict[int, int]) -> None:
        """After a compaction: runs that began at a key of ``targets`` now begin at its value."""
        for sequence, (piece,) in self._pieces.items():
            if piece.start in targets:
                self._pieces[sequence] = (piece._replace(start=targets[piece.start]),)


class Pages:
    """Pages of ``block_size`` slots, handed out on demand, lowest number first; nothing is shared.

    ``promise``: admission sets aside as many pages as prompt + new tokens can need, so that no sequence ever
    runs dry. Without it, pages may run out, and the youngest request gives way (``preempts``).
    """

    def __init__(
        self, strategy: str, capacity: int, block_size: int, promise: bool, events: list[Event]
    ) -> None:
        """Raises ValueError when not even one page fits."""
        if capacity < block_size:
            raise ValueError(f"{capacity} slots do not hold one page of {block_size}; take a smaller page.")
        self.strategy, self.block_size, self.events = strategy, block_size, events
        self.preempts = not promise
        self.copies: list[Copied] = []
        self._promise = promise
        self._total = capacity // block_size
        self._rest = capacity % block_size  # slots at the end that make no page
        self._free = list(range(self._total))  # a heap: the lowest page is the next one handed out
        self._pages: dict[str, list[int]] = {}
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
            self._pages[lane.sequence] = []
            self._promised[lane.sequence] = self._pages_for(lane) if self._promise else 0
            self._set_aside += self._promised[lane.sequence]
            self.extend(lane.sequence, lane.length)
        return True

    def extend(self, sequence: str, length: int) -> Need | None:
        pages = self._pages[sequence]
        lacking = self._count(length) - len(pages)
        for _ in range(lacking):
            if self._promised[sequence]:
                self._promised[sequence] -= 1
                self._set_aside -= 1
            elif len(self._free) <= self._set_aside:
                return Need((self._count(length) - len(pages)) * self.block_size)
            page = heapq.heappop(self._free)
            pages.append(page)
            self.events.append(
                Reserve(self.strategy, sequence, page * self.block_size, self.block_size)
            )
        return None

    def moves(self, sequence: str) -> bool:
        return True

    def release(self, sequence: str) -> None:
        pages = self._pages.pop(sequence, [])
        self._set_aside -= self._promised.pop(sequence, 0)
        for page in reversed(pages):
            self.events.append(
                GiveBack(self.strategy, sequence, page * self.block_size, self.block_size)
            )
            heapq.heappush(self._free, page)

    def pieces(self, sequence: str) -> tuple[Piece, ...]:
        size = self.block_size
        return tuple(Piece(page * size, size, i * size) for i, page in enumerate(self._pages.get(sequence, ())))

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

    preempts = False

    def __init__(self, capacity: int) -> None:
        self.copies: list[Copied] = []
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
