"""GGUF to a folder: the same weights, tied once, the tokenizer kept, nothing random (case C9)."""

from __future__ import annotations

import json

import pytest
import torch

from core.models.convert import STEPS, convert
from core.models.errors import FetchError


@pytest.fixture(scope="module")
def converted(tmp_path_factory):
    from tests.models.tiny_gguf import write_tiny_gguf

    folder = tmp_path_factory.mktemp("gguf")
    original = write_tiny_gguf(folder / "tiny.gguf")
    calls = []
    convert(folder / "tiny.gguf", folder / "out", lambda *call: calls.append(call))
    return original, folder / "out", calls


def test_logits_are_the_originals(converted):
    from core.models import load

    original, folder, _ = converted
    ids = torch.tensor([[5, 250, 13, 99, 0]])
    loaded = load(folder)
    assert torch.equal(loaded.model(ids).logits, original(ids).logits)
    assert loaded.geometry.dtype == "float32" and loaded.eos_token_ids == {257}


def test_tied_embeddings_are_saved_once_and_tied_when_loaded(converted):
    from safetensors import safe_open

    from core.models import load

    _, folder, _ = converted
    with safe_open(folder / "model.safetensors", "pt") as file:
        assert "lm_head.weight" not in set(file.keys())
    model = load(folder).model
    assert model.lm_head.weight.data_ptr() == model.get_input_embeddings().weight.data_ptr()


def test_nothing_of_gguf_is_left_in_the_config(converted):
    config = json.loads((converted[1] / "config.json").read_text())
    assert "quantization_config" not in config and config["dtype"] == "float32"


def test_progress_counts_every_step(converted):
    assert converted[2] == [("convert", n, STEPS) for n in range(STEPS + 1)]


def test_a_missing_weight_is_refused(tmp_path, monkeypatch):
    import gguf

    from tests.models.tiny_gguf import write_tiny_gguf

    add = gguf.GGUFWriter.add_tensor
    leave_out = "blk.1.ffn_up.weight"
    monkeypatch.setattr(
        gguf.GGUFWriter, "add_tensor", lambda self, name, data: name == leave_out or add(self, name, data)
    )
    write_tiny_gguf(tmp_path / "tiny.gguf")
    with pytest.raises(FetchError, match=r"lacks 1 weights, model\.layers\.1\.mlp\.up_proj\.weight"):
        convert(tmp_path / "tiny.gguf", tmp_path / "out", lambda *_: None)
