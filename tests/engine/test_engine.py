"""Engine: plan, run, commit, and what the trace says of them."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from core import __version__
from core.config import EngineConfig, Sampling
from core.engine import engine as engine_module
from core.engine.engine import Engine
from core.engine.errors import PoolTooLarge
from core.engine.plan import Outcome
from core.engine.recorder import Texts
from core.trace import first_difference, load, replay, same_but_for_times, save
from tests.engine.helpers import count, generated, run, worst
from tests.tiny import EOS, ByteTokens

BUSY = EngineConfig(
    num_blocks=9,
    prefix_cache=True,
    preempt="swap",
    host_blocks=8,
    max_batch_tokens=11,
    strategies=("reserve max", "doubling", "exact", "no cache"),
    seed=3,
)


def busy(tiny: Any, **options: Any) -> Engine:
    """Chunks, samples, prefix hits, swaps, a refusal and a cancel in one run."""
    engine = Engine(tiny("llama"), BUSY, scenario="busy", **options)
    hot = Sampling(temperature=1.0, seed=11)
    engine.submit("hello world", max_new_tokens=9, ignore_eos=True)
    engine.submit("hello wo", max_new_tokens=6, n=3, sampling=hot, arrival_step=1, ignore_eos=True)
    engine.submit("中文", max_new_tokens=12, arrival_step=2, ignore_eos=True)
    with pytest.raises(ValueError, match="pool has 9"):
        engine.submit("x" * 30, max_new_tokens=30)
    for _ in range(4):
        engine.step()
    engine.submit("hello world", max_new_tokens=3, ignore_eos=True)
    for _ in range(6):
        engine.step()
    engine.cancel("r2")
    return engine


def test_same_seed_same_trace(tiny: Any, tmp_path: Path) -> None:
    """Rule 9, and what is saved is what is loaded."""
    first, second = busy(tiny), busy(tiny)
    run(first)
    run(second)
    assert first_difference(first.trace, second.trace) is None
    assert same_but_for_times(first.trace, second.trace)
    path = tmp_path / "t.kvtrace.json.gz"
    save(first.trace, path)
    assert first_difference(load(path), first.trace) is None
    other = Engine(tiny("llama"), EngineConfig(seed=4))
    other.submit("hello world", max_new_tokens=9)
    run(other)
    assert not same_but_for_times(other.trace, first.trace)


def test_what_the_trace_says(tiny: Any) -> None:
    engine = busy(tiny)
    steps = run(engine)
    trace, model = engine.trace, tiny("llama")
    meta = trace.meta
    assert meta["model"] == {
        "name": "tiny-llama", "sha256": "tiny-llama-0", "dtype": "float32", "layers": 3,
        "query_heads": 4, "kv_heads": 2, "head_dim": 12,
    }  # fmt: skip
    assert (meta["block_size"], meta["num_blocks"], meta["seed"], meta["scenario"]) == (4, 9, 3, "busy")
    assert meta["bytes_per_token"] == model.geometry.bytes_per_token == engine.store.bytes_per_token
    assert meta["strategies"] == ["paged", *BUSY.strategies] and meta["app_version"] == __version__
    assert all([u.strategy for u in s.usage] == meta["strategies"] for s in steps)
    assert [s.index for s in steps] == list(range(len(steps)))
    occurring = {t for s in steps[-1].sequences for t in s.token_ids}
    assert occurring <= set(trace.tokens) and trace.tokens[104] == b"h"
    assert all(s.time_ms.forward > 0 for s in steps)
    for name in ("reject", "fork", "share", "write", "swap_out", "swap_in", "sample", "finish", "reserve"):
        assert count(steps, name), f"the run shows no {name}"
    seen = 0
    for step, (sequences, blocks) in zip(steps, replay(trace), strict=True):
        assert blocks == step.blocks
        assert sequences == tuple(replace(s, logprob=None) for s in step.sequences)
        seen += 1
    assert seen == len(steps)


def test_sample_texts_add_up_to_the_text(tiny: Any) -> None:
    engine = busy(tiny)
    steps = run(engine)
    said: dict[str, str] = {}
    for step in steps:
        for event in step.events:
            if event.name == "fork":
                said[event.child] = said.get(event.parent, "")
            if event.name == "sample":
                said[event.sequence] = said.get(event.sequence, "") + event.text
    for sequence in steps[-1].sequences:
        if EOS not in sequence.token_ids and not any(t >= 256 for t in sequence.token_ids):
            assert said.get(sequence.id, "") == engine.text(sequence.id)
    with pytest.raises(KeyError):
        engine.text("nobody")


def test_half_characters_are_held_back() -> None:
    """C4: no replacement mark for a character that is still incomplete; forks carry what is held back."""
    texts = Texts(ByteTokens())
    data = "中😃".encode()
    assert [texts.add("a", b) for b in data[:2]] == ["", ""]
    texts.fork("a", "b")
    assert texts.add("a", data[2]) == texts.add("b", data[2]) == "中"
    assert [texts.add("a", b) for b in data[3:]] == ["", "", "", "😃"]
    assert [texts.add("b", b) for b in (0xE4, 0x41)] == ["", "\ufffdA"], "the model's own fault shows"
    assert texts.add("b", EOS) == "<eos>"


def test_the_plan_stays_until_it_is_committed(tiny: Any) -> None:
    engine = Engine(tiny("llama"), EngineConfig())
    engine.submit("hello", max_new_tokens=4, ignore_eos=True)
    plan = engine.plan()
    assert engine.plan() is plan and engine.trace.steps == [] and engine.store.blocks.isnan().all()
    engine.submit("later", max_new_tokens=4, ignore_eos=True)
    assert engine.plan() is plan and engine.trace.requests[1].arrival_step == 1
    outcome = engine.run(plan)
    step = engine.commit(plan, outcome)
    assert step.index == 0 and engine.plan() is not plan and engine.plan().index == 1
    with pytest.raises(ValueError, match="not the pending plan"):
        engine.run(plan)
    with pytest.raises(ValueError, match="not the pending plan"):
        engine.commit(plan, outcome)
    assert Engine(tiny("llama"), EngineConfig()).step() is None


@pytest.mark.parametrize("where", ["before", "between", "after"])
def test_a_failed_run_may_be_repeated(tiny: Any, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every third run fails once, before the moves, after them, or after the forward pass."""
    wanted = busy(tiny)
    run(wanted)
    calls = {"n": 0}

    def failing(real: Any) -> Any:
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            calls["n"] += 1
            if where != "after" and calls["n"] % 3 == 1:
                raise RuntimeError("out of luck")
            result = real(*args, **kwargs)
            if where == "after" and calls["n"] % 3 == 1:
                raise RuntimeError("out of luck")
            return result

        return wrapper

    name = {"before": "pack", "between": "forward", "after": "choose"}[where]
    monkeypatch.setattr(engine_module, name, failing(getattr(engine_module, name)))

    class Retrying(Engine):
        def run(self, plan: Any) -> Outcome:
            try:
                return super().run(plan)
            except RuntimeError:
                return super().run(plan)

    monkeypatch.setattr(__import__(__name__, fromlist=["Engine"]), "Engine", Retrying)
    engine = busy(tiny)
    run(engine)
    assert calls["n"] > len(engine.trace.steps)
    assert same_but_for_times(engine.trace, wanted.trace)


def test_moves_are_not_repeated(tiny: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A block that was swapped out is another's by the time the run is repeated."""
    engine = Engine(
        tiny("llama"), EngineConfig(num_blocks=6, preempt="swap", host_blocks=8, strategies=()), prove=True
    )
    for start in (60, 90):
        engine.submit(list(range(start, start + 8)), max_new_tokens=12, ignore_eos=True)
    while engine.has_work:
        plan = engine.plan()
        outcome = engine.run(plan)
        assert engine.run(plan) == outcome, "a repeated run gives the same"
        engine.commit(plan, outcome)
    assert count(engine.trace.steps, "swap_out") and worst(engine.trace.steps) <= 1e-4


@pytest.mark.parametrize(
    ("prompt", "new", "decodes", "blocks"),
    [(4, 1, 0, 1), (4, 5, 4, 2), (3, 1, 0, 1), (8, 2, 1, 3), (1, 1, 0, 1)],
)
def test_the_last_token_needs_no_slot(tiny: Any, prompt: int, new: int, decodes: int, blocks: int) -> None:
    """A18: G tokens after G - 1 decode steps, and no block for a token that is never written."""
    engine = Engine(tiny("llama"), EngineConfig(num_blocks=blocks, strategies=()))
    engine.submit([7] * prompt, max_new_tokens=new, ignore_eos=True)
    steps = run(engine)
    assert [s.kind for s in steps] == ["prefill"] + ["decode"] * decodes
    assert len(generated(engine, "r0.0")) == new
    assert count(steps, "allocate") == blocks
    assert steps[-1].sequences[0].written == prompt + new - 1


def test_odd_sizes(tiny: Any) -> None:
    """A24: block size 1 to 64, one block, one token."""
    wanted = None
    for block_size in (1, 2, 3, 5, 8, 16, 64):
        engine = Engine(tiny("gpt2"), EngineConfig(block_size=block_size, num_blocks=-(-12 // block_size)))
        engine.submit([5, 6, 7], max_new_tokens=10, ignore_eos=True)
        run(engine)
        wanted = wanted or generated(engine, "r0.0")
        assert generated(engine, "r0.0") == wanted
    single = Engine(tiny("gpt2"), EngineConfig(block_size=1, num_blocks=1))
    single.submit([5], max_new_tokens=1, ignore_eos=True)
    run(single)
    assert len(generated(single, "r0.0")) == 1


def test_a_pool_that_does_not_fit(tiny: Any) -> None:
    with pytest.raises(PoolTooLarge, match=r"1,048,576 blocks of 64 tokens take [\d,.]+ MiB"):
        Engine(tiny("llama", num_hidden_layers=12), EngineConfig(num_blocks=1 << 20, block_size=64))


def test_gradients_and_modes_of_the_caller_do_not_matter(tiny: Any) -> None:
    with torch.enable_grad():
        engine = Engine(tiny("llama"), EngineConfig(), prove=True)
        engine.submit("hello", max_new_tokens=4, ignore_eos=True)
        assert worst(run(engine)) <= 1e-4
    assert not engine.store.blocks.requires_grad


def test_the_version_is_the_projects() -> None:
    text = (Path(__file__).parents[2] / "pyproject.toml").read_text()
    assert f'version = "{__version__}"' in text
