"""A model by hub id from a mirror (HF_ENDPOINT): config first, safetensors only, one sentence on failure."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import partial

import huggingface_hub
import pytest

from core.models import FetchError, UnsupportedModel
from core.models.hub import snapshot
from tests.models.fake_hub import FakeHub
from tests.tiny import save_tiny

NAME = "somebody/model"
CODE = f"""
from core.models import load
model = load("{NAME}")
print(model.name, model.geometry.layers, model.tokens.text(model.tokens.encode("ok")))
"""


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A hub with one model: in this process the only one, and what it gives is kept in the test's folder."""
    hub = FakeHub(save_tiny(tmp_path / "model", "llama"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    near = partial(huggingface_hub.snapshot_download, endpoint=hub.url, cache_dir=tmp_path / "hf" / "hub")
    monkeypatch.setattr(huggingface_hub, "snapshot_download", near)
    yield hub
    hub.close()


def refused(error: type[Exception], name: str = NAME) -> str:
    """The sentence that asking for the model ends with."""
    with pytest.raises(error) as caught:
        snapshot(name, lambda *_: None)
    text = str(caught.value)
    assert "\n" not in text and text.endswith(".")
    return text


def test_from_a_mirror_and_then_without_it(hub, tmp_path):
    # A fresh process: the variable is read when the hub's client is imported.
    env = {**os.environ, "HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path / "hf")}
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, env=env)
    assert done.stdout == f"{NAME} 3 ok\n", done.stderr
    wanted = [path.rpartition("/")[2] for path in hub.asked if "/resolve/" in path]
    assert wanted.index("config.json") < wanted.index("model.safetensors")
    hub.close()
    folder = snapshot(NAME, lambda *_: None)  # out of the hub's own cache
    assert (folder / "model.safetensors").read_bytes() == (hub.folder / "model.safetensors").read_bytes()


def test_refused_before_its_weights_are_fetched(hub):
    config = json.loads((hub.folder / "config.json").read_text())
    (hub.folder / "config.json").write_text(json.dumps({**config, "num_kv_shared_layers": 2}))
    assert refused(UnsupportedModel).startswith("LlamaForCausalLM (llama) cannot be paged here")
    assert not any(path.endswith(".safetensors") for path in hub.asked)


def test_without_safetensors(hub):
    (hub.folder / "model.safetensors").rename(hub.folder / "pytorch_model.bin")
    assert "no weights in the safetensors format" in refused(FetchError)
    assert not any(path.endswith(".bin") for path in hub.asked)


def test_no_such_model(hub):
    assert refused(FetchError, "nobody/nothing").startswith("the hub has no model nobody/nothing")


def test_a_hub_that_is_not_reached(hub):
    hub.close()
    text = refused(FetchError)
    assert text.startswith(f"{NAME} could not be fetched from the hub") and "HF_ENDPOINT" in text
