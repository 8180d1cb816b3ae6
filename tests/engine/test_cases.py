"""Cases of sharing that have gone wrong elsewhere, on the torch engine with pools of NaN.

Which block is taken, shared and given back in each of them is checked, without tensors, in test_scheduler_*.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch

from core.config import EngineConfig, Sampling
from core.engine.engine import Engine
from core.memory.events import Copy, Share, Write
from core.models.loaded import LoadedModel
from tests.engine.helpers import generated, plain_greedy, poison, run, tokens_of, worst

HOT = Sampling(temperature=1.0, seed=42)


@pytest.mark.parametrize("length", [4, 8, 12])
def test_a1_a_prompt_that_is_all_in_the_cache(tiny: Any, length: int) -> None:
    """A1: again after the first is finished, and again while that one runs: at least one token is computed,
    at its own position, never into a block that another holds; the text is the cold one."""
    model, prompt = tiny("llama"), list(range(60, 60 + length))
    engine = Engine(model, EngineConfig(num_blocks=32, prefix_cache=True, strategies=()), prove=True)
    for arrival in (0, 9, 11):
        engine.submit(prompt, max_new_tokens=6, arrival_step=arrival, ignore_eos=True)
    steps = run(engine)
    texts = tokens_of(engine)
    assert texts["r0.0"] == texts["r1.0"] == texts["r2.0"] and worst(steps) <= 1e-4
    for sequence in ("r1.0", "r2.0"):
        found = sum(isinstance(e, Share) and e.sequence == sequence for s in steps for e in s.events)
        assert found == (length - 1) // 4, "never all of the prompt"
        first = next(e for s in steps for e in s.events if isinstance(e, Write) and e.sequence == sequence)
        assert first.position == found * 4


@pytest.mark.parametrize(("length", "copies", "held"), [(6, 3, 5), (8, 0, 6)])
def test_a2_copies_and_blocks_of_four_writers(tiny: Any, length: int, copies: int, held: int) -> None:
    """A2: P 6 and n 4 is three copies and 1 + 4 blocks; P 8 none, and 2 + 4."""
    engine = Engine(tiny("qwen3"), EngineConfig(num_blocks=24, strategies=()), prove=True)
    engine.submit(list(range(60, 60 + length)), max_new_tokens=3, n=4, sampling=HOT, ignore_eos=True)
    steps = run(engine)
    assert sum(isinstance(e, Copy) for s in steps for e in s.events) == copies
    assert len(steps[1].blocks) == held and worst(steps) <= 1e-4


@pytest.mark.parametrize("prefix_cache", [False, True])
@pytest.mark.parametrize("n", [1, 2])
def test_a9_what_comes_back_goes_on_as_if_never_gone(tiny: Any, n: int, prefix_cache: bool) -> None:
    """A9: two requests that do not fit together, pool small and large, cache on and off."""
    model = tiny("llama")

    def both(blocks: int) -> tuple[dict[str, list[int]], int]:
        config = EngineConfig(num_blocks=blocks, prefix_cache=prefix_cache, strategies=())
        engine = Engine(model, config, prove=True)
        for start in (60, 90):
            engine.submit(list(range(start, start + 8)), max_new_tokens=12 // n, n=n,
                          sampling=HOT if n > 1 else Sampling(), ignore_eos=True)  # fmt: skip
        steps = run(engine)
        assert worst(steps) <= 1e-4
        return tokens_of(engine), sum(e.name == "preempt" for s in steps for e in s.events)

    large, never = both(40)
    small, preempted = both(6)
    assert small == large and never == 0 and preempted > 0


@pytest.mark.parametrize("length", [8, 6])
def test_a15_bytes_are_the_same_after_a_round_trip(tiny: Any, length: int) -> None:
    """A15: each physical block is moved once, and what comes back is bit for bit what went out."""
    config = EngineConfig(num_blocks=8, preempt="swap", host_blocks=12, strategies=())
    engine = Engine(tiny("llama"), config, prove=True)
    for start in (60, 90):
        engine.submit(
            list(range(start, start + length)), max_new_tokens=7, n=2, sampling=HOT, ignore_eos=True
        )
    gone: dict[int, torch.Tensor] = {}  # by host block
    checked = 0
    while engine.has_work:
        plan = engine.plan()
        assert len({block for block, _ in plan.swap_out}) == len(plan.swap_out), "each once"
        assert not (plan.swap_in and plan.swap_out)
        for block, host in plan.swap_out:
            gone[host] = engine.store.blocks[block].clone()
        outcome = engine.run(plan)
        for host, block in plan.swap_in:
            before, after = gone[host], engine.store.blocks[block]
            written = ~before.isnan()
            assert written.any() and torch.equal(before[written], after[written])
            checked += 1
        poison(engine, engine.commit(plan, outcome))
    assert checked > 0, "something was swapped"
    assert worst(engine.trace.steps) <= 1e-4


def _answers(model: LoadedModel, crowd: int, blocks: int) -> list[list[int]]:
    engine = Engine(model, EngineConfig(num_blocks=blocks, strategies=()))
    for k in range(crowd):
        engine.submit(list(range(90 + k, 96 + k)), max_new_tokens=9, ignore_eos=True)
    request = engine.submit(list(range(60, 66)), max_new_tokens=6, n=4, sampling=HOT, ignore_eos=True)
    steps = run(engine)
    preempted = any(
        e.name == "preempt" and e.sequence.startswith(request.id) for s in steps for e in s.events
    )
    assert preempted == (blocks < 40)
    return [generated(engine, f"{request.id}.{k}") for k in range(4)]


def test_a22_answers_depend_on_their_seed_alone(tiny: Any) -> None:
    """A22: four different texts; the same alone, next to three others, and after a preemption."""
    model = tiny("llama")
    alone = _answers(model, 0, 40)
    assert len({tuple(text) for text in alone}) == 4
    assert _answers(model, 3, 40) == alone
    assert _answers(model, 3, 16) == alone


def test_a22_greedy_answers_are_all_the_same(tiny: Any) -> None:
    model, prompt = tiny("llama"), list(range(60, 66))
    engine = Engine(model, EngineConfig(num_blocks=40, strategies=()))
    engine.submit(prompt, max_new_tokens=6, n=3, ignore_eos=True)
    run(engine)
    assert list(tokens_of(engine).values()) == [plain_greedy(model, prompt, 6)] * 3
