"""The bridge: the model's own layers over the paged store, exact, and loud where it cannot be."""

import threading
from dataclasses import replace
from typing import Any

import pytest
import torch

from core.engine import bridge, selftest
from core.engine import prepare as prepare_module
from core.engine.batch import pack
from core.engine.bridge import forward
from core.engine.dense import dense_logits, prove
from core.engine.errors import BridgeError
from core.engine.plan import Scheduled
from core.engine.selftest import self_test
from core.engine.store import KVStore
from core.models.errors import UnsupportedModel
from tests.tiny import ARCHITECTURES, VOCAB_SIZE, WINDOW


def part(tokens: list[int], start: int, table: tuple[int, ...], samples: int = 1) -> Scheduled:
    return Scheduled(
        sequence="r0.0",
        request="r0",
        start=start,
        token_ids=tuple(tokens),
        block_table=table,
        num_samples=samples,
    )


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_self_test_passes(tiny: Any, arch: str, dtype: str) -> None:
    difference = self_test(tiny(arch, dtype=dtype))
    assert difference < (2e-5 if dtype == "float32" else 0.5)


def test_self_test_refuses_other_logits(tiny: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    real = selftest.forward
    monkeypatch.setattr(selftest, "forward", lambda *args: real(*args) + 0.1)
    with pytest.raises(UnsupportedModel, match=r"largest difference 0\.1"):
        self_test(tiny("llama"))
    monkeypatch.setattr(selftest, "forward", lambda *args: real(*args) * float("nan"))
    with pytest.raises(UnsupportedModel, match="largest difference nan"):
        self_test(tiny("llama"))


def test_self_test_refuses_flat_logits(tiny: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selftest, "dense_logits", lambda *args, **kw: torch.zeros(4, VOCAB_SIZE))
    with pytest.raises(UnsupportedModel, match="weights are missing"):
        self_test(tiny("llama"))


@pytest.mark.parametrize("arch", ["mistral", "gemma3_text"])
@pytest.mark.parametrize("length", [WINDOW - 1, WINDOW, WINDOW + 1, WINDOW + 2, 3 * WINDOW])
def test_window_edges_in_prefill_and_decode(tiny: Any, arch: str, length: int) -> None:
    """B11: HF's window counts the token itself, in prefill and in decode."""
    model = tiny(arch)
    tokens = [(31 * i + 7) % 250 for i in range(length)]
    wanted = dense_logits(model, tokens)
    table = (5, 2, 7, 0, 4, 1, 3, 6)
    whole = forward(model, KVStore(8, 4, model.geometry), pack([part(tokens, 0, table)], 4, "cpu"))
    store = KVStore(8, 4, model.geometry)
    forward(model, store, pack([part(tokens[:-1], 0, table, 0)], 4, "cpu"))
    decoded = forward(model, store, pack([part(tokens[-1:], length - 1, table)], 4, "cpu"))
    assert float((whole - wanted).abs().max()) < 2e-5
    assert float((decoded - wanted).abs().max()) < 2e-5


def test_later_tokens_do_not_reach_earlier_ones(tiny: Any) -> None:
    """C1: with no mask registered causality must still hold."""
    model = tiny("llama")

    def rows(tokens: list[int]) -> torch.Tensor:
        store = KVStore(4, 4, model.geometry)
        steps = [part(tokens, 0, (1, 3), 1)]
        packed = pack(steps, 4, "cpu")
        every = replace(packed, last_rows=torch.arange(len(tokens)))
        return forward(model, store, every)

    one, other = rows([5, 6, 7, 8, 9]), rows([5, 6, 7, 8, 200])
    assert torch.equal(one[:4], other[:4]) and not torch.allclose(one[4], other[4])


def test_two_new_tokens_after_four_cached(tiny: Any) -> None:
    """C3: new token i sees 4 + i + 1 keys, not i + 1 and not 6."""
    model = tiny("qwen3")
    tokens = [11, 12, 13, 14, 15, 16]
    store = KVStore(3, 4, model.geometry)
    forward(model, store, pack([part(tokens[:4], 0, (2, 0), 0)], 4, "cpu"))
    packed = replace(pack([part(tokens[4:], 4, (2, 0))], 4, "cpu"), last_rows=torch.tensor([0, 1]))
    assert float((forward(model, store, packed) - dense_logits(model, tokens, last=2)).abs().max()) < 2e-5


def test_alone_and_packed_with_longer_ones(tiny: Any) -> None:
    """C8: prompts of 3 and 11 tokens in one batch keep their own positions."""
    model = tiny("gpt2")
    short, long = [1, 2, 3], list(range(40, 51))
    store = KVStore(8, 4, model.geometry)
    both = pack([part(short, 0, (7,)), part(long, 0, (1, 6, 3))], 4, "cpu")
    logits = forward(model, store, both)
    for got, tokens in zip(logits, (short, long), strict=True):
        assert float((got - dense_logits(model, tokens)[0]).abs().max()) < 2e-5


def test_only_scheduled_slots_are_written(tiny: Any) -> None:
    """B10: everything else keeps its NaN."""
    model = tiny("llama")
    store = KVStore(5, 4, model.geometry)
    forward(model, store, pack([part([1, 2, 3, 4, 5, 6], 0, (4, 1))], 4, "cpu"))
    written = ~store.blocks.isnan()
    assert written[4].all() and written[1, :, :, :2].all() and not written[1, :, :, 2:].any()
    assert not written[[0, 2, 3]].any()


def test_calls_outside_the_engine_are_refused(tiny: Any) -> None:
    model = tiny("llama")
    ids = torch.tensor([[1, 2, 3]])
    with model.lock:
        bridge.use(model, bridge.NAME)
        with pytest.raises(BridgeError, match="without a pool"):
            model.model(input_ids=ids, use_cache=False)
        bridge.use(model, bridge.DENSE)
        assert model.model(input_ids=ids, use_cache=False).logits.isfinite().all()


def test_a_layer_that_goes_past_the_pool_is_noticed(tiny: Any) -> None:
    model = tiny("llama")
    more = replace(model, geometry=replace(model.geometry, layers=4, windows=(None,) * 4))
    store = KVStore(2, 4, more.geometry)
    with pytest.raises(BridgeError, match="3 of 4 layers"):
        forward(more, store, pack([part([1, 2], 0, (0,))], 4, "cpu"))


def test_a_hundred_steps_in_a_worker_thread(tiny: Any) -> None:
    """D5: inference mode belongs to the thread that runs the step."""
    model = tiny("llama")
    store = KVStore(26, 4, model.geometry)
    results: list[torch.Tensor] = []

    def work() -> None:
        for i in range(100):
            results.append(forward(model, store, pack([part([i], i, tuple(range(26)))], 4, "cpu")))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert len(results) == 100 and not any(r.requires_grad or r.grad_fn for r in results)
    assert not store.blocks.requires_grad


def test_proof(tiny: Any) -> None:
    model = tiny("llama")
    tokens = [3, 4, 5, 6, 7]
    logits = dense_logits(model, tokens)[0]
    good = prove(model, [("a", tokens, logits + 1e-6)])
    assert good is not None and good.same_argmax and good.max_abs_logit_diff < 1e-5
    bad = prove(model, [("a", tokens, logits), ("b", tokens, -logits)])
    assert bad is not None and not bad.same_argmax and bad.max_abs_logit_diff > 1
    assert bad.by_sequence == {"a": 0.0, "b": bad.max_abs_logit_diff}
    nan = prove(model, [("a", tokens, logits * float("nan"))])
    assert nan is not None and nan.max_abs_logit_diff > 1e300
    assert prove(model, []) is None


def test_a_model_is_prepared_once(tiny: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny("llama", seed=77)
    calls: list[Any] = []
    monkeypatch.setattr(prepare_module, "self_test", calls.append)
    threads = [threading.Thread(target=prepare_module.prepare, args=(model,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert calls == [model]
