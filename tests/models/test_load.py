"""Loading: checked before use, once a process, end tokens from everywhere (cases C5, C6, C9, D4)."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
import torch

from core.models import load
from core.models.errors import FetchError, UnsupportedModel
from core.models.load import Library, eos_ids
from core.models.registry import MODELS
from tests.tiny import ARCHITECTURES, save_tiny, tiny_module


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_a_local_folder(tmp_path, arch):
    loaded = load(save_tiny(tmp_path / "mine", arch))
    ids = torch.tensor([[1, 2, 3, 200]])
    assert torch.equal(loaded.model(ids).logits, tiny_module(arch)(ids).logits)
    assert loaded.name == "mine" and loaded.device == "cpu" and len(loaded.sha256) == 64
    assert not loaded.model.training and not any(p.requires_grad for p in loaded.model.parameters())
    assert loaded.tokens.encode("é") == [0xC3, 0xA9]
    assert loaded.eos_token_ids == {257}
    layer = loaded.model(ids, use_cache=True).past_key_values.layers[0].keys
    assert (loaded.geometry.kv_heads, loaded.geometry.head_dim) == (layer.shape[1], layer.shape[3])


def test_dtypes_are_separate_models_and_the_same_is_the_same(tmp_path):
    folder = save_tiny(tmp_path / "m", "llama")
    first = load(folder)
    assert load(str(folder)) is first
    half = load(folder, dtype="bfloat16")
    assert half is not first and half.model.dtype == torch.bfloat16 and half.geometry.dtype == "bfloat16"
    assert first.geometry.bytes_per_token == 2 * half.geometry.bytes_per_token == 2 * 3 * 2 * 12 * 4


def test_ten_threads_load_once():
    made, waited = [], []

    def make():
        made.append(threading.get_ident())
        time.sleep(0.3)
        return SimpleNamespace(name="m")

    library = Library()
    with ThreadPoolExecutor(20) as pool:
        keys = [("m", "float32", "cpu"), ("m", "bfloat16", "cpu")] * 10
        models = list(pool.map(lambda key: library.get(key, make, lambda *c: waited.append(c)), keys))
    assert len(made) == 2 and len({id(m) for m in models}) == 2
    assert waited == [("wait", 0, 0)] * 18


def test_a_failure_is_not_kept():
    library, tries = Library(), []

    def make():
        tries.append(1)
        if len(tries) == 1:
            raise FetchError("no network.")
        return SimpleNamespace()

    with pytest.raises(FetchError):
        library.get(("m", "", ""), make, print)
    assert library.get(("m", "", ""), make, print) is library.get(("m", "", ""), make, print)
    assert len(tries) == 2


def test_the_model_not_asked_for_the_longest_is_let_go():
    library, made = Library(max_loaded=2), []

    def get(name):
        return library.get((name, "", ""), lambda: made.append(name) or SimpleNamespace(), print)

    for name in "abacab":
        get(name)
    assert made == ["a", "b", "c", "b"]


def test_loaded_objects_are_frozen_out_of_garbage_collection(tmp_path):
    before = gc.get_freeze_count()
    load(save_tiny(tmp_path / "frozen", "gpt2"))
    assert gc.get_freeze_count() > before


def test_a_weight_that_is_not_in_the_files_is_refused(tmp_path):
    from safetensors.torch import load_file, save_file

    folder = save_tiny(tmp_path / "m", "qwen3")
    weights = load_file(folder / "model.safetensors")
    del weights["model.layers.1.mlp.up_proj.weight"]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(UnsupportedModel, match=r"1 weights .* \(model\.layers\.1\.mlp\.up_proj\.weight"):
        load(folder)


@pytest.mark.parametrize(("value", "words"), [(0.0, "the same probability"), (float("nan"), "not numbers")])
def test_an_output_table_that_is_not_filled_is_refused(tmp_path, value, words):
    from safetensors.torch import load_file, save_file

    folder = save_tiny(tmp_path / "m", "llama", tie_word_embeddings=False)
    weights = load_file(folder / "model.safetensors")
    weights["lm_head.weight"].fill_(value)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(UnsupportedModel, match=words):
        load(folder)


def test_a_truncated_weight_file_is_refused(tmp_path):
    folder = save_tiny(tmp_path / "m", "llama")
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(ValueError, match="cannot be read") as error:
        load(folder)
    assert "\n" not in str(error.value)


def test_an_empty_folder_and_names_that_are_nothing(tmp_path):
    with pytest.raises(ValueError, match="cannot be read"):
        load(tmp_path)
    for name in ("smollm3", "/no/such/folder", "a/b/c"):
        with pytest.raises(ValueError, match="no packaged model") as error:
            load(name)
        assert name in str(error.value)


def test_dtype_and_device_are_checked():
    with pytest.raises(ValueError, match="dtype is 'int8'"):
        load("smollm2-135m-instruct", dtype="int8")
    for device in ("tpu9", "cuda:99", "mps"):
        with pytest.raises(ValueError, match="device is"):
            load("smollm2-135m-instruct", device=device)


def test_end_tokens_are_the_union_of_all_that_say_so():
    def says(eos):
        return SimpleNamespace(eos_token_id=eos)

    config = says([5, 6])
    config.get_text_config = lambda decoder: says(7)
    assert eos_ids(says(3), config, says([3, 4])) == {3, 4, 5, 6, 7}
    bare = says(None)
    bare.get_text_config = lambda decoder: bare
    assert eos_ids(says(None), bare, None) == frozenset()
    assert eos_ids(says(0), bare, None) == {0}


def test_two_end_tokens_in_the_generation_config_of_a_folder(tmp_path):
    folder = save_tiny(tmp_path / "m", "llama")
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [65, 66]}))
    assert load(folder).eos_token_ids == {257, 65, 66}


def test_importing_the_room_imports_no_torch():
    code = "import core.models, sys; print({'torch', 'transformers', 'streamlit'} & set(sys.modules))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "set()"


@pytest.mark.model
def test_the_packaged_models(smollm2, gemma):
    g = smollm2.geometry
    assert (g.layers, g.query_heads, g.kv_heads, g.head_dim, g.vocab_size) == (30, 9, 3, 64, 49152)
    assert g.bytes_per_token == 45 * 1024 and set(g.windows) == {None} and g.max_positions == 8192
    g = gemma.geometry
    assert (g.layers, g.query_heads, g.kv_heads, g.head_dim, g.vocab_size) == (18, 4, 1, 256, 262144)
    assert g.windows == ((512,) * 5 + (None,)) * 3
    for loaded in (smollm2, gemma):
        assert loaded.sha256 == MODELS[loaded.name].gguf_sha256
        tied = loaded.model.get_input_embeddings().weight
        assert loaded.model.get_output_embeddings().weight.data_ptr() == tied.data_ptr()
        assert loaded.model.num_parameters() == MODELS[loaded.name].parameters
    assert smollm2.eos_token_ids == {2} and gemma.eos_token_ids == {1}


@pytest.mark.model
def test_what_the_default_model_says(smollm2):
    ids = smollm2.tokens.encode("The history of China is very")
    with smollm2.lock, torch.inference_mode():
        out = smollm2.model.generate(torch.tensor([ids]), max_new_tokens=14, do_sample=False)[0].tolist()
    said = smollm2.tokens.text(out[len(ids) :])
    assert said == " long. It has been a multi-ethnic nation with a long history"


@pytest.mark.model
def test_the_capital_of_france(smollm2, gemma):
    """Case C9: a head that is not tied gives gibberish here."""
    for loaded in (smollm2, gemma):
        ids = torch.tensor([loaded.tokens.encode("The capital of France is")])
        with loaded.lock, torch.inference_mode():
            best = int(loaded.model(ids).logits[0, -1].argmax())
        assert loaded.tokens.token_bytes(best) in (b" Paris", b" a", b" the"), loaded.tokens.token_bytes(best)
