"""Bytes a token, slots on a card, requests at once: against figures known from elsewhere."""

from __future__ import annotations

import pytest

from core.compare.block_size import sweep
from core.compare.capacity import GIB, budget, fits, shape_of
from core.compare.catalogue import CARDS, MODELS
from core.compare.setups import OPT_13B, OPT_66B, OPT_175B
from core.compare.workload import ALPACA, Drawn, draw


@pytest.mark.parametrize(
    ("model", "kib"),
    [("OPT-13B", 800), ("Llama-2-7B", 512), ("Llama-2-13B", 800), ("Llama-3.1-8B", 128),
     ("Llama-3.1-70B", 320), ("Qwen2.5-7B", 56), ("SmolLM2-135M", 22.5), ("Qwen3-0.6B", 112)],
)  # fmt: skip
def test_bytes_a_token(model: str, kib: float) -> None:
    """2 x layers x kv_heads x head_dim x 2 bytes; KV heads, not query heads; head_dim as the config has
    it."""
    assert MODELS[model].bytes_per_token == kib * 1024


def test_table_1_of_the_paper() -> None:
    """12 GB, 21 GB and 264 GB for keys and values make 15.7K, 9.7K and 60.1K slots (the paper rounds)."""
    for setup, gib in ((OPT_13B, 12), (OPT_66B, 21), (OPT_175B, 264)):
        assert gib * GIB / setup.bytes_per_token == pytest.approx(setup.slots, rel=0.02)


def test_sliding_layers_hold_no_more_than_their_window() -> None:
    gemma = MODELS["Gemma 3 270M"]
    assert gemma.windows.count(None) == 3 and gemma.windows[5] is None
    per_layer = 2 * 1 * 256 * 2
    assert gemma.sequence_bytes(100) == 18 * 100 * per_layer
    assert gemma.sequence_bytes(2000) == (3 * 2000 + 15 * 512) * per_layer
    assert gemma.sequence_bytes(2001, block_size=16) == (3 * 2016 + 15 * 512) * per_layer


def test_shape_from_a_config() -> None:
    llama = shape_of({"num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
                      "hidden_size": 4096, "torch_dtype": "bfloat16", "model_type": "llama"})  # fmt: skip
    assert llama.bytes_per_token == MODELS["Llama-3.1-8B"].bytes_per_token
    explicit = shape_of({"num_hidden_layers": 28, "num_attention_heads": 16, "num_key_value_heads": 8,
                         "hidden_size": 1024, "head_dim": 128, "dtype": "float32"})  # fmt: skip
    assert explicit.head_dim == 128 and explicit.bytes_per_token == 2 * 28 * 8 * 128 * 4
    kinds = ["sliding_attention", "full_attention"] * 2
    mixed = shape_of({"num_hidden_layers": 4, "num_attention_heads": 4, "hidden_size": 64,
                      "sliding_window": 8, "layer_types": kinds})  # fmt: skip
    assert mixed.windows == (8, None, 8, None) and mixed.kv_heads == 4
    inner = {"num_hidden_layers": 1, "num_attention_heads": 2, "hidden_size": 8}
    wrapped = shape_of({"text_config": inner})
    assert (wrapped.layers, wrapped.head_dim) == (1, 4)
    gpt2 = shape_of({"n_layer": 12, "n_head": 12, "n_embd": 768})
    assert gpt2.bytes_per_token == MODELS["GPT-2"].bytes_per_token
    unused = shape_of({"num_hidden_layers": 2, "num_attention_heads": 2, "hidden_size": 8,
                       "sliding_window": 4, "use_sliding_window": False})  # fmt: skip
    assert unused.windows == (None, None)
    with pytest.raises(ValueError, match="does not say"):
        shape_of({"hidden_size": 8})


def test_how_many_requests_fit() -> None:
    shape, room = MODELS["OPT-13B"], 12 * GIB
    rows = {f.strategy: f for f in fits(shape, room, prompt=161, new=338, max_len=2048)}
    assert rows["reserve max"].requests == 7
    assert rows["reserve power of two"].requests == 15  # 161 + 511 -> 1,024
    assert rows["exact"].requests == 30  # 498 -> 512
    assert rows["promised pages"].requests == 30  # 498 -> 32 blocks of 16
    assert rows["paged"].requests == 46
    assert rows["paged"].live_share > 0.97 > rows["exact"].live_share > rows["reserve max"].live_share
    with pytest.raises(ValueError, match="max model length of 100"):
        fits(shape, room, prompt=90, new=20, max_len=100)


def test_budget_leaves_room_for_the_weights() -> None:
    shape, card = MODELS["Llama-3.1-8B"], CARDS["A100-40GB"]
    assert budget(shape, card) == pytest.approx(0.9 * 40 * GIB - 16.06e9)
    assert budget(shape, card, cards=2) > 2 * budget(shape, card)
    assert budget(MODELS["OPT-66B"], card) == 0.0


def test_block_size_sweep_by_hand() -> None:
    """One request, prompt 3, 4 new: it holds 3, 4, 5, 6 tokens. Blocks of 4: 1, 1, 2, 2."""
    (row,) = sweep([Drawn(0.0, 3, 4, 4)], (4,))
    assert row == (4, 6 / 4, 1 - 18 / 24, 6 / 4, 4 * 6 / 4)


def test_waste_grows_and_tables_shrink_with_the_block() -> None:
    """E1: the sweep must show a difference at every step, on ragged lengths."""
    rows = sweep(draw(ALPACA, 2000, 1.0))
    assert [r.waste for r in rows] == sorted({r.waste for r in rows})
    assert [r.entries for r in rows] == sorted({r.entries for r in rows}, reverse=True)
    assert rows[0].waste == 0.0


def test_a_17_token_prompt_wastes_two_thirds_of_a_half_full_pool() -> None:
    """E4: ten prompts of 17 tokens at block size 16 hold 320 slots, and 170 of them hold tokens."""
    (row,) = sweep([Drawn(0.0, 17, 1, 1)] * 10, (16,))
    assert row.wasted_slots == 15 and row.waste == pytest.approx(1 - 17 / 32)
