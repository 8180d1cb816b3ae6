"""What a strategy shows after a step: its strip (runs), what waits and why, who had to stop, where every
slot is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from core.memory.holders import Holder, Need, Piece
from core.memory.views import Usage


class Run(NamedTuple):
    """Slots [start, start + length) of a strip: the first ``live`` hold tokens, the first ``usable`` ever
    may."""

    start: int
    length: int
    owner: str  # sequence id; several, joined by "+", share it; "" is cached
    live: int
    usable: int


class Waiting(NamedTuple):
    """What waits, and why. ``need`` slots in a row, ``runs`` times; ``free`` slots, the longest run
    ``longest``.

    ``reason``: "full" (less is free than needed), "fragmented" (enough is free, but in pieces), "next"
    (there is room now; it goes on in the next step). ``growing``: it runs already and cannot grow.
    """

    request: str
    sequence: str
    need: int
    runs: int
    free: int
    longest: int
    reason: str
    growing: bool


class Stopped(NamedTuple):
    """A sequence that ended early under this strategy, with ``written`` tokens kept.

    ``reason``: "estimate" (its run is full and the strategy never moves), "no room" (alone, and still no
    room to grow), "never fits" (refused: more than the whole memory), "parent" (what it forks from had
    stopped).
    """

    sequence: str
    step: int
    reason: str
    need: int
    free: int
    longest: int
    written: int


class Holding(NamedTuple):
    """One sequence's memory: ``written`` tokens live in it, ``limit`` is the most that can ever be
    written."""

    sequence: str
    written: int
    limit: int
    pieces: tuple[Piece, ...]
    promised: int


def runs_of(holdings: Iterable[Holding]) -> tuple[Run, ...]:
    """The strip: every run held, in order of address."""
    runs = []
    for sequence, written, limit, pieces, _ in holdings:
        for start, length, first in pieces:
            live = min(max(written - first, 0), length)
            runs.append(Run(start, length, sequence, live, min(max(limit - first, live), length)))
    runs.sort()
    return tuple(runs)


def waiting_of(holder: Holder, request: str, sequence: str, need: Need, growing: bool) -> Waiting:
    """What a need that could not be met looks like now."""
    free = holder.free()
    reason = "full" if free < need.length * need.runs else "next" if holder.fits(need) else "fragmented"
    return Waiting(request, sequence, need.length, need.runs, free, holder.longest(), reason, growing)


def hindsight_usage(usage: Usage, holdings: Iterable[Holding]) -> Usage:
    """The same slots, recounted with the limits that ``holdings`` carry."""
    usable = 0
    for _, written, limit, pieces, promised in holdings:
        usable += min(sum(piece.length for piece in pieces) + promised, max(limit, written))
    held = usage.live + usage.reserved + usage.internal
    return replace(usage, reserved=usable - usage.live, internal=held - usable)
