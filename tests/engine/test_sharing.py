"""Many answers to one prompt: shared blocks, copies only where they are needed, each answer as if alone."""

from typing import Any

import pytest

from core.config import EngineConfig, Sampling
from core.engine.engine import Engine
from core.memory.events import Copy
from core.models.loaded import LoadedModel
from core.trace import verify
from core.trace.step import Step
from tests.engine.helpers import count, generated, run, tokens_of, worst

NEW = 10
HOT = Sampling(temperature=1.0, seed=42)
COLD = Sampling()


def answers(
    model: LoadedModel, prompt: list[int], n: int, sampling: Sampling, *, prove: bool = False, **config: Any
) -> tuple[Engine, list[Step]]:
    settings = {"block_size": 4, "num_blocks": 64, "strategies": ()} | config
    engine = Engine(model, EngineConfig(**settings), prove=prove)
    engine.submit(prompt, max_new_tokens=NEW, n=n, sampling=sampling, ignore_eos=True)
    return engine, run(engine)


def alone(model: LoadedModel, prompt: list[int], seed: int) -> list[int]:
    engine, _ = answers(model, prompt, 1, Sampling(temperature=1.0, seed=seed))
    return generated(engine, "r0.0")


@pytest.mark.parametrize("sharing", ["copy-on-write", "append-only", "none"])
@pytest.mark.parametrize("prefix_cache", [False, True])
@pytest.mark.parametrize("length", [6, 8, 1])
def test_each_answer_is_its_seed_alone(tiny: Any, length: int, prefix_cache: bool, sharing: str) -> None:
    """A22: four different texts, each that of its own seed; logits exact."""
    model, prompt = tiny("llama"), list(range(60, 60 + length))
    engine, steps = answers(
        model, prompt, 4, HOT, prove=True, prefix_cache=prefix_cache, sharing=sharing, max_batch_tokens=512
    )
    found = tokens_of(engine)
    assert [found[f"r0.{i}"] for i in range(4)] == [alone(model, prompt, 42 + i) for i in range(4)]
    assert len({tuple(t) for t in found.values()}) == 4
    assert worst(steps) <= 1e-4


@pytest.mark.parametrize(("length", "copies", "in_use"), [(6, 3, 5), (8, 0, 6), (7, 3, 5), (9, 3, 6)])
def test_copies_and_blocks(tiny: Any, length: int, copies: int, in_use: int) -> None:
    """A2: n sharers of a partly filled block make n - 1 copies and the last writes in place; a prompt that
    ends on a block's edge makes none."""
    _, steps = answers(tiny("llama"), list(range(60, 60 + length)), 4, HOT)
    assert count(steps, "copy") == copies and steps[1].usage[0].copied == copies * (length % 4)
    assert len(steps[1].blocks) == in_use, "after the first decode"
    assert not any(isinstance(e, Copy) for s in steps[2:] for e in s.events)


def test_in_a_crowd(tiny: Any) -> None:
    """The same answers next to three other requests, which arrive in the middle."""
    model, prompt = tiny("qwen2"), list(range(60, 66))
    engine = Engine(model, EngineConfig(num_blocks=96, strategies=()))
    engine.submit([9, 9], max_new_tokens=7, sampling=Sampling(temperature=2.0, seed=1), ignore_eos=True)
    engine.submit(prompt, max_new_tokens=NEW, n=3, sampling=HOT, arrival_step=2, ignore_eos=True)
    engine.submit([1] * 13, max_new_tokens=9, ignore_eos=True, arrival_step=3)
    engine.submit(prompt, max_new_tokens=5, n=2, sampling=Sampling(temperature=1.0, seed=43), arrival_step=4)
    run(engine)
    for i in range(3):
        assert generated(engine, f"r1.{i}") == alone(model, prompt, 42 + i)
    assert generated(engine, "r3.0")[:5] == generated(engine, "r1.1")[: len(generated(engine, "r3.0"))][:5]


def test_at_temperature_0_all_answers_are_equal(tiny: Any) -> None:
    engine, _ = answers(tiny("llama"), list(range(60, 66)), 3, COLD)
    found = tokens_of(engine)
    assert found["r0.0"] == found["r0.1"] == found["r0.2"]


def test_without_copy_on_write_one_goes_wrong_and_the_other_does_not(tiny: Any) -> None:
    """The lesson's switch: both write the shared block; who writes last is right, the other reads its
    neighbour's keys and values."""
    model, prompt = tiny("llama"), list(range(60, 66))
    _, good = answers(model, prompt, 2, HOT, prove=True)
    assert worst(good) <= 1e-4
    config = EngineConfig(num_blocks=64, copy_on_write_disabled=True)
    with pytest.raises(ValueError, match="only a lesson may do that"):
        Engine(model, config)
    engine = Engine(model, config, prove=True, scenario="no-copy-on-write")
    engine.submit(prompt, max_new_tokens=NEW, n=2, sampling=HOT, ignore_eos=True)
    apart: dict[str, float] = {}
    while (step := engine.step()) is not None:
        if step.proof:
            for sequence, difference in step.proof.by_sequence.items():
                apart[sequence] = max(apart.get(sequence, 0.0), difference)
    assert count(engine.trace.steps, "copy") == 0
    wrong, right = max(apart, key=apart.__getitem__), min(apart, key=apart.__getitem__)
    assert apart[wrong] > 0.1 and apart[right] <= 1e-4, apart
    violation = verify(engine.trace)
    assert violation is not None and violation.rule == 4, violation
    index = int(right.rpartition(".")[2])
    assert generated(engine, right) == alone(model, prompt, 42 + index), "the unharmed one is as if alone"


def test_the_same_prompt_twice_with_the_prefix_cache(tiny: Any) -> None:
    """Hits change no token: finished before, still running, and in the same step."""
    model, prompt = tiny("qwen3"), list(range(60, 72))
    engine = Engine(model, EngineConfig(num_blocks=64, prefix_cache=True, strategies=()), prove=True)
    for arrival in (0, 0, 3, 40):
        engine.submit(prompt, max_new_tokens=NEW, arrival_step=arrival, ignore_eos=True)
    steps = run(engine)
    texts = list(tokens_of(engine).values())
    assert all(t == texts[0] for t in texts) and worst(steps) <= 1e-4
    cold, _ = answers(model, prompt, 1, COLD)
    assert texts[0] == generated(cold, "r0.0")
    assert count(steps, "share") >= 4


@pytest.mark.model
def test_four_answers_of_the_default_model(smollm2: LoadedModel) -> None:
    prompt = smollm2.tokens.encode("Once upon a time, in a village by the sea")
    engine, steps = answers(smollm2, prompt, 3, Sampling(temperature=0.9, top_p=0.95, seed=7), prove=True)
    assert worst(steps) <= 1e-4
    for i in range(3):
        single, _ = answers(smollm2, prompt, 1, Sampling(temperature=0.9, top_p=0.95, seed=7 + i))
        assert generated(engine, f"r0.{i}") == generated(single, "r0.0")
