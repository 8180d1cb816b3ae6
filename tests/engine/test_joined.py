"""The short way through an attention module: the same bits, taken only where they are the same."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from transformers import AttentionInterface

from core.config import EngineConfig
from core.engine import bridge, joined
from core.engine.batch import pack
from core.engine.engine import Engine
from core.engine.joined import join_attention
from core.engine.plan import Scheduled
from core.engine.store import KVStore
from kernels import pack_linears
from tests.engine.helpers import generated, plain_greedy, run, worst
from tests.tiny import tiny_model


def attention_modules(model: Any) -> list[Any]:
    return [m for m in model.model.modules() if type(m).__name__ in joined.KNOWN]


def ready(arch: str, dtype: str = "float32", packed: bool = True) -> Any:
    """A tiny model of its own; no other test may meet it in this state."""
    model = tiny_model(arch, seed=3, dtype=dtype)
    if packed:
        pack_linears(model.model, chain=16 if dtype == "float32" else None)
    return model


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("arch", ["llama", "qwen2", "qwen3", "gemma3_text", "mistral"])
def test_every_known_module_takes_the_short_way_with_the_same_bits(arch: str, dtype: str) -> None:
    """Prefill, decode and both together; the engine's logits before and after are the same."""
    model = ready(arch, dtype)

    def logits() -> list[torch.Tensor]:
        store = KVStore(12, 4, model.geometry, device="cpu")
        store.blocks.fill_(float("nan"))
        steps = [[row(model, 0, 0, 9)], [row(model, 1, 0, 6), row(model, 0, 9, 10)]]
        steps += [[row(model, 0, 10, 11), row(model, 1, 6, 7)], [row(model, 0, 11, 12)]]
        return [bridge.forward(model, store, pack(step, 4, "cpu")) for step in steps]

    before = logits()
    with model.lock:
        assert join_attention(model.model) == len(attention_modules(model)) == 3
        assert join_attention(model.model) == 0, "done already"
    for a, b in zip(before, logits(), strict=True):
        assert torch.equal(a, b)


def row(model: Any, which: int, start: int, end: int) -> Scheduled:
    """Tokens start..end of sequence 0 or 1, in blocks that alternate."""
    tokens = tuple((37 * (i + 5 * which) + 11) % 256 for i in range(start, end))
    return Scheduled(
        sequence=f"r{which}.0",
        request=f"r{which}",
        start=start,
        token_ids=tokens,
        block_table=tuple(range(which, 12, 2)),
        num_samples=1,
    )


def test_without_a_pool_the_modules_run_their_own_code() -> None:
    model = ready("llama")
    prompt = list(b"The quick brown fox")
    wanted = plain_greedy(model, prompt, 8)
    with model.lock:
        join_attention(model.model)
    assert plain_greedy(model, prompt, 8) == wanted
    engine = Engine(model, EngineConfig(block_size=4, num_blocks=32, strategies=()), prove=True)
    engine.submit(prompt, max_new_tokens=8)
    steps = run(engine)
    assert generated(engine, "r0.0") == wanted and worst(steps) <= 1e-4


def test_other_modules_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unpacked, unknown by name, with other numbers than their own code gives, or called otherwise."""
    for model in (ready("llama", packed=False), ready("gpt2")):
        assert join_attention(model.model) == 0
    model = ready("llama")
    right = joined.signed
    monkeypatch.setattr(joined, "signed", lambda cos, sin: right(cos, sin * 1.01))
    assert join_attention(model.model) == 0
    monkeypatch.undo()

    def changed(self: Any, hidden_states: torch.Tensor, rotation: object) -> None: ...

    monkeypatch.setattr(type(attention_modules(model)[0]), "forward", changed)
    assert join_attention(model.model) == 0
    monkeypatch.undo()
    before = model.model.config._attn_implementation
    assert join_attention(model.model) == 3
    assert model.model.config._attn_implementation == before
    assert not any(name.startswith(joined.PROBE) for name in AttentionInterface._global_mapping)


def test_two_models_may_be_made_ready_at_once() -> None:
    models = [ready(arch) for arch in ("llama", "qwen3") * 4]
    with ThreadPoolExecutor(len(models)) as threads:
        assert list(threads.map(lambda m: join_attention(m.model), models)) == [3] * len(models)
