"""One strategy's own clock and queue: who runs, who waits and why, and where every slot stands."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from core.memory.address_space import FitSpace
from core.memory.events import Event
from core.memory.holders import Copied, Holder, Need
from core.memory.ledger import Follower, Ledger, Work
from core.memory.runs import Runs
from core.memory.scripts import Scripts
from core.memory.strips import Holding, Run, Stopped, Waiting, hindsight_usage, runs_of, waiting_of
from core.memory.views import RequestView, SequenceView, Usage


class Strategy:
    """Follows a paged run with another way of allocating (see ``core.memory.contiguous``).

    ``copied`` counts tokens from the start. ``copies`` are those of the last step, in the order in which they
    must be carried out. ``changed``: something happened in the last step.
    """

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
        self.copied = self.preempted = 0
        self.copies: tuple[Copied, ...] = ()
        self.changed = False
        self._ledger = Ledger(holder, final_lengths)
        self._holder, self._events, self._scripts = holder, events, scripts
        self._running: list[Follower] = []  # in order of admission
        self._queue: deque[Follower] = deque()
        self._known: set[str] = set()  # requests that have arrived here
        self._stalled: tuple[Follower, str, Need] | None = None
        self._ready: list[Follower] = []  # go on in this step
        self._stopped_before = 0
        self._closed = False  # no admissions until something is given back: set by a preemption

    # ---- one step ------------------------------

    def advance(
        self, index: int, sequences: tuple[SequenceView, ...], requests: Mapping[str, RequestView]
    ) -> tuple[Event, ...]:
        """Follow the paged run's picture after step ``index``. Returns reserve, grow and give_back events.

        In the order of a paged step: running sequences grow, waiting requests are admitted (``plan``), tokens
        are written, sequences fork and end (``commit``).
        """
        self.plan(index, sequences, requests)
        return self.commit()

    def plan(
        self, index: int, sequences: tuple[SequenceView, ...], requests: Mapping[str, RequestView]
    ) -> None:
        """The first half of ``advance``: memory is taken and moved; ``work`` says what is to be computed."""
        ledger = self._ledger
        ledger.step = index
        self._scripts.record(index, sequences, requests)
        self._events.clear()
        self._holder.copies.clear()
        self._stalled, self._stopped_before = None, len(ledger.stopped)
        if len(self._known) < len(self._scripts.scripts):
            self._arrive()
        self._ready = self._grow()
        if self._stalled is not None and not self._ready:
            self._make_way()
        elif self._stalled is None and self._queue:
            self._ready += self._admit()

    @property
    def work(self) -> list[Work]:
        """Between ``plan`` and ``commit``: what each sequence computes in this step, and where it goes.

        The copies that come before it are ``copies_due``.
        """
        return [item for follower in self._ready for item in self._ledger.work(follower)]

    @property
    def copies_due(self) -> tuple[Copied, ...]:
        """Copies planned so far in this step, to be carried out in this order."""
        return tuple(self._holder.copies)

    def commit(self) -> tuple[Event, ...]:
        """The second half of ``advance``: the tokens are written; sequences fork and end."""
        ledger = self._ledger
        for follower in self._ready:
            ledger.commit(follower)
        if ledger.given_back:
            self._running = [follower for follower in self._running if follower.lanes]
            self._closed = ledger.given_back = False
        self.copies = tuple(self._holder.copies)
        self.copied += sum(copy.tokens for copy in self.copies)
        self.changed = bool(self._events or self._ready or len(ledger.stopped) > self._stopped_before)
        self._ready = []
        return tuple(self._events)

    def _arrive(self) -> None:
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
            depth, script = follower.depth, follower.script
            if follower.forks or (depth < script.depth and follower.length >= follower.room):
                lacking = self._find_room(follower)
                if lacking is not None:
                    self._stalled = self._stalled or (follower, *lacking)
                    continue
            if depth == 0 == script.depth:
                self._ledger.follow_prefill(follower)
            elif depth < script.depth and follower.lanes:
                ready.append(follower)
        return [follower for follower in ready if follower.lanes]

    def _find_room(self, follower: Follower) -> tuple[str, Need] | None:
        """What is lacking, after the youngest have given way where the strategy lets them."""
        lacking = self._ledger.prepare(follower)
        while lacking is not None and self._holder.preempts and len(self._running) > 1:
            youngest = self._running[-1]
            self._preempt(youngest)
            lacking = None if youngest is follower else self._ledger.prepare(follower)
        return lacking

    def _admit(self) -> list[Follower]:
        """First come, first served, as long as the head of the queue fits. Returns those that go on at
        once."""
        ready: list[Follower] = []
        self._closed &= bool(self._running)
        while self._queue and not self._closed:
            follower = self._queue[0]
            lanes = self._ledger.lanes(follower)
            if lanes and not follower.script.withdrawn:
                if self._holder.admit(lanes):
                    self._start(follower, ready)
                else:
                    need = self._holder.need(lanes)
                    if not self._holder.hopeless(need):
                        break
                    for lane in lanes:
                        self._ledger.note_stop(lane.sequence, "never fits", need, 0)
            self._queue.popleft()
        return ready

    def _start(self, follower: Follower, ready: list[Follower]) -> None:
        self._ledger.begin(follower, self._ledger.lanes(follower))
        self._running.append(follower)
        if follower.script.depth > follower.depth:
            ready.append(follower)
        elif follower.depth == 0:
            self._ledger.follow_prefill(follower)

    def _preempt(self, follower: Follower) -> None:
        """The request gives up its memory and goes back to the head of the queue; it will compute all
        again."""
        self._ledger.leave(follower)
        self._ledger.given_back = False
        self._running.remove(follower)
        self._queue.appendleft(follower)
        self.preempted += 1
        self._closed = True

    def _make_way(self) -> None:
        """Nobody can go on: the youngest request gives way; a request that is alone loses a sequence."""
        assert self._stalled is not None
        follower, sequence, need = self._stalled
        if len(self._running) > 1:
            self._preempt(self._running[-1])
            return
        waiting = sequence in follower.filled
        self._ledger.stop(sequence if waiting else follower.lanes[-1], "no room", need)

    # ---- what a page shows ------------------------------

    @property
    def computed(self) -> int:
        """Tokens whose keys and values were computed so far, those computed again included."""
        return self._ledger.computed

    @property
    def recomputed(self) -> int:
        """Tokens whose keys and values were computed again: had been known, and were not kept."""
        return self._ledger.recomputed

    @property
    def stopped(self) -> dict[str, Stopped]:
        """Sequences that ended early under this strategy, and why."""
        return self._ledger.stopped

    @property
    def idle(self) -> bool:
        """Nothing runs and nothing waits."""
        return not self._running and not self._queue

    def holdings(self, final_lengths: Mapping[str, int] | None = None) -> tuple[Holding, ...]:
        """What every running sequence holds. ``final_lengths``: in hindsight, see ``usage``."""
        holder, result = self._holder, []
        for follower in self._running:
            limit = follower.script.request.max_written
            for name in follower.lanes:
                written = follower.length if name in follower.filled else 0
                if final_lengths is not None:
                    limit = final_lengths.get(name, written)
                result.append(Holding(name, written, limit, holder.pieces(name), holder.promised(name)))
        return tuple(result)

    def runs(self, final_lengths: Mapping[str, int] | None = None) -> tuple[Run, ...]:
        """The strip after the last step, in order of address."""
        return runs_of(self.holdings(final_lengths))

    def usage(self, final_lengths: Mapping[str, int] | None = None) -> Usage:
        """Where every slot stands after the last step.

        As known at this step; or in hindsight, with the true number of tokens that each sequence wrote
        (``final_lengths``): what was reserved and never used then counts as internal.
        """
        ledger, free, head = self._ledger, self._holder.free(), self._head()
        held = self.capacity - free
        live, usable = ledger.live if self._holder.keeps else 0, ledger.usable
        external = min(free, self._holder.too_short(head[2])) if head is not None else 0
        usage = Usage(
            strategy=self.name, capacity=self.capacity, live=live, reserved=usable - live,
            internal=held - usable, external=external, free=free - external, copied=self.copied,
            running=len(ledger.followers), waiting=len(self._queue),
        )  # fmt: skip
        return usage if final_lengths is None else hindsight_usage(usage, self.holdings(final_lengths))

    def head_of_queue(self) -> Waiting | None:
        """What waits first, and for what: a running sequence that cannot grow comes before the queue."""
        head = self._head()
        if head is None:
            return None
        follower, sequence, need, growing = head
        return waiting_of(self._holder, follower.script.request.id, sequence, need, growing)

    def _head(self) -> tuple[Follower, str, Need, bool] | None:
        if self._stalled is not None and self._stalled[0].lanes:
            return (*self._stalled, True)
        for follower in self._queue:
            lanes = self._ledger.lanes(follower)
            if lanes:
                return follower, lanes[0].sequence, self._holder.need(lanes), False
        return None

    @property
    def can_compact(self) -> bool:
        """The strategy's runs may be moved together (first fit and best fit; not buddy, not pages)."""
        return isinstance(self._holder, Runs) and isinstance(self._holder.space, FitSpace)

    def compact(self) -> tuple[Copied, ...]:
        """Slide every run down to make one hole of all; the tokens moved count as copied.

        Returns the copies, to be carried out in this order. Raises ValueError for a strategy whose memory has
        no order to restore (pages, no cache) or whose runs must stay aligned (buddy).
        """
        if not isinstance(self._holder, Runs) or not self.can_compact:
            raise ValueError(f'"{self.name}" cannot be compacted: only first and best fit leave such holes.')
        copies = self._holder.compact()
        self.copied += sum(copy.tokens for copy in copies)
        return copies
