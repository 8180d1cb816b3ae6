"""The scheduler under 20,000 random operations: its events, replayed, give its own state after every step."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from core.config import EngineConfig
from core.engine.beams import BeamOptions
from core.engine.errors import RequestRefused
from core.engine.plan import Candidate, Outcome, StepPlan
from core.engine.scheduler import Scheduler
from core.memory.views import RequestView
from core.trace import Replay, load, to_bytes, verify, verify_step
from core.trace.pictures import block_views, sequence_views
from core.trace.step import Step, Trace

VOCABULARY = 6  # so few that prefixes and whole answers repeat
STOP = 5

CONFIGS = st.fixed_dictionaries(
    {
        "block_size": st.sampled_from([1, 2, 3, 4]),
        "num_blocks": st.integers(1, 24),
        "sharing": st.sampled_from(["copy-on-write", "append-only", "none"]),
        "prefix_cache": st.booleans(),
        "preempt": st.sampled_from(["recompute", "swap", "none"]),
        "host_blocks": st.sampled_from([0, 2, 8, 24]),
        "max_batch_tokens": st.sampled_from([4, 7, 64]),
        "watermark": st.sampled_from([0.0, 0.1]),
        "max_running": st.sampled_from([4, 16]),
    }
)


def draw_outcome(plan: StepPlan, seed: int) -> Outcome:
    """Tokens as a sampler would give them, but for the model: drawn from the seed and the sequence."""
    samples, candidates = {}, {}
    for row in plan.scheduled:
        dice = random.Random(f"{seed} {row.sequence} {row.kv_len}")
        if row.num_candidates:
            best = sorted(-5 * dice.random() for _ in range(min(row.num_candidates, VOCABULARY)))[::-1]
            tokens = dice.sample(range(VOCABULARY), len(best))
            candidates[row.sequence] = tuple(map(Candidate, tokens, best))
        elif row.num_samples:
            drawn = tuple(Candidate(dice.randrange(VOCABULARY), -1.0) for _ in range(row.num_samples))
            samples[row.sequence] = drawn
    return Outcome(samples=samples, candidates=candidates)


def meta_of(config: EngineConfig) -> dict[str, Any]:
    return {
        "model": {"name": "dice"},
        "device": "cpu",
        "block_size": config.block_size,
        "num_blocks": config.num_blocks,
        "bytes_per_token": 1,
        "sharing": config.sharing,
        "prefix_cache": config.prefix_cache,
        "strategies": ["paged"],
    }


class Life(RuleBasedStateMachine):
    """Requests come, run and are cancelled; after every step the replayed state is the scheduler's."""

    @initialize(values=CONFIGS, seed=st.integers(0, 1000))
    def start(self, values: dict[str, Any], seed: int) -> None:
        self.config = EngineConfig(max_model_len=64, seed=seed, **values)
        self.scheduler = Scheduler(self.config)
        self.trace = Trace(meta=meta_of(self.config))
        self.replay = Replay(self.trace.meta, [])
        self.copied = 0

    @rule(
        prompt=st.lists(st.integers(0, 2), min_size=1, max_size=14),
        new=st.integers(1, 9),
        n=st.integers(1, 4),
        mode=st.sampled_from(["sample", "sample", "beam"]),
        later=st.sampled_from([0, 0, 2]),
        stops=st.booleans(),
    )
    def submit(self, prompt: list[int], new: int, n: int, mode: Any, later: int, stops: bool) -> None:
        request = RequestView(
            id=f"r{len(self.trace.requests)}",
            prompt_text="",
            prompt_token_ids=tuple(prompt),
            mode=mode,
            n=max(n, 2) if mode == "beam" else n,
            max_new_tokens=new,
            arrival_step=len(self.trace.steps) + later,
        )
        stop = frozenset({STOP}) if stops else frozenset[int]()
        try:
            self.scheduler.submit(request, stop, BeamOptions() if mode == "beam" else None)
        except RequestRefused:
            return
        self.trace.requests.append(request)
        self.replay.requests[request.id] = request

    @rule(which=st.integers(0, 40))
    def cancel(self, which: int) -> None:
        if self.trace.requests and which < 8:  # few: most requests should live to their end
            self.scheduler.cancel(self.trace.requests[-1 - which % len(self.trace.requests)].id)

    @rule(count=st.integers(1, 6), seed=st.integers(0, 3))
    def steps(self, count: int, seed: int) -> None:
        for _ in range(count):
            if self.scheduler.has_work:
                self._step(seed)

    def _step(self, seed: int) -> None:
        plan = self.scheduler.plan()
        after = self.scheduler.commit(plan, draw_outcome(plan, seed))
        step = Step(
            index=plan.index,
            kind=plan.kind,
            events=(*plan.events, *after),
            sequences=self.scheduler.sequences(),
            blocks=self.scheduler.blocks(),
            usage=(self.scheduler.usage(),),
            host_blocks=self.scheduler.host_blocks(),
        )
        self.trace.steps.append(step)
        violation = verify_step(self.replay, step)
        assert violation is None, f"{violation} {step.events}"
        without_logprobs = tuple(_no_logprob(s) for s in step.sequences)
        assert sequence_views(self.replay.sequences.values()) == without_logprobs
        assert block_views(self.replay.blocks) == step.blocks
        assert block_views(self.replay.host) == step.host_blocks
        assert self.replay.usage() == step.usage[0]

    @precondition(lambda self: len(self.trace.steps) % 16 == 15)
    @invariant()
    def the_file_is_as_good(self) -> None:
        loaded = load(to_bytes(self.trace))
        assert loaded == self.trace
        assert verify(loaded) is None

    def teardown(self) -> None:
        """Everything that is still there runs to its end, and gives everything back."""
        if hasattr(self, "scheduler"):
            for _ in range(3000):
                if not self.scheduler.has_work:
                    break
                self._step(0)
            assert not self.scheduler.has_work
            assert all(block.ref == 0 for block in self.scheduler.blocks())
            assert self.replay.host == {}


def _no_logprob(view: Any) -> Any:
    from dataclasses import replace

    return view if view.logprob is None else replace(view, logprob=None)


def _test_case(examples: int) -> Any:
    class Case(Life.TestCase):  # type: ignore[name-defined,misc]
        settings = settings(
            max_examples=examples,
            stateful_step_count=200,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        )

    return Case


TestReplayIsTheScheduler = _test_case(10)
TestReplayIsTheSchedulerInFull = pytest.mark.slow(_test_case(100))  # x 200: 20,000 operations

LIVES = {
    "copy": ({"block_size": 4, "num_blocks": 24}, {"copy", "share fork", "finish"}),
    "recompute": ({"num_blocks": 9}, {"preempt recompute", "resume recompute", "copy"}),
    "swap": (
        {"num_blocks": 9, "preempt": "swap", "host_blocks": 24},
        {"preempt swap", "swap_out", "swap_in", "share swap", "resume swap"},
    ),
    "small host": (
        {"num_blocks": 9, "preempt": "swap", "host_blocks": 3},
        {"preempt swap", "preempt recompute"},
    ),
    "cache": ({"num_blocks": 12, "prefix_cache": True}, {"cache", "evict", "share prefix"}),
    "append only": ({"num_blocks": 16, "sharing": "append-only"}, {"share prefix"}),
    "chunked": ({"num_blocks": 24, "max_batch_tokens": 4}, {"write", "copy"}),
}


@pytest.mark.parametrize("name", LIVES)
def test_a_life_in_which_it_happens(name: str) -> None:
    """Seeded lives under chosen settings: what each is about does happen, and replays."""
    values, wanted = LIVES[name]
    dice, happened = random.Random(name), set()
    life: Any = Life()
    life.start({"block_size": 2, **values}, seed=1)
    for _ in range(250):
        if dice.random() < 0.25 and len(life.trace.requests) < 60:
            prompt = [dice.randrange(3) for _ in range(dice.randint(1, 11))]
            mode = dice.choice(["sample", "sample", "beam"])
            life.submit(prompt, dice.randint(1, 8), dice.randint(1, 3), mode, 0, True)
        elif dice.random() < 0.05:
            life.cancel(dice.randrange(8))
        else:
            life.steps(1, dice.randrange(4))
    life.teardown()
    for step in life.trace.steps:
        for e in step.events:
            happened.add(" ".join([e.name, *(getattr(e, k) for k in ("how", "cause") if hasattr(e, k))]))
    assert wanted <= happened, wanted - happened
    assert verify(life.trace) is None
