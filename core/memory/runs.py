"""Contiguous holding: one run a sequence. Moving to a longer run holds both while it copies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from core.memory.address_space import AddressSpace, FitSpace
from core.memory.events import Event, GiveBack, Grow, Reserve
from core.memory.holders import Copied, Lane, Need, Piece


@dataclass(frozen=True, slots=True)
class Rule:
    """The lengths that a contiguous strategy asks for.

    ``first(prompt, new, length)``: slots for a sequence with this prompt and up to ``new`` new tokens that
    is to write ``length`` tokens now. ``more(held, length)``: slots of the run it moves to when ``length``
    no longer fit into ``held``; None if it never moves.
    """

    first: Callable[[int, int, int], int]
    more: Callable[[int, int], int | None]


class Runs:
    """One run a sequence in a contiguous address space; moving to a longer one holds both while it copies."""

    keeps = True
    preempts = False

    def __init__(self, strategy: str, space: AddressSpace, rule: Rule, events: list[Event]) -> None:
        self.strategy, self.space, self.rule, self.events = strategy, space, rule, events
        self.copies: list[Copied] = []
        self.written: Callable[[str], int] = lambda sequence: 0
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
        self.events.append(Grow(self.strategy, sequence, start, held, old.start, old.length, tokens))
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

    def compact(self) -> tuple[Copied, ...]:
        """Slide all runs down (first and best fit only); the copies, to be carried out in this order."""
        assert isinstance(self.space, FitSpace)
        owners = {pieces[0].start: sequence for sequence, pieces in self._pieces.items()}
        copies = []
        for move in self.space.compact():
            sequence = owners[move.source]
            self._pieces[sequence] = (Piece(move.target, move.length, 0),)
            copies.append(Copied(move.source, move.target, self.written(sequence)))
        return tuple(copy for copy in copies if copy.tokens)
