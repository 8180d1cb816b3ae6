"""Fetching: resumed, checked, atomic; and one sentence for each thing that can go wrong."""

from __future__ import annotations

import errno
import importlib
import re
from dataclasses import replace
from pathlib import Path

import pytest

from core.models import cache, download
from core.models.errors import FetchError, TermsNotAccepted
from core.models.fetch import fetch_entry
from core.models.registry import MODELS
from tests.models.conftest import GGUF
from tests.models.fake_index import TERMS, make_entry, make_wheel

fetch_module = importlib.import_module("core.models.fetch")
pytestmark = pytest.mark.usefixtures("no_conversion")


def quiet(*_: object) -> None: ...


def one_sentence(error: pytest.ExceptionInfo[BaseException]) -> str:
    text = str(error.value)
    assert "\n" not in text and text.endswith(".") and not re.search(r"[a-z]\. [A-Z]", text), text
    return text


def homes_files() -> set[str]:
    """What is in the cache, but for locks."""
    home = cache.home()
    return {str(p.relative_to(home)) for p in home.rglob("*") if p.is_file() and p.suffix != ".lock"}


def test_a_model_is_fetched_whole_and_only_once(index, model):
    calls = []
    folder = fetch_entry(model, lambda *call: calls.append(call))
    assert (folder / "weights").read_bytes() == GGUF
    assert homes_files() == {"models/tiny/weights", "models/tiny/source.json"}  # nothing else is left
    downloaded = [done for stage, done, _ in calls if stage == "download"]
    assert downloaded == sorted(downloaded) and downloaded[-1] == model.download_size
    assert calls[-1] == ("unpack", len(GGUF), len(GGUF))
    asked = len(index.asked)
    index.close()  # the second time, no network is needed
    assert fetch_entry(model, quiet) == folder
    assert len(index.asked) == asked


@pytest.mark.usefixtures("known_address")
def test_cut_connections_are_resumed(index, model):
    index.cut_after = 300_000
    assert (fetch_entry(model, quiet) / "weights").read_bytes() == GGUF
    assert index.connections == [None, "bytes=300000-", "bytes=600000-", "bytes=900000-"]
    assert index.sent == model.download_size  # no byte came twice


@pytest.mark.usefixtures("known_address")
def test_a_server_without_ranges_starts_over(index, model):
    partial = cache.home() / "downloads" / f"{model.packages[0].sha256}.whl.partial"
    partial.parent.mkdir(parents=True)
    partial.write_bytes(b"half of an older try")
    index.ranges = False
    assert (fetch_entry(model, quiet) / "weights").read_bytes() == GGUF
    assert index.connections == ["bytes=20-"]


def test_where_only_pip_gets_in_pip_fetches(index, model):
    index.only_pip = True
    calls = []
    assert (fetch_entry(model, lambda *call: calls.append(call)) / "weights").read_bytes() == GGUF
    assert homes_files() == {"models/tiny/weights", "models/tiny/source.json"}


def test_a_folder_of_wheels_will_do(index, model, tmp_path, monkeypatch):
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    assert (fetch_entry(model, quiet) / "weights").read_bytes() == GGUF
    assert index.asked == []


@pytest.mark.usefixtures("known_address")
def test_a_damaged_wheel_is_not_kept(index, model):
    bad = replace(model, packages=(replace(model.packages[0], sha256="0" * 64),))
    with pytest.raises(FetchError, match=r"tiny-weights 1\.0 arrived damaged") as error:
        fetch_entry(bad, quiet)
    one_sentence(error)
    assert homes_files() == set()


@pytest.mark.usefixtures("known_address")
def test_a_partial_file_of_other_bytes_is_thrown_away(index, model):
    partial = cache.home() / "downloads" / f"{model.packages[0].sha256}.whl.partial"
    partial.parent.mkdir(parents=True)
    partial.write_bytes(b"x" * 1000)
    with pytest.raises(FetchError, match="arrived damaged"):
        fetch_entry(model, quiet)
    assert (fetch_entry(model, quiet) / "weights").read_bytes() == GGUF


@pytest.mark.usefixtures("known_address")
def test_other_weights_in_the_package_are_not_used(index, model):
    with pytest.raises(FetchError, match="wrong checksum") as error:
        fetch_entry(replace(model, gguf_sha256="0" * 64), quiet)
    one_sentence(error)
    assert not (cache.home() / "models").exists()
    assert list((cache.home() / "building").iterdir()) == []


@pytest.mark.usefixtures("known_address")
def test_a_failed_conversion_leaves_no_model(index, model, monkeypatch):
    def fail(gguf, folder, progress):
        folder.mkdir()
        (folder / "weights").write_bytes(b"half")
        raise FetchError("no.")

    with monkeypatch.context() as patched:
        patched.setattr(fetch_module, "convert", fail)
        with pytest.raises(FetchError):
            fetch_entry(model, quiet)
    assert not any(name.startswith(("models/", "building/")) for name in homes_files())
    index.close()  # the wheel was kept, so no network is needed for the next try
    assert (fetch_entry(model, quiet) / "weights").read_bytes() == GGUF


@pytest.mark.usefixtures("known_address")
@pytest.mark.parametrize("damage", ["truncated", "missing", "no record", "half a record", "other weights"])
def test_a_damaged_folder_is_not_used_but_made_anew(index, model, damage):
    folder = fetch_entry(model, quiet)
    if damage == "truncated":
        (folder / "weights").write_bytes(GGUF[:-1])
    elif damage == "missing":
        (folder / "weights").unlink()
    elif damage == "no record":
        (folder / "source.json").unlink()
    elif damage == "half a record":
        (folder / "source.json").write_text((folder / "source.json").read_text()[:40])
    else:
        text = (folder / "source.json").read_text()
        (folder / "source.json").write_text(text.replace(model.gguf_sha256, "f" * 64))
    assert (fetch_entry(model, quiet) / "weights").read_bytes() == GGUF
    assert index.connections == [None, None]


def test_a_full_disk_is_told_before_anything_is_fetched(index, model, monkeypatch):
    monkeypatch.setattr(cache.shutil, "disk_usage", lambda _: type("Usage", (), {"free": 5_000_000}))
    with pytest.raises(FetchError) as error:
        fetch_entry(replace(model, converted_size=700_000_000), quiet)
    assert "needs 702 MB free" in one_sentence(error) and "there are 5 MB" in str(error.value)
    assert index.asked == []


@pytest.mark.usefixtures("known_address")
def test_a_disk_that_fills_up_on_the_way(index, model, monkeypatch):
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(download, "_continue", full)
        with pytest.raises(FetchError, match="the disk is full") as error:
            fetch_entry(model, quiet)
    one_sentence(error)
    assert (fetch_entry(model, quiet) / "weights").read_bytes() == GGUF


def test_a_cache_folder_that_cannot_be(index, model, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("PAGED_KV_HOME", str(tmp_path / "file" / "home"))
    with pytest.raises(FetchError, match="cannot be written") as error:
        fetch_entry(model, quiet)
    one_sentence(error)


def test_no_network(index, model):
    index.close()
    with pytest.raises(FetchError, match="no package index could be reached") as error:
        fetch_entry(model, quiet)
    assert "tiny-weights==1.0" in one_sentence(error)


def test_a_network_that_ends_on_the_way(index, model, monkeypatch):
    monkeypatch.setattr(download, "TRIES", 2)
    monkeypatch.setattr(download.index, "address", lambda package: f"{index.url}/../gone.whl")
    index.listed = False
    with pytest.raises(FetchError) as error:
        fetch_entry(model, quiet)
    one_sentence(error)


def test_an_index_without_the_package(index, model):
    index.listed = False
    with pytest.raises(FetchError, match=r"did not give tiny-weights==1\.0") as error:
        fetch_entry(model, quiet)
    one_sentence(error)


def test_a_python_without_pip(index, model, monkeypatch, tmp_path):
    fake = tmp_path / "python"
    fake.write_text("#!/bin/sh\necho 'No module named pip' >&2\nexit 1\n")
    fake.chmod(0o755)
    monkeypatch.setattr(download.index.sys, "executable", str(fake))
    with pytest.raises(FetchError, match="ensurepip") as error:
        fetch_entry(model, quiet)
    one_sentence(error)


@pytest.mark.usefixtures("known_address")
def test_terms_come_first(index, tmp_path, monkeypatch):
    model = make_entry(make_wheel(tmp_path / "wheels", GGUF), GGUF, terms_member=TERMS)
    with pytest.raises(TermsNotAccepted, match="Tiny Terms") as error:
        fetch_entry(model, quiet)
    one_sentence(error)
    assert index.asked == []
    monkeypatch.setattr(fetch_module, "entry", lambda name: model)
    assert fetch_module.terms("tiny") == "Terms\nBe kind."
    folder = fetch_entry(model, quiet, accept_terms=True)
    assert fetch_entry(model, quiet) == folder  # once accepted and here, no question again
    assert len(index.connections) == 1  # the wheel with the terms was kept


def test_an_unknown_name():
    with pytest.raises(ValueError, match="smollm2-135m-instruct, gemma-3-270m") as error:
        fetch_module.fetch("llama-9000b")
    one_sentence(error)


def test_the_registry_adds_up():
    for model in MODELS.values():
        assert model.download_size < model.gguf_size < model.converted_size
        hashes = [model.gguf_sha256, *(p.sha256 for p in model.packages)]
        assert all(re.fullmatch("[0-9a-f]{64}", h) for h in hashes)
        assert any(p.members for p in model.packages)


def test_no_host_is_named_in_the_code():
    for file in Path(fetch_module.__file__).parent.glob("*.py"):
        found = re.search(r"https?://|pypi|pythonhosted|huggingface\.co|\.(org|com|cn)\b", file.read_text())
        assert not found, (file, found)
