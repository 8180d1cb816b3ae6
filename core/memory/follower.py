"""One strategy's own clock and queue: who runs, who waits and why, who had to stop, and where every slot
stands."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from core.memory.address_space import FitSpace
from core.memory.events import Event
from core.memory.holders import Copied, Holder, Lane, Need, Nothing, Runs
from core.memory.scripts import Script, Scripts, Track
from core.memory.strips import Holding, Run, Stopped, Waiting, runs_of, usage_of, waiting_of
from core.memory.views import RequestView, SequenceView, Usage


@dataclass(slots=True, eq=False)
class Follower:
    """One request under this strategy."""

    script: Script
    depth: int = 0
    lanes: list[str] = field(default_factory=list)  # sequences that hold memory
    forks: list[Track] = field(default_factory=list)  # born, and still without memory
    ending: list[Track] = field(default_factory=list)  # over, and still copied from


class Strategy:
    """Follows a paged run with another way of allocating. ``copied`` and ``recomputed`` count tokens from
    the start; ``copies`` are those of the last step, in the order in which they must be carried out."""

    def __init__(
        self,
        name: str,
        capacity: int,
        holder: Holder,
        events: list[Event],
        scripts: Scripts,
        final_lengths: Mapping[str, int] | None = None,
    ) -> None:
        self.name, self.capacity = name, capacity
        self.copied = self.computed = self.recomputed = self.preempted = 0
        self.stopped: dict[str, Stopped] = {}
        self.copies: tuple[Copied, ...] = ()
        self.changed = False  # something happened in the last step
        self._holder, self._events, self._scripts, self._finals = holder, events, scripts, final_lengths
        self._running: list[Follower] = []  # in order of admission
        self._queue: deque[Follower] = deque()
        self._known: set[str] = set()  # requests that have arrived here
        self._written: dict[str, int] = {}  # of every sequence that holds memory
        self._stalled: tuple[Follower, str, Need] | None = None
        self._closed = False  # no admissions until something is given back: set by a preemption
        self._step = -1
        self._cached = not isinstance(holder, Nothing)
        if isinstance(holder, Runs):
            holder.written = self._written.__getitem__

    # ---- one step ------------------------------

    def advance(
        self, index: int, sequences: tuple[SequenceView, ...], requests: Mapping[str, RequestView]
    ) -> tuple[Event, ...]:
        """Follow the paged run's picture after step ``index``. Returns the reserve, grow and give_back
        events.

        In the order of the paged step: running sequences grow, waiting requests are admitted, tokens are
        written, sequences fork and end.
        """
        self._step = index
        self._scripts.record(index, sequences, requests)
        self._events.clear()
        self._holder.copies.clear()
        self.changed, self._stalled = False, None
        self._arrive()
        ready = self._grow()
        if self._stalled is not None and not ready:
            self._make_way()
        elif self._stalled is None:
            ready += self._admit()
        for follower in ready:
            self._commit(follower)
        self.copies = tuple(self._holder.copies)
        self.copied += sum(copy.tokens for copy in self.copies)
        self.changed |= bool(self._events or ready)
        return tuple(self._events)

    def _arrive(self) -> None:
        if len(self._known) == len(self._scripts.scripts):
            return
        for key, script in self._scripts.scripts.items():
            if key not in self._known:
                self._known.add(key)
                self._queue.append(Follower(script))

    def _grow(self) -> list[Follower]:
        """Room for each running sequence's next token, oldest request first. Returns those that can go on."""
        ready = []
        for follower in tuple(self._running):
            if not follower.lanes:
                continue  # preempted a moment ago, for an older one
            lacking = self._prepare(follower)
            while lacking is not None and self._holder.preempts and len(self._running) > 1:
                youngest = self._running[-1]
                self._preempt(youngest)
                lacking = None if youngest is follower else self._prepare(follower)
            if not follower.lanes or follower not in self._running:
                continue
            if lacking is not None:
                self._stalled = self._stalled or (follower, *lacking)
            elif follower.depth < follower.script.depth:
                ready.append(follower)
            elif follower.depth == 0:
                self._follow_prefill(follower)
        return [follower for follower in ready if follower.lanes]

    def _prepare(self, follower: Follower) -> tuple[str, Need] | None:
        """Place forks, then extend every sequence by what it writes next; what is lacking, if anything is."""
        lacking = self._settle(follower)
        if lacking is not None or follower.depth >= follower.script.depth:
            return lacking
        for track in self._alive(follower):
            length = follower.script.written(track, follower.depth + 1)
            need = self._holder.extend(track.id, length)
            if need is not None:
                if self._holder.moves(track.id):
                    return track.id, need
                self._stop(follower, track.id, "estimate", need)
        return None

    def _alive(self, follower: Follower) -> list[Track]:
        return [t for t in follower.script.alive(follower.depth) if t.id in self._written]

    def _follow_prefill(self, follower: Follower) -> None:
        """The paged run computes a long prompt in chunks, and this strategy with it."""
        for track in self._alive(follower):
            self._written[track.id] = follower.script.prefilled

    def _admit(self) -> list[Follower]:
        """First come, first served, as long as the head of the queue fits. Returns those that can go on at
        once."""
        ready = []
        self._closed &= bool(self._running)
        while self._queue and not self._closed:
            follower = self._queue[0]
            lanes = self._lanes(follower)
            if not lanes or follower.script.withdrawn:
                self._queue.popleft()
                continue
            if not self._holder.admit(lanes):
                need = self._holder.need(lanes)
                if not self._holder.hopeless(need):
                    break
                for lane in lanes:
                    self._note_stop(lane.sequence, "never fits", need, 0)
            else:
                self._begin(follower, lanes)
                if follower.script.depth > follower.depth:
                    ready.append(follower)
                else:
                    self._follow_prefill(follower)
            self._queue.popleft()
        return ready

    def _begin(self, follower: Follower, lanes: list[Lane]) -> None:
        self._running.append(follower)
        follower.lanes = [lane.sequence for lane in lanes]
        tracks = follower.script.tracks
        for lane in lanes:
            again = 0
            if follower.depth and lane.sequence in tracks:
                again = follower.script.written(tracks[lane.sequence], follower.depth)
            self._written[lane.sequence] = again
            self.computed += again
            self.recomputed += again

    def _lanes(self, follower: Follower) -> list[Lane]:
        """The runs that a request asks for when it is admitted: one a sequence, also for those to be
        forked."""
        script, request = follower.script, follower.script.request
        if follower.depth == 0:
            names = list(dict.fromkeys([*(t.id for t in script.alive(0)), *self._answers(request)]))
            names = names[: max(request.n, 1)]
            lengths = dict.fromkeys(names, script.prompt)
        else:
            after = min(follower.depth + 1, script.depth)
            lengths = {t.id: script.written(t, after) for t in script.alive(follower.depth)}
        return [
            Lane(name, script.prompt, self._new_tokens(name, request), length)
            for name, length in lengths.items()
            if name not in self.stopped
        ]

    @staticmethod
    def _answers(request: RequestView) -> list[str]:
        return [f"{request.id}.{i}" for i in range(request.n)]

    def _new_tokens(self, sequence: str, request: RequestView) -> int:
        final = self._finals.get(sequence) if self._finals else None
        return request.max_new_tokens if final is None else max(1, final - len(request.prompt_token_ids) + 1)

    # ---- after the forward pass ------------------------------

    def _commit(self, follower: Follower) -> None:
        """The tokens of this depth are written; sequences are dropped, forked and ended."""
        script, before = follower.script, follower.depth
        depth = follower.depth = before + 1
        for track in self._alive(follower) if before else self._rooted(follower):
            length = script.written(track, depth)
            new = length - (self._written[track.id] if before else 0)
            again = 0 if self._cached or not before else length - new
            self.computed += new + again
            self.recomputed += again
            self._written[track.id] = length
        born = [t for t in script.born.get(depth, ()) if self._lacks_memory(t)]
        parents = {track.parent for track in born}
        over = script.ends.get(depth, [])
        self._end(follower, [t for t in over if t.id not in parents])
        follower.forks, follower.ending = born, [t for t in over if t.id in parents]
        self._settle(follower)
        if script.over and depth >= script.depth and not follower.forks:
            self._leave(follower)

    def _rooted(self, follower: Follower) -> list[Track]:
        """The sequences that compute the prompt themselves: all that exist once the first token is there."""
        tracks = follower.script.tracks.values()
        return [t for t in tracks if t.birth <= 1 and t.id in self._written]

    def _lacks_memory(self, track: Track) -> bool:
        return track.id not in self.stopped and (track.birth > 1 or track.id not in self._written)

    def _settle(self, follower: Follower) -> tuple[str, Need] | None:
        """Place the forks, then let go of what they copied from. What is lacking, if a fork finds no room."""
        while follower.forks:
            need = self._fork(follower, follower.forks[0])
            if need is not None:
                return follower.forks[0].id, need
            follower.forks.pop(0)
        self._end(follower, follower.ending)
        follower.ending = []
        return None

    def _fork(self, follower: Follower, track: Track) -> Need | None:
        """A child gets a run of its own and a copy of its parent's tokens. None when done, or given up."""
        script = follower.script
        if track.parent not in self._written:
            self._note_stop(track.id, "parent", Need(0), 0)
            return None
        length = script.written(track, follower.depth)
        if track.id in self._written:  # its lane was reserved with the request
            need = self._holder.extend(track.id, length)
            if need is not None:
                return need
        else:
            lane = Lane(track.id, script.prompt, self._new_tokens(track.id, script.request), length)
            if not self._holder.admit([lane]):
                return self._holder.need([lane])
            follower.lanes.append(track.id)
        sources, targets = self._holder.pieces(track.parent), self._holder.pieces(track.id)
        for source, target in zip(sources, targets, strict=False):
            tokens = min(length - source.first, source.length)
            if tokens > 0:
                self._holder.copies.append(Copied(source.start, target.start, tokens))
        self._written[track.id] = length
        return None

    # ---- leaving ------------------------------

    def _end(self, follower: Follower, tracks: list[Track]) -> None:
        for track in tracks:
            if track.id in self._written:
                self._release(follower, track.id)

    def _release(self, follower: Follower, sequence: str) -> None:
        self._holder.release(sequence)
        del self._written[sequence]
        follower.lanes.remove(sequence)
        self._closed = False

    def _leave(self, follower: Follower) -> None:
        """The request is over here: whatever it still holds goes back."""
        for name in tuple(follower.lanes):
            self._release(follower, name)
        self._running.remove(follower)

    def _preempt(self, follower: Follower) -> None:
        """The request gives up its memory and goes back to the head of the queue; it will compute all
        again."""
        self._leave(follower)
        follower.forks, follower.ending = [], []
        self._queue.appendleft(follower)
        self.preempted += 1
        self._closed = True

    def _make_way(self) -> None:
        """Nobody can go on: the youngest request gives way; a request that is alone loses its last
        sequence."""
        assert self._stalled is not None
        follower, sequence, need = self._stalled
        if len(self._running) > 1:
            self._preempt(self._running[-1])
        else:
            self._stop(follower, sequence if sequence in self._written else follower.lanes[-1], "no room", need)

    def _stop(self, follower: Follower, sequence: str, reason: str, need: Need) -> None:
        self._note_stop(sequence, reason, need, self._written[sequence])
        self._release(follower, sequence)
        if not follower.lanes:
            self._running.remove(follower)

    def _note_stop(self, sequence: str, reason: str, need: Need, written: int) -> None:
        free, longest = self._holder.free(), self._holder.longest()
        self.stopped[sequence] = Stopped(sequence, self._step, reason, need.length, free, longest, written)
        self.changed = True

    # ---- what a page shows ------------------------------

    @property
    def idle(self) -> bool:
        """Nothing runs and nothing waits."""
        return not self._running and not self._queue

    def runs(self, final_lengths: Mapping[str, int] | None = None) -> tuple[Run, ...]:
        """The strip after the last step, in order of address."""
        return runs_of(self._holdings(final_lengths))

    def usage(self, final_lengths: Mapping[str, int] | None = None) -> Usage:
        """Where every slot stands after the last step.

        As known at this step; or in hindsight, with the true number of tokens that each sequence wrote
        (``final_lengths``): what was reserved and never used then counts as internal.
        """
        head = self._head()
        holdings = self._holdings(final_lengths)
        return usage_of(
            self.name, self.capacity, self._holder, holdings, head and head[2], self.copied, len(self._queue)
        )

    def head_of_queue(self) -> Waiting | None:
        """What waits first, and for what: a running sequence that cannot grow comes before the queue."""
        head = self._head()
        if head is None:
            return None
        follower, sequence, need, growing = head
        return waiting_of(self._holder, follower.script.request.id, sequence, need, growing)

    def _head(self) -> tuple[Follower, str, Need, bool] | None:
        if self._stalled is not None and self._stalled[0] in self._running:
            return (*self._stalled, True)
        for follower in self._queue:
            lanes = self._lanes(follower)
            if lanes:
                return follower, lanes[0].sequence, self._holder.need(lanes), False
        return None

    def _holdings(self, final_lengths: Mapping[str, int] | None) -> list[Holding]:
        holder, written, result = self._holder, self._written, []
        for follower in self._running:
            most = follower.script.request.max_written
            for name in follower.lanes:
                limit = most if final_lengths is None else final_lengths.get(name, written[name])
                result.append(Holding(name, written[name], limit, holder.pieces(name), holder.promised(name)))
        return result

    def compact(self) -> tuple[Copied, ...]:
        """Slide every run down to make one hole of all; the tokens moved count as copied.

        Returns the copies, to be carried out in this order. Raises ValueError for a strategy whose memory
        has no order to restore (pages, no cache) or whose runs must stay aligned (buddy).
        """
        holder = self._holder
        if not isinstance(holder, Runs) or not isinstance(holder.space, FitSpace):
            raise ValueError(f'"{self.name}" cannot be compacted: only first fit and best fit leave such holes.')
        owners = {holder.pieces(name)[0].start: name for name in self._written}
        moves = holder.space.compact()
        holder.relocate({move.source: move.target for move in moves})
        copies = [Copied(m.source, m.target, self._written[owners[m.source]]) for m in moves]
        copies = [copy for copy in copies if copy.tokens]
        self.copied += sum(copy.tokens for copy in copies)
        return tuple(copies)
