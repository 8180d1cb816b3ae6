"""Peek: the tensors of the last step, and nothing changed by looking."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from core.config import EngineConfig, Sampling
from core.engine.engine import Engine
from core.engine.session import LiveSession
from kernels.reference import paged_attention_reference


def engine_of(model: Any, **changes: Any) -> Engine:
    """Two answers to a prompt of six tokens, in blocks of four."""
    engine = Engine(model, EngineConfig(block_size=4, num_blocks=16, max_model_len=32, **changes))
    engine.submit("Hello!", max_new_tokens=6, n=2, sampling=Sampling(temperature=1.0), ignore_eos=True)
    return engine


@pytest.mark.parametrize("arch", ["llama", "mistral", "gemma3_text"])
def test_every_layer_as_the_step_computed_it(tiny: Any, arch: str) -> None:
    engine = engine_of(tiny(arch))
    for _ in range(3):
        engine.step()
    for layer in range(3):
        found = engine.peek(layer)
        assert (found.step, found.layer, found.decoding) == (2, layer, (0, 1))
        assert [row.sequence for row in found.rows] == ["r0.0", "r0.1"]
        expected = paged_attention_reference(
            found.q, found.k_cache, found.v_cache, found.batch, **found.options
        )
        assert float((found.output - expected).abs().max()) < 1e-5
    assert not torch.equal(engine.peek(0).q, engine.peek(1).q)


def test_looking_writes_nothing_and_changes_no_token(tiny: Any) -> None:
    plain, watched = engine_of(tiny("llama")), engine_of(tiny("llama"))
    while plain.has_work:
        plain.step()
        watched.step()
        before = watched.store.blocks.clone()
        watched.peek(1)
        watched.plan() if watched.has_work else None
        watched.peek(2)  # a plan that has not been run has moved nothing
        assert torch.equal(watched.store.blocks.nan_to_num(7.0), before.nan_to_num(7.0))
    tokens = [[s.token_ids for s in e.trace.steps[-1].sequences] for e in (plain, watched)]
    assert tokens[0] == tokens[1]
    assert watched.peek(0).step == len(watched.trace.steps) - 1  # also when all is over


def test_what_cannot_be_looked_into_is_a_sentence(tiny: Any) -> None:
    engine = engine_of(tiny("llama"))
    with pytest.raises(ValueError, match="no finished step"):
        engine.peek(0)
    engine.step()
    with pytest.raises(ValueError, match="layers 0 to 2"):
        engine.peek(3)


def test_a_session_looks_between_two_steps(tiny: Any) -> None:
    session = LiveSession(engine_of(tiny("llama")))
    session.request_step(4)
    assert session.wait(20)
    assert session.peek(1).step == 3
    session.close()
