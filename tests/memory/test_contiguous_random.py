"""Random runs under every strategy: after each operation the parts sum to the capacity, no slot has two
owners, and nobody is ahead of the run that it follows."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import pytest

from core.memory.contiguous import STRATEGIES, make_strategy
from core.memory.events import Event, GiveBack, Grow, Reserve
from core.memory.scripts import Scripts
from core.memory.strategy import Strategy
from core.memory.views import RequestView, SequenceView

POLICIES = ("first fit", "best fit", "buddy")


class RandomRun:
    """A paged run that does one random thing at a time: submit, decode some requests (with forks and dropped
    beams), cancel."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.requests: dict[str, RequestView] = {}
        self.views: dict[str, SequenceView] = {}
        self.targets: dict[str, int] = {}
        self.names: dict[str, list[str]] = {}  # request -> its sequences
        self.over: set[str] = set()  # requests

    def operations(self, count: int) -> Iterator[tuple[SequenceView, ...]]:
        for _ in range(count):
            running = [key for key in self.requests if key not in self.over]
            roll = self.rng.random()
            if not running or (roll < 0.15 and len(running) < 12):
                self._submit()
            elif roll < 0.18:
                self._cancel(self.rng.choice(running))
            else:
                for key in running:
                    if self.rng.random() < 0.8:  # the others are preempted, or wait for their turn
                        self._decode(key)
            yield tuple(self.views.values())
        for key in self.requests:
            self._cancel(key)
        yield tuple(self.views.values())

    def _alive(self, key: str) -> list[SequenceView]:
        views = [self.views[name] for name in self.names[key]]
        return [view for view in views if view.state != "finished"]

    def _submit(self) -> None:
        key = f"r{len(self.requests)}"
        n = self.rng.choice((1, 1, 1, 2, 3))
        mode = "greedy" if n == 1 else self.rng.choice(("sample", "beam"))
        new = self.rng.randint(1, 20)
        self.requests[key] = RequestView(
            id=key, prompt_text="", prompt_token_ids=tuple(range(self.rng.randint(1, 20))), mode=mode, n=n,
            max_new_tokens=new + self.rng.randint(0, 10),
        )  # fmt: skip
        self.targets[key] = new
        self._see(f"{key}.0", key, None, 0, 0)

    def _see(self, name: str, key: str, parent: str | None, depth: int, written: int) -> None:
        if name not in self.views:
            self.names.setdefault(key, []).append(name)
        ids = (*self.requests[key].prompt_token_ids, *range(depth))
        self.views[name] = SequenceView(
            id=name, request=key, parent=parent, state="running", token_ids=ids, written=written,
            block_table=(),
        )  # fmt: skip

    def _decode(self, key: str) -> None:
        request, alive = self.requests[key], self._alive(key)
        prompt = len(request.prompt_token_ids)
        depth = len(alive[0].token_ids) - prompt + 1
        if depth == 1 and alive[0].written < prompt - 1 and self.rng.random() < 0.3:  # a chunk of the prompt
            self.views[alive[0].id] = replace(alive[0], written=alive[0].written + 1)
            return
        for view in alive:
            self._see(view.id, key, view.parent, depth, prompt + depth - 1)
        if depth == 1:
            for i in range(1, request.n):
                self._see(f"{key}.{i}", key, f"{key}.0", 1, prompt)
        elif request.mode == "beam" and len(alive) > 1 and self.rng.random() < 0.5:
            dropped, parent = alive[-1], alive[0]
            self.views[dropped.id] = replace(dropped, state="finished", written=prompt + depth - 1)
            self._see(f"{key}.{len(self.names[key])}", key, parent.id, depth, prompt + depth - 1)
        elif request.mode == "sample" and len(alive) > 1 and self.rng.random() < 0.1:
            self.views[alive[-1].id] = replace(self.views[alive[-1].id], state="finished")
        if depth == self.targets[key]:
            self._cancel(key)  # which is how it ends, too: nothing more is sampled

    def _cancel(self, key: str) -> None:
        self.over.add(key)
        for view in self._alive(key):
            self.views[view.id] = replace(view, state="finished")


class Mirror:
    """Who owns which slots, from the events alone."""

    def __init__(self) -> None:
        self.runs: dict[int, tuple[int, str]] = {}

    def take(self, events: tuple[Event, ...]) -> None:
        for event in events:
            if isinstance(event, GiveBack):
                assert self.runs.pop(event.start) == (event.length, event.sequence)
            elif isinstance(event, Grow):
                # Old and new are both held while it copies: the new run must not touch the old one.
                assert not overlaps(event.start, event.length, self.runs)
                assert self.runs.pop(event.old_start) == (event.old_length, event.sequence)
                self.runs[event.start] = (event.length, event.sequence)
            elif isinstance(event, Reserve):
                assert not overlaps(event.start, event.length, self.runs)
                self.runs[event.start] = (event.length, event.sequence)


def overlaps(start: int, length: int, runs: dict[int, tuple[int, str]]) -> bool:
    return any(start < s + n and s < start + length for s, (n, _) in runs.items())


def check(strategy: Strategy, run: RandomRun, mirror: Mirror, finals: dict[str, int] | None) -> None:
    usage, runs = strategy.usage(), strategy.runs()  # Usage itself refuses parts that do not sum to capacity
    assert all(a.start + a.length <= b.start for a, b in pairwise(runs)), "a slot has two owners"
    assert all(r.start >= 0 and r.start + r.length <= strategy.capacity for r in runs)
    assert {r.start: (r.length, r.owner) for r in runs} == mirror.runs
    assert min(usage.live, usage.reserved, usage.internal, usage.external, usage.free) >= 0
    assert usage.live == sum(r.live for r in runs)
    held = sum(r.length for r in runs)
    if strategy.name != "promised pages":
        assert usage.reserved == sum(r.usable - r.live for r in runs)
        assert usage.internal == sum(r.length - r.usable for r in runs)
        assert usage.live + usage.reserved + usage.internal == held
    live: dict[str, int] = {}
    for r in runs:
        live[r.owner] = live.get(r.owner, 0) + r.live
    for owner, tokens in live.items():
        view = run.views.get(owner)
        most = 0 if view is None else max(view.written, len(view.token_ids) - 1)
        assert tokens <= most, "ahead of the run"
    if finals is not None:
        truth = strategy.usage(finals)
        assert (truth.live, truth.free, truth.external) == (usage.live, usage.free, usage.external)
    head = strategy.head_of_queue()
    assert (head is None) <= (usage.external == 0)


def play(seed: int, operations: int, capacity: int) -> None:
    rng = random.Random(seed)
    run, scripts = RandomRun(seed), Scripts()
    size = rng.choice((1, 2, 3, 4, 8))
    strategies = [
        make_strategy(
            name, capacity=capacity, max_model_len=rng.choice((50, 64)), block_size=size, scripts=scripts,
            policy=rng.choice(POLICIES), estimate=rng.choice((None, None, 10)),
            overflow=rng.choice(("stop", "move")),
        )
        for name in STRATEGIES
    ]  # fmt: skip
    mirrors = [Mirror() for _ in strategies]
    for index, views in enumerate(run.operations(operations)):
        finals = {v.id: v.written for v in views} if index % 10 == 0 else None
        for strategy, mirror in zip(strategies, mirrors, strict=True):
            mirror.take(strategy.advance(index, views, run.requests))
            check(strategy, run, mirror, finals)
            if strategy.can_compact and rng.random() < 0.002:
                strategy.compact()
                mirror.runs = {r.start: (r.length, r.owner) for r in strategy.runs()}
    for strategy, mirror in zip(strategies, mirrors, strict=True):
        for more in range(index + 1, index + 5000):
            mirror.take(strategy.advance(more, views, run.requests))
            if strategy.idle:
                break
        check(strategy, run, mirror, {})
        assert strategy.idle, f"{strategy.name} never finishes: {strategy.head_of_queue()}"
        assert strategy.usage().free == capacity


@pytest.mark.parametrize("seed", range(10))
def test_random_runs(seed: int) -> None:
    """10 x 5 x 400 operations, each followed by eight strategies."""
    for part, capacity in enumerate((24, 64, 100, 256, 400)):
        play(5 * seed + part, 400, capacity)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 150))
def test_many_random_runs(seed: int) -> None:
    """100,000 operations, in longer runs."""
    play(seed, 2000, capacity=(16, 24, 64, 100, 256, 400)[seed % 6])
