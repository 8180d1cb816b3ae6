"""Drives a scheduler with the fake model, every rule checked after every operation."""

from __future__ import annotations

import random
from contextlib import suppress
from typing import Any

from core.config import EngineConfig
from core.engine.beams import BeamOptions
from core.engine.errors import RequestRefused
from core.engine.plan import StepPlan
from core.engine.scheduler import Scheduler
from core.memory.events import Event
from core.memory.views import RequestView, SequenceView
from tests.engine.fake_model import FakeModel
from tests.engine.invariants import Witness, check_invariants


def request(
    name: str, prompt: Any, *, new: int = 4, n: int = 1, mode: Any = None, arrival: int = 0
) -> RequestView:
    """A request; ``prompt`` is a number of tokens (100, 101, …) or the tokens themselves."""
    tokens = tuple(range(100, 100 + prompt)) if isinstance(prompt, int) else tuple(prompt)
    return RequestView(
        id=name,
        prompt_text="",
        prompt_token_ids=tokens,
        mode=mode or ("sample" if n > 1 else "greedy"),
        n=n,
        max_new_tokens=new,
        arrival_step=arrival,
    )


class Driver:
    """A scheduler, a model and a witness. ``events``: one tuple a step."""

    def __init__(self, *, vocab: int = 6, seed: int = 0, check: bool = True, **config: Any) -> None:
        self.config = EngineConfig(**{"max_model_len": 1024, "seed": seed, **config})
        self.scheduler = Scheduler(self.config)
        self.model = FakeModel(self.config, vocab=vocab, seed=seed)
        self.witness = Witness(self.scheduler)
        self.check = check
        self.events: list[tuple[Event, ...]] = []
        self.plans: list[StepPlan] = []
        self.plan_in_hand: StepPlan | None = None
        self.operations = 0

    def submit(
        self, *args: Any, stop: frozenset[int] = frozenset(), options: BeamOptions | None = None, **kw: Any
    ) -> RequestView:
        """Hand in a request made by ``request``; raises what the scheduler raises."""
        new = request(*args, **kw)
        try:
            self.scheduler.submit(new, stop, options)
            self.witness.request(new)
        except RequestRefused:
            self.witness.request(new)
            raise
        finally:
            self.checked(committed=self.plan_in_hand is None)
        return new

    def cancel(self, name: str) -> None:
        self.scheduler.cancel(name)
        self.checked(committed=self.plan_in_hand is None)

    def plan(self) -> StepPlan:
        before = self.scheduler.sequences(), self.scheduler.blocks(), self.scheduler.usage()
        self.plan_in_hand = self.scheduler.plan()
        assert self.scheduler.plan() is self.plan_in_hand
        assert before == (self.scheduler.sequences(), self.scheduler.blocks(), self.scheduler.usage())
        self.checked(committed=False)
        _check_plan(self.plan_in_hand, self.config)
        return self.plan_in_hand

    def finish_step(self) -> tuple[Event, ...]:
        plan = self.plan_in_hand
        assert plan is not None
        check_reads = not self.config.copy_on_write_disabled
        after = self.scheduler.commit(plan, self.model.run(plan, check_reads=check_reads))
        self.plan_in_hand = None
        self.plans.append(plan)
        self.events.append((*plan.events, *after))
        self.checked(committed=True)
        if self.check and not self.config.copy_on_write_disabled:
            self.witness.follow(self.events[-1])
        return self.events[-1]

    def step(self) -> tuple[Event, ...]:
        self.plan()
        return self.finish_step()

    def run(self, limit: int = 2000) -> Driver:
        """Step until nothing is left to do."""
        while self.scheduler.has_work:
            assert len(self.events) < limit, "it does not come to an end"
            self.step()
        return self

    def checked(self, *, committed: bool) -> None:
        self.operations += 1
        if self.check:
            check_invariants(self.scheduler, committed=committed)

    def of(self, kind: type[Event]) -> list[Any]:
        """All events of a type so far."""
        return [event for step in self.events for event in step if isinstance(event, kind)]

    def sequence(self, name: str) -> SequenceView:
        return next(view for view in self.scheduler.sequences() if view.id == name)

    def texts(self) -> dict[str, tuple[int, ...]]:
        return {view.id: view.token_ids for view in self.scheduler.sequences()}

    def refs(self) -> dict[int, int]:
        """Reference counts of the used blocks."""
        return {block.id: block.ref for block in self.scheduler.blocks() if block.state == "used"}


def _check_plan(plan: StepPlan, config: EngineConfig) -> None:
    """What every plan keeps: each row computes something, within the limits; swaps go one way."""
    assert all(row.token_ids for row in plan.scheduled)
    assert plan.num_tokens <= config.max_batch_tokens
    assert len({row.sequence for row in plan.scheduled}) == len(plan.scheduled) <= config.max_running
    assert not (plan.swap_in and plan.swap_out)
    assert (plan.kind == "idle") == (not plan.scheduled)
    for moves in (plan.swap_out, plan.swap_in, plan.copies):
        assert len({target for _, target in moves}) == len(moves)


def random_config(rng: random.Random) -> dict[str, Any]:
    """Any corner of the configuration, small: mostly without the limits that keep a pool from running dry."""
    preempt = rng.choice(("recompute", "recompute", "swap", "swap", "none"))
    return {
        "block_size": rng.choice((1, 2, 4, 16)),
        "num_blocks": rng.choice((1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32, 64)),
        "sharing": rng.choice(("copy-on-write", "copy-on-write", "append-only", "none")),
        "prefix_cache": rng.random() < 0.5,
        "preempt": preempt,
        "host_blocks": rng.choice((0, 1, 3, 8, 64)) if preempt == "swap" else 0,
        "watermark": rng.choice((0.0, 0.0, 0.0, 0.01, 0.1, 0.3)),
        "max_batch_tokens": rng.choice((1, 2, 3, 5, 8, 16, 64, 2048, 2048, 2048, 2048)),
        "max_running": rng.choice((1, 4, 8, 256, 256, 256)),
    }


def random_submit(driver: Driver, rng: random.Random, number: int) -> None:
    """A random request over a small alphabet, so that prompts share prefixes; sized by the pool."""
    slots = driver.config.num_slots
    length = rng.randint(1, max(1, min(40, slots * 2 // 3)))
    new = rng.randint(1, max(1, min(24, slots - length + 2)))
    base = [t % 3 for t in range(length)] if rng.random() < 0.6 else [rng.randrange(3) for _ in range(length)]
    if rng.random() < 0.3:
        base[rng.randrange(length)] = rng.randrange(5)
    mode = rng.choice(("greedy", "sample", "beam"))
    n = 1 if mode == "greedy" else rng.randint(1, 4)
    stop = frozenset(rng.sample(range(driver.model.vocab), rng.choice((0, 0, 1, 2))))
    penalty, early = rng.choice((-1.0, 0.0, 1.0, 2.0)), rng.choice((True, False, "never"))
    arrival = len(driver.events) + rng.choice((0, 0, 0, 1, 3))
    options = BeamOptions(length_penalty=penalty, early_stopping=early)
    with suppress(RequestRefused):
        driver.submit(
            f"r{number}", base, new=new, n=n, mode=mode, arrival=arrival, stop=stop, options=options
        )


def random_story(seed: int, operations: int) -> Driver:
    """One scheduler's life: random operations, then the run to its end. Every rule is checked after each."""
    rng = random.Random(seed)
    driver = Driver(vocab=rng.choice((2, 3, 6, 12)), seed=seed, **random_config(rng))
    number = 0
    while driver.operations < operations:
        choice = rng.random()
        if choice < 0.25:
            random_submit(driver, rng, number)
            number += 1
        elif choice < 0.30 and driver.scheduler._state.groups:
            driver.cancel(rng.choice(list(driver.scheduler._state.groups)))
        elif driver.plan_in_hand is not None:
            driver.finish_step()
        elif driver.scheduler.has_work:
            driver.plan()
        else:
            random_submit(driver, rng, number)
            number += 1
    if driver.plan_in_hand is not None:
        driver.finish_step()
    return driver.run()
