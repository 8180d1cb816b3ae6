"""The requests that run under one strategy: what each holds, how far it is, and what a step does to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from core.memory.holders import Copied, Holder, Lane, Need, Piece
from core.memory.scripts import Script, Track
from core.memory.strips import Stopped


class Work(NamedTuple):
    """A sequence computes its tokens ``start`` ... ``end`` - 1 into the slots that ``pieces`` give them."""

    sequence: str
    request: str
    start: int
    end: int
    pieces: tuple[Piece, ...]


@dataclass(slots=True, eq=False)
class Follower:
    """One request. All its sequences are equally far: each has written ``length`` tokens at ``depth``."""

    script: Script
    depth: int = 0
    length: int = 0
    kept: int = 0  # tokens of each sequence that need not be computed in the next step
    lanes: list[str] = field(default_factory=list)  # sequences that hold memory, or a run to be forked into
    filled: set[str] = field(default_factory=set)  # those of them that have tokens
    room: int = 0  # up to this length no sequence needs more memory
    forks: list[Track] = field(default_factory=list)  # born, and still without memory
    ending: list[Track] = field(default_factory=list)  # over, and still copied from


class Ledger:
    """Who holds what. Totals are kept as they change, so that a step in which nothing happens costs next to
    nothing. ``live``: tokens held; ``usable``: slots that their sequences may fill in the end."""

    def __init__(self, holder: Holder, final_lengths: Mapping[str, int] | None) -> None:
        self.holder = holder
        self.followers: dict[str, Follower] = {}  # by sequence that holds memory
        self.stopped: dict[str, Stopped] = {}
        self.live = self.usable = self.computed = self.recomputed = 0
        self.given_back = False  # since it was last set to False
        self.step = -1
        self._finals = final_lengths
        self._usable: dict[str, int] = {}
        holder.written = self.written

    def written(self, sequence: str) -> int:
        """Tokens that the sequence has in memory."""
        follower = self.followers[sequence]
        return follower.length if sequence in follower.filled else 0

    # ---- the way in ------------------------------

    def lanes(self, follower: Follower) -> list[Lane]:
        """What a request asks for when it is admitted: one run a sequence, also for those still to be
        forked."""
        script, request = follower.script, follower.script.request
        if follower.depth == 0:
            names = [*(t.id for t in script.alive(0)), *(f"{request.id}.{i}" for i in range(request.n))]
            names, length = list(dict.fromkeys(names))[: max(request.n, 1)], script.prompt
        else:
            names = [track.id for track in script.alive(follower.depth)]
            length = script.prompt + min(follower.depth + 1, script.depth) - 1
        return [self._lane(script, name, length) for name in names if name not in self.stopped]

    def _lane(self, script: Script, name: str, length: int) -> Lane:
        final = self._finals.get(name) if self._finals else None
        new = script.request.max_new_tokens if final is None else max(1, final - script.prompt + 1)
        return Lane(name, script.prompt, new, length)

    def begin(self, follower: Follower, lanes: list[Lane]) -> None:
        """The lanes have been admitted. A request that was preempted computes again what it had."""
        script = follower.script
        follower.lanes = [lane.sequence for lane in lanes]
        follower.filled = {name for name in follower.lanes if name in script.tracks and follower.depth}
        follower.length = script.prompt + follower.depth - 1 if follower.depth else 0
        self.live += follower.length * len(follower.filled)
        self.computed += follower.length * len(follower.filled)
        self.recomputed += follower.length * len(follower.filled)
        follower.kept = 0
        for name in follower.lanes:
            self.followers[name] = follower
            self._measure(follower, name)
        self._measure_room(follower)

    def _measure(self, follower: Follower, name: str) -> None:
        """The sequence holds more, or less, than before."""
        held = sum(piece.length for piece in self.holder.pieces(name)) + self.holder.promised(name)
        usable = min(held, follower.script.request.max_written)
        self.usable += usable - self._usable.get(name, 0)
        self._usable[name] = usable

    def _measure_room(self, follower: Follower) -> None:
        if not self.holder.keeps:
            follower.room = follower.script.request.max_written
            return
        pieces = (self.holder.pieces(name) for name in follower.filled)
        follower.room = min((held[-1].first + held[-1].length for held in pieces if held), default=0)

    # ---- before the forward pass ------------------------------

    def work(self, follower: Follower) -> list[Work]:
        """What a request that can go on computes in this step, one entry a sequence."""
        script = follower.script
        names = [t.id for t in script.alive(follower.depth) if t.id in follower.filled]
        length = script.prompt + follower.depth
        return [
            Work(name, script.request.id, follower.kept, length, self.holder.pieces(name))
            for name in (names if follower.depth else follower.lanes)
        ]

    def prepare(self, follower: Follower) -> tuple[str, Need] | None:
        """See to it that every sequence can write its next token; what is lacking, and for whom, if it
        cannot."""
        lacking = self._settle(follower)
        if lacking is not None or follower.depth >= follower.script.depth:
            return lacking
        length = follower.script.prompt + follower.depth
        if length <= follower.room:
            return None
        for track in follower.script.alive(follower.depth):
            if track.id in follower.filled and track.final_or(length) > follower.length:
                need = self.holder.extend(track.id, length)
                if need is not None and self.holder.moves(track.id):
                    return track.id, need
                if need is not None:
                    self.stop(track.id, "estimate", need)
                else:
                    self._measure(follower, track.id)
        self._measure_room(follower)
        return None

    def follow_prefill(self, follower: Follower) -> None:
        """The paged run computes a long prompt in chunks, and this strategy with it."""
        roots = {track.id for track in follower.script.alive(0)} & set(follower.lanes)
        self.live += follower.script.prefilled * len(roots) - follower.length * len(follower.filled)
        follower.filled, follower.length = roots, follower.script.prefilled

    # ---- after the forward pass ------------------------------

    def commit(self, follower: Follower) -> None:
        """The tokens of the next depth are written; sequences are dropped, forked and ended."""
        script, before = follower.script, follower.length
        depth = follower.depth = follower.depth + 1
        if depth == 1:
            self.live -= before * len(follower.filled)
            born = script.tracks.values()
            follower.filled = {t.id for t in born if t.birth <= 1 and t.id in self.followers}
            before = 0
            self._measure_room(follower)
        follower.length = script.prompt + depth - 1
        grown = (follower.length - before) * len(follower.filled)
        self.live += grown
        self.computed += grown
        follower.kept = follower.length if self.holder.keeps else 0
        if not self.holder.keeps and depth > 1:
            self.computed += before * len(follower.filled)
            self.recomputed += before * len(follower.filled)
        if depth in script.ends or depth in script.born:
            self._fork_and_end(follower)

    def _fork_and_end(self, follower: Follower) -> None:
        script, depth = follower.script, follower.depth
        born = [t for t in script.born.get(depth, ()) if t.id not in follower.filled]
        born = [t for t in born if t.id not in self.stopped and (t.end is None or t.end > depth)]
        parents = {track.parent for track in born}
        over = script.ends.get(depth, [])
        self._end([t for t in over if t.id not in parents])
        follower.forks, follower.ending = born, [t for t in over if t.id in parents]
        self._settle(follower)

    def _settle(self, follower: Follower) -> tuple[str, Need] | None:
        """Place the forks, then let go of what they copied from. What is lacking, if a fork finds no room."""
        while follower.forks:
            need = self._fork(follower, follower.forks[0])
            if need is not None:
                return follower.forks[0].id, need
            follower.forks.pop(0)
            self._measure_room(follower)
        self._end(follower.ending)
        follower.ending = []
        if follower.script.over and follower.depth >= follower.script.depth:
            self.leave(follower)
        return None

    def _fork(self, follower: Follower, track: Track) -> Need | None:
        """A child gets a run of its own and a copy of its parent's tokens. None when done, or given up."""
        holder, length = self.holder, follower.length
        if track.parent not in follower.filled:
            self.note_stop(track.id, "parent", Need(0), 0)
            return None
        if track.id in self.followers:  # its run was reserved with the request
            need = holder.extend(track.id, length)
            if need is not None:
                return need
        else:
            lane = self._lane(follower.script, track.id, length)
            if not holder.admit([lane]):
                return holder.need([lane])
            follower.lanes.append(track.id)
            self.followers[track.id] = follower
        for source, target in zip(holder.pieces(track.parent), holder.pieces(track.id), strict=False):
            tokens = min(length - source.first, source.length)
            if tokens > 0:
                holder.copies.append(Copied(source.start, target.start, tokens))
        follower.filled.add(track.id)
        self.live += length
        self._measure(follower, track.id)
        return None

    # ---- the way out ------------------------------

    def _end(self, tracks: list[Track]) -> None:
        for track in tracks:
            if track.id in self.followers:
                self._release(track.id)

    def _release(self, sequence: str) -> None:
        follower = self.followers[sequence]
        self.live -= self.written(sequence)
        self.usable -= self._usable.pop(sequence, 0)
        self.holder.release(sequence)
        del self.followers[sequence]
        follower.lanes.remove(sequence)
        follower.filled.discard(sequence)
        self.given_back = True

    def leave(self, follower: Follower) -> None:
        """Whatever the request still holds goes back."""
        for name in tuple(follower.lanes):
            self._release(name)
        follower.forks, follower.ending = [], []

    def stop(self, sequence: str, reason: str, need: Need) -> None:
        """The sequence ends early, visibly; its memory goes back."""
        self.note_stop(sequence, reason, need, self.written(sequence))
        self._release(sequence)

    def note_stop(self, sequence: str, reason: str, need: Need, written: int) -> None:
        free, longest = self.holder.free(), self.holder.longest()
        self.stopped[sequence] = Stopped(sequence, self.step, reason, need.length, free, longest, written)
