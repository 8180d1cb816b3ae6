"""What a strategy shows after a step: its strip (runs), what waits and why, who had to stop, where every
slot is."""

from __future__ import annotations

from collections.abc import Iterable
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
    if holder.fits(need):
        reason = "next"
    else:
        reason = "full" if free < need.length * need.runs else "fragmented"
    return Waiting(request, sequence, need.length, need.runs, free, holder.longest(), reason, growing)


def usage_of(
    name: str,
    capacity: int,
    holder: Holder,
    holdings: Iterable[Holding],
    need: Need | None,
    copied: int,
    waiting: int,
) -> Usage:
    """Where every slot stands, as the trace format defines it. ``need``: of the head of the queue, if any."""
    live = reserved = internal = running = 0
    for _, written, limit, pieces, promised in holdings:
        running += 1
        held = promised
        here = 0
        for _, length, first in pieces:
            held += length
            here += min(max(written - first, 0), length)
        usable = min(held, max(limit, here))
        live += here
        reserved += usable - here
        internal += held - usable
    free = holder.free()
    external = min(free, holder.too_short(need)) if need is not None else 0
    return Usage(
        strategy=name, capacity=capacity, live=live, reserved=reserved, internal=internal, external=external,
        free=free - external, copied=copied, running=running, waiting=waiting,
    )  # fmt: skip
