"""Random lives of a scheduler: after every operation every rule of the trace format is checked.

An operation is a request handed in, a cancellation, a plan or a commit; forks, ends, copies, evictions,
preemptions and swaps follow from them. Checked after each: the pool, the index and the host pool from the
inside; after each commit the pictures, the replayed events, and that attention read the right slots.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from core.engine.errors import RequestRefused
from core.trace.step import Step, Trace
from core.trace.verify import verify
from tests.engine.driver import Driver, random_story

FAST, SLOW, STORY = 20_000, 200_000, 150


def lives(first_seed: int, operations: int) -> Counter[str]:
    """Random stories until so many operations are done; gives how often each event happened."""
    seen: Counter[str] = Counter()
    seed = first_seed
    while seen["operation"] < operations:
        try:
            driver = random_story(seed, STORY)
        except Exception as error:
            raise AssertionError(f"random_story({seed}, {STORY}) fails: {error}") from error
        seen["operation"] += driver.operations
        for step in driver.events:
            seen.update(event.name for event in step)
        seed += 1
    return seen


EVERYTHING = {
    "arrive", "wait", "reject", "admit", "fork", "allocate", "share", "copy", "write", "release", "free",
    "cache", "evict", "preempt", "resume", "swap_out", "swap_in", "sample", "finish",
}  # fmt: skip


def test_twenty_thousand_operations() -> None:
    seen = lives(0, FAST)
    assert set(seen) >= EVERYTHING, EVERYTHING - set(seen)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_two_hundred_thousand_operations() -> None:
    seen = lives(100_000, SLOW)
    assert all(seen[event] > 100 for event in EVERYTHING), seen


@pytest.mark.parametrize("seed", range(12))
def test_the_same_run_gives_the_same_events_and_a_trace_that_verifies(seed: int) -> None:
    """Rule 9, and the trace's own judge on what the scheduler tells."""
    config = {
        "block_size": (1, 2, 4)[seed % 3],
        "num_blocks": 12,
        "sharing": ("copy-on-write", "append-only", "none")[seed // 3 % 3],
        "prefix_cache": seed % 2 == 0,
        "preempt": ("recompute", "swap")[seed // 2 % 2],
        "host_blocks": 12,
    }
    first, second = told(seed, config), told(seed, config)
    assert first == second
    assert verify(first) is None
    assert len(first.steps) > 10


def told(seed: int, config: dict[str, object]) -> Trace:
    """A run of nine requests as a trace."""
    driver = Driver(vocab=5, seed=seed, **config)
    requests = []
    for i in range(9):
        mode, n = (("greedy", 1), ("sample", 3), ("beam", 2))[i % 3]
        prompt = [t * (i % 2 + 1) % 3 for t in range(2 + i % 4)]
        with suppress(RequestRefused):
            requests.append(driver.submit(f"r{i}", prompt, new=2 + i % 5, n=n, mode=mode, arrival=i * 2))
    meta = {"block_size": driver.config.block_size, "num_blocks": driver.config.num_blocks}
    trace = Trace(meta=meta, requests=requests)
    while driver.scheduler.has_work:
        events, s = driver.step(), driver.scheduler
        plan = driver.plans[-1]
        trace.steps.append(
            Step(
                index=plan.index,
                kind=plan.kind,
                events=tuple(events),
                sequences=s.sequences(),
                blocks=s.blocks(),
                usage=(s.usage(),),
                host_blocks=s.host_blocks(),
            )
        )
    return trace


class Life(RuleBasedStateMachine):
    """Hypothesis chooses the configuration and the operations, and shortens what fails."""

    @initialize(
        size=st.sampled_from((1, 2, 4, 16)),
        blocks=st.integers(1, 64),
        sharing=st.sampled_from(("copy-on-write", "append-only", "none")),
        cache=st.booleans(),
        preempt=st.sampled_from(("recompute", "swap", "none")),
        host=st.integers(0, 8),
        tokens=st.sampled_from((1, 3, 8, 2048)),
        running=st.sampled_from((3, 256)),
    )
    def begin(
        self,
        size: int,
        blocks: int,
        sharing: str,
        cache: bool,
        preempt: str,
        host: int,
        tokens: int,
        running: int,
    ) -> None:
        pool = {"block_size": size, "num_blocks": blocks, "host_blocks": host, "preempt": preempt}
        limits = {"max_batch_tokens": tokens, "max_running": running}
        self.driver = Driver(vocab=3, sharing=sharing, prefix_cache=cache, **pool, **limits)
        self.names = 0

    @rule(
        prompt=st.lists(st.integers(0, 1), min_size=1, max_size=12),
        new=st.integers(1, 9),
        n=st.integers(1, 3),
        mode=st.sampled_from(("sample", "beam")),
        stop=st.frozensets(st.integers(0, 2), max_size=1),
        later=st.integers(0, 2),
    )
    def submit(
        self, prompt: list[int], new: int, n: int, mode: str, stop: frozenset[int], later: int
    ) -> None:
        arrival = len(self.driver.events) + later
        with suppress(RequestRefused):
            self.driver.submit(f"r{self.names}", prompt, new=new, n=n, mode=mode, stop=stop, arrival=arrival)
        self.names += 1

    @precondition(lambda self: self.driver.scheduler._state.groups)
    @rule(which=st.integers(0, 1000))
    def cancel(self, which: int) -> None:
        names = list(self.driver.scheduler._state.groups)
        self.driver.cancel(names[which % len(names)])

    @precondition(lambda self: self.driver.plan_in_hand is None and self.driver.scheduler.has_work)
    @rule()
    def plan(self) -> None:
        self.driver.plan()

    @precondition(lambda self: self.driver.plan_in_hand is not None)
    @rule()
    def commit(self) -> None:
        self.driver.finish_step()

    @precondition(lambda self: self.driver.plan_in_hand is None)
    @rule(steps=st.integers(1, 6))
    def go_on(self, steps: int) -> None:
        for _ in range(steps):
            if self.driver.scheduler.has_work:
                self.driver.step()

    def teardown(self) -> None:
        if hasattr(self, "driver"):
            if self.driver.plan_in_hand is not None:
                self.driver.finish_step()
            self.driver.run()


TestLife = Life.TestCase
TestLife.settings = settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
