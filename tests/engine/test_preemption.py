"""Tokens do not depend on the pool: a small one that preempts gives what a large one gives."""

from typing import Any

import pytest

from core.config import EngineConfig, Sampling
from core.engine.engine import Engine
from core.engine.errors import RequestRefused
from core.models.loaded import LoadedModel
from core.trace.step import Step
from tests.engine.helpers import count, run, tokens_of, worst

SMALL, LARGE = 6, 200


def outcome(model: LoadedModel, n: int, **config: Any) -> tuple[dict[str, list[int]], list[Step]]:
    """Three requests of up to 4 answers that want more blocks than six together."""
    settings = {"block_size": 4, "strategies": (), "max_model_len": 64} | config
    engine = Engine(model, EngineConfig(**settings), prove=True)
    sampling = Sampling(temperature=1.0, seed=5) if n > 1 else Sampling()
    # The largest that fits six blocks alone: the shared prompt and one's own half of the rest.
    new = {1: 12, 2: 6, 3: 3, 4: 3}[n]
    for i, start in enumerate((60, 90, 120)):
        prompt = list(range(start, start + (8 if n == 1 else 6)))
        engine.submit(prompt, max_new_tokens=new, n=n, sampling=sampling, arrival_step=i, ignore_eos=True)
    steps = run(engine)
    return tokens_of(engine), steps


@pytest.mark.parametrize("chunk", [2048, 5])
@pytest.mark.parametrize("prefix_cache", [False, True])
@pytest.mark.parametrize("preempt", ["recompute", "swap"])
@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_six_blocks_or_two_hundred(tiny: Any, n: int, preempt: str, prefix_cache: bool, chunk: int) -> None:
    model = tiny("llama")
    common = {"preempt": preempt, "prefix_cache": prefix_cache, "host_blocks": 12, "max_batch_tokens": chunk}
    wanted, _ = outcome(model, n, num_blocks=LARGE)
    large, steps = outcome(model, n, num_blocks=LARGE, **common)
    assert count(steps, "preempt") == 0 and large == wanted
    small, steps = outcome(model, n, num_blocks=SMALL, **common)
    assert small == wanted
    assert worst(steps) <= 1e-4


def test_the_pool_does_run_dry(tiny: Any) -> None:
    """The test above would say little if nothing were ever preempted."""
    model = tiny("llama")
    _, steps = outcome(model, 1, num_blocks=SMALL)
    assert count(steps, "preempt") >= 1 and count(steps, "resume") >= 1
    _, steps = outcome(model, 1, num_blocks=SMALL, preempt="swap", host_blocks=12)
    assert count(steps, "swap_out") >= 1 and count(steps, "swap_in") == count(steps, "swap_out")
    assert max(len(s.host_blocks) for s in steps) >= 1


def test_two_of_five_blocks_each(tiny: Any) -> None:
    """A9: P 8 and G 12, pool 6: the second has to give way and comes back with the same tokens."""
    model = tiny("mistral")

    def both(**config: Any) -> dict[str, list[int]]:
        engine = Engine(model, EngineConfig(strategies=(), **config), prove=True)
        for start in (60, 90):
            engine.submit(list(range(start, start + 8)), max_new_tokens=12, ignore_eos=True)
        assert worst(run(engine)) <= 1e-4
        return tokens_of(engine)

    wanted = both(num_blocks=20)
    assert both(num_blocks=6) == wanted
    for host in (0, 1, 3, 8):
        assert both(num_blocks=6, preempt="swap", host_blocks=host) == wanted, f"{host} host blocks"


def test_a_full_pool_without_preemption_keeps_the_text(tiny: Any) -> None:
    model = tiny("llama")
    engine = Engine(model, EngineConfig(num_blocks=SMALL, preempt="none", strategies=()))
    for start in (60, 90):
        engine.submit(list(range(start, start + 8)), max_new_tokens=12, ignore_eos=True)
    steps = run(engine)
    reasons = {e.sequence: e.reason for s in steps for e in s.events if e.name == "finish"}
    assert sorted(reasons.values()) == ["length", "out_of_memory"]
    short = next(s for s, reason in reasons.items() if reason == "out_of_memory")
    large = Engine(model, EngineConfig(num_blocks=LARGE, strategies=()))
    for start in (60, 90):
        large.submit(list(range(start, start + 8)), max_new_tokens=12, ignore_eos=True)
    run(large)
    kept = tokens_of(engine)[short]
    assert 0 < len(kept) < 12 and kept == tokens_of(large)[short][: len(kept)]
    assert engine.text(short)


def test_cancel_at_any_moment(tiny: Any) -> None:
    """Waiting, computing, forked, swapped: blocks go back and the others' tokens stay what they were."""
    model = tiny("llama")
    wanted, _ = outcome(model, 1, num_blocks=LARGE)
    for moment in range(1, 25, 3):
        engine = Engine(model, EngineConfig(num_blocks=SMALL, preempt="swap", host_blocks=12, strategies=()))
        for i, start in enumerate((60, 90, 120)):
            engine.submit(list(range(start, start + 8)), max_new_tokens=12, arrival_step=i, ignore_eos=True)
        for _ in range(moment):
            engine.step()
        engine.cancel("r1")
        engine.cancel("r1")
        run(engine)
        found = tokens_of(engine)
        assert found["r0.0"] == wanted["r0.0"] and found["r2.0"] == wanted["r2.0"]
        assert found["r1.0"] == wanted["r1.0"][: len(found["r1.0"])]
    with pytest.raises(ValueError, match="no request 'r9'"):
        engine.cancel("r9")


def test_a_group_that_never_fits_is_refused(tiny: Any) -> None:
    engine = Engine(tiny("llama"), EngineConfig(num_blocks=SMALL))
    with pytest.raises(RequestRefused, match=r"4 sequences need \d+ blocks and the pool has 6"):
        engine.submit(list(range(60, 66)), max_new_tokens=12, n=4)
