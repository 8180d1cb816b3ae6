"""The tiny models are what the other rooms' tests stand on: shapes true, logits not flat, bytes exact."""

from __future__ import annotations

import pytest
import torch

from tests.tiny import ARCHITECTURES, BOS, WINDOW, ByteTokens, tiny_tokenizer

TEXTS = ["你好，世界", "😃", "👨‍👩‍👧‍👦", "ďábelské", "def f(x):\n\treturn x", "a  b", ""]


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_geometry_is_that_of_the_key_projection(tiny, arch):
    loaded = tiny(arch)
    kv = loaded.model(torch.tensor([[1, 2, 3]]), use_cache=True).past_key_values
    g = loaded.geometry
    assert [tuple(layer.keys.shape) for layer in kv.layers] == [(1, g.kv_heads, 3, g.head_dim)] * g.layers


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_logits_depend_on_the_prompt(tiny, arch):
    logits = tiny(arch).model(torch.tensor([[1, 2, 3], [7, 8, 9]])).logits[:, -1]
    assert logits.std(-1).min() > 0.3
    assert (logits[0] - logits[1]).abs().max() > 0.5


def test_windows(tiny):
    assert tiny("gemma3_text").geometry.windows == (WINDOW, WINDOW, None)
    assert tiny("mistral").geometry.windows == (WINDOW,) * 3
    assert tiny("qwen2").geometry.windows == (None,) * 3
    assert tiny("llama").geometry.windows == (None,) * 3


@pytest.mark.parametrize("text", TEXTS)
def test_byte_tokens_and_the_saved_tokenizer_agree(text):
    ids = ByteTokens().encode(text)
    assert ids == (tiny_tokenizer().encode(text) or [BOS])
    assert ByteTokens().text(ids) == text


def test_an_incomplete_character_is_held_back():
    ids = ByteTokens().encode("a😃b")
    assert [ByteTokens().text(ids[:n]) for n in range(7)] == ["", "a", "a", "a", "a", "a😃", "a😃b"]
