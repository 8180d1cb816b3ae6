"""Decode through padded batches, as CUDA graphs need them: the same tokens with and without."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from core.config import EngineConfig, Sampling
from core.engine.engine import Engine
from core.trace.step import Trace


def run(model: Any, graphs: bool | None, **changes: Any) -> tuple[Engine, Trace]:
    """Three answers and a late prompt: sizes 4 and 8 with padding, and steps that mix prefill with decode."""
    settings = {"block_size": 4, "num_blocks": 40, "max_model_len": 40} | changes
    engine = Engine(model, EngineConfig(**settings), graphs=graphs)
    drawn = Sampling(temperature=1.0, seed=3)
    engine.submit("Hello!", max_new_tokens=9, n=3, sampling=drawn, ignore_eos=True)
    engine.submit("Another one", max_new_tokens=9, n=2, sampling=drawn, arrival_step=3, ignore_eos=True)
    while engine.has_work:
        engine.step()
    return engine, engine.trace


def tokens(trace: Trace) -> dict[str, tuple[int, ...]]:
    return {s.id: s.token_ids for s in trace.steps[-1].sequences}


@pytest.mark.parametrize("arch", ["llama", "gemma3_text", "gpt2"])
def test_the_same_tokens_with_and_without(tiny: Any, arch: str) -> None:
    plain, (padded, trace) = run(tiny(arch), False)[1], run(tiny(arch), True)
    assert tokens(trace) == tokens(plain)
    assert set(padded._graphs._graphs.recorded) == {2, 4, 8}  # 3 and 5 rows padded, then 2


def test_padding_writes_nowhere_in_a_pool_that_is_full(tiny: Any) -> None:
    """B10: 3 x 14 and 2 x 19 slots; the pool has just the blocks that they take at most."""
    model = tiny("llama")
    _, trace = run(model, True, num_blocks=16)
    assert tokens(trace) == tokens(run(model, False, num_blocks=16)[1])
    assert min(u.free for s in trace.steps for u in s.usage if u.strategy == "paged") == 0


def test_off_on_a_cpu_unless_asked_for(tiny: Any) -> None:
    assert run(tiny("llama"), None)[0]._graphs is None


@pytest.mark.gpu
def test_the_same_tokens_with_recorded_graphs() -> None:
    from tests.tiny import tiny_model

    made = tiny_model("llama")
    made.model.cuda()
    model = replace(made, device="cuda")
    assert tokens(run(model, True)[1]) == tokens(run(model, False)[1])
