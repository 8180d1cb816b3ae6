"""How a strategy holds a sequence's tokens: in one contiguous run, in pages of its own, or not at all.

A holder answers "is there room?" and says what it copied; who asks, and in which order, is
``core.memory.contiguous``. All figures are token slots.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol


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


class Holder(Protocol):
    """One way of holding.

    ``keeps``: keys and values are kept at all. ``preempts``: a sequence that lacks room takes it from the
    youngest request. ``copies`` grows as copies become due. ``written`` is set by the ledger: tokens in
    memory.
    """

    keeps: bool
    preempts: bool
    copies: list[Copied]
    written: Callable[[str], int]

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
