"""Tokens equal those of plain transformers; logits differ by at most 1e-4 (fp32). Pools of NaN throughout."""

from typing import Any

import pytest

from core.config import EngineConfig
from core.engine.engine import Engine
from core.models.loaded import LoadedModel
from tests.engine.helpers import generated, plain_greedy, run, worst
from tests.engine.prompts import prompts
from tests.tiny import ARCHITECTURES, EOS

NEW = 12
TINY_PROMPTS = [
    list(text.encode())
    for text in ("a", "abc", "abcd", "abcde", "The quick brown fox", "数据", "x = [1, 2]\n", "😃👍", "y" * 16)
]


def engine_for(model: LoadedModel, block_size: int, **changes: Any) -> Engine:
    settings = {"num_blocks": 4096 // block_size, "max_model_len": 256, "strategies": ()}
    return Engine(model, EngineConfig(block_size=block_size, **settings | changes), prove=True)


@pytest.mark.parametrize("block_size", [1, 3, 4, 16])
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_tiny_models_together(tiny: Any, arch: str, block_size: int) -> None:
    model = tiny(arch)
    engine = engine_for(model, block_size)
    for prompt in TINY_PROMPTS:
        engine.submit(prompt, max_new_tokens=NEW)
    steps = run(engine)
    for i, prompt in enumerate(TINY_PROMPTS):
        assert generated(engine, f"r{i}.0") == plain_greedy(model, prompt, NEW), (arch, block_size, i)
    assert worst(steps) <= 1e-4 and all(s.proof.same_argmax for s in steps if s.proof)


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_tiny_models_alone(tiny: Any, arch: str) -> None:
    model = tiny(arch)
    for prompt in TINY_PROMPTS:
        engine = engine_for(model, 4)
        engine.submit(prompt, max_new_tokens=NEW)
        assert worst(run(engine)) <= 1e-4
        assert generated(engine, "r0.0") == plain_greedy(model, prompt, NEW)


@pytest.mark.parametrize("block_size", [4, 16])
def test_bf16_stays_near_the_dense_pass(tiny: Any, block_size: int) -> None:
    """Rounding differs in a packed batch, so bf16 is held to a tolerance, not to equality."""
    engine = engine_for(tiny("llama", dtype="bfloat16"), block_size)
    for prompt in TINY_PROMPTS:
        engine.submit(prompt, max_new_tokens=NEW, ignore_eos=True)
    assert worst(run(engine)) < 0.5
    assert all(len(generated(engine, f"r{i}.0")) == NEW for i in range(len(TINY_PROMPTS)))


def test_the_end_token_ends(tiny: Any) -> None:
    """Any of the model's end tokens: it is kept as a token and shown by name, and is not part of the text."""
    model = tiny("llama")
    prompt = next(p for p in ([i, i + 1] for i in range(250)) if EOS in plain_greedy(model, p, 60))
    wanted = plain_greedy(model, prompt, 60)
    engine = engine_for(model, 4)
    engine.submit(prompt, max_new_tokens=60)
    steps = run(engine)
    assert generated(engine, "r0.0") == wanted and wanted[-1] == EOS
    finish = [e for e in steps[-1].events if e.name == "finish"]
    samples = [e for e in steps[-1].events if e.name == "sample"]
    assert finish[0].reason == "stop" and samples[0].text == "<eos>" and "<eos>" not in engine.text("r0.0")
    longer = engine_for(model, 4)
    longer.submit(prompt, max_new_tokens=60, ignore_eos=True)
    run(longer)
    assert len(generated(longer, "r0.0")) == 60 and generated(longer, "r0.0")[: len(wanted)] == wanted


@pytest.mark.model
def test_default_model(smollm2: LoadedModel) -> None:
    """A part of the matrix in test_forty_prompts.py: every kind of prompt once, in one ragged batch."""
    chosen = prompts(smollm2)[::5]
    engine = engine_for(smollm2, 3)
    for prompt in chosen:
        engine.submit(prompt, max_new_tokens=6)
    assert worst(run(engine)) <= 1e-4
    for i, prompt in enumerate(chosen):
        assert generated(engine, f"r{i}.0") == plain_greedy(smollm2, prompt, 6)


@pytest.mark.model
def test_the_example_of_the_course(smollm2: LoadedModel) -> None:
    engine = engine_for(smollm2, 4)
    engine.submit("The history of China is very", max_new_tokens=12)
    run(engine)
    assert engine.text("r0.0") == " long. It has been a multi-ethnic nation with a"
