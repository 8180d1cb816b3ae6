"""``run`` on a tiny random model: what it prints, what it saves, and how it ends."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from core.cli import main, run
from core.engine.engine import Engine
from core.trace import load, same_but_for_times, verify


@pytest.fixture
def start(
    tiny: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    monkeypatch.setattr(run, "load_model", lambda name, **options: tiny("llama"))

    def call(*argv: str | Path) -> tuple[int, str, str]:
        code = main(["run", *map(str, argv)])
        out, err = capsys.readouterr()
        return code, out, err

    return call


def test_one_prompt(start: Any, tmp_path: Path) -> None:
    path = tmp_path / "t.kvtrace.json.gz"
    code, out, err = start("hello there", "--max-tokens", "6", "--ignore-eos", "--trace", path)
    assert (code, err) == (0, "")
    text, summary = out.rsplit("\n", 2)[0], out.splitlines()[-1]
    assert text.startswith("hello there")
    trace = load(path)
    assert verify(trace) is None
    assert len(trace.steps) == 6
    tokens, blocks, copies, speed = summary.split("; ")
    assert tokens == "6 tokens in 6 steps" and copies == "0 copies" and speed.endswith("tokens per second")
    taken = {e.block for s in trace.steps for e in s.events if e.name == "allocate"}
    assert blocks == f"at most {len(taken)} of 32 blocks of 4"


def test_show_and_prove(start: Any) -> None:
    code, out, _ = start(
        "hi", "--max-tokens", "3", "--ignore-eos", "--show", "--prove", "--free-order", "3,1"
    )
    assert code == 0
    assert out.count("── step ") == 3
    assert "block 3 is taken for r0.0, logical block 0" in out
    assert "same best token" in out.splitlines()[-1]


def test_many_answers_and_many_prompts(start: Any, tmp_path: Path) -> None:
    path = tmp_path / "t.kvtrace.json"
    code, out, _ = start(
        "one", "--prompt", "two", "--n", "2", "--max-tokens", "4", "--ignore-eos", "--trace", path
    )
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()[:-1]] == ["r0", "r0.0", "r0.1", "r1", "r1.0", "r1.1"]
    trace = load(path)
    assert [r.mode for r in trace.requests] == ["sample", "sample"]


def test_beams_come_best_first(start: Any) -> None:
    code, out, _ = start("one", "--beam", "3", "--max-tokens", "5")
    assert code == 0
    scores = [float(line.split("(score ")[1].split(")")[0]) for line in out.splitlines() if "(score" in line]
    assert len(scores) == 3 and scores == sorted(scores, reverse=True)


def test_requests_from_a_file(start: Any, tmp_path: Path) -> None:
    lines = tmp_path / "r.jsonl"
    lines.write_text(
        '{"prompt": "a b", "max_new_tokens": 3}\n{"prompt": "c", "arrival_step": 4, "n": 2}\n', "utf-8"
    )
    path = tmp_path / "t.kvtrace.json"
    code, _, _ = start("--requests", lines, "--max-tokens", "5", "--ignore-eos", "--trace", path)
    trace = load(path)
    assert code == 0 and verify(trace) is None
    assert [(r.max_new_tokens, r.arrival_step, r.n) for r in trace.requests] == [(3, 0, 1), (5, 4, 2)]
    arrivals = [s.index for s in trace.steps for e in s.events if e.name == "arrive"]
    assert arrivals == [0, 4]


def test_an_impossible_request_is_refused_and_the_others_run(start: Any, tmp_path: Path) -> None:
    lines = tmp_path / "r.jsonl"
    lines.write_text('{"prompt": "a", "max_new_tokens": 900}\n{"prompt": "b"}\n', "utf-8")
    path = tmp_path / "t.kvtrace.json"
    options = ("--max-tokens", "2", "--blocks", "4", "--ignore-eos", "--max-model-len", "64")
    code, out, err = start("--requests", lines, *options, "--trace", path)
    assert code == 1
    assert err.startswith("refused: r.jsonl, line 1: ") and err.count("\n") == 1
    assert out.startswith("b") and "2 tokens in 2 steps" in out
    assert verify(load(path)) is None


def test_a_pool_in_bytes(start: Any, tiny: Any, tmp_path: Path) -> None:
    per_token = tiny("llama").geometry.bytes_per_token
    path = tmp_path / "t.kvtrace.json"
    size = str(per_token * 8 * 10 + 1)
    assert start("a", "--max-tokens", "2", "--block-size", "8", "--pool-bytes", size, "--trace", path)[0] == 0
    assert load(path).meta["num_blocks"] == 10
    code, _, err = start("a", "--pool-bytes", str(per_token))
    assert code == 2 and "hold no block" in err


def test_the_same_run_twice_gives_the_same_trace(start: Any, tmp_path: Path) -> None:
    options = ("one", "--n", "3", "--max-tokens", "6", "--ignore-eos", "--seed", "7")
    for name in ("a", "b"):
        assert start(*options, "--trace", tmp_path / f"{name}.kvtrace.json")[0] == 0
    assert same_but_for_times(load(tmp_path / "a.kvtrace.json"), load(tmp_path / "b.kvtrace.json"))


def test_an_interrupt_keeps_the_trace_so_far(
    start: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, plain = tmp_path / "t.kvtrace.json.gz", Engine.step

    def step(engine: Engine) -> Any:
        if len(engine.trace.steps) == 3:
            raise KeyboardInterrupt
        return plain(engine)

    monkeypatch.setattr(Engine, "step", step)
    code, out, err = start("one", "--max-tokens", "9", "--ignore-eos", "--trace", path)
    assert code == 130
    assert "so far" in err and "3 tokens in 3 steps" in out
    assert len(load(path).steps) == 3


def test_an_unknown_model_is_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["run", "hi", "--model", "no-such-model"])
    out, err = capsys.readouterr()
    assert (code, out) == (1, "")
    assert err.startswith("error: there is no model 'no-such-model'") and err.count("\n") == 1


@pytest.mark.parametrize(
    "options", [["--device", "tpu"], ["--device", "cuda:99"], ["--model", "/"]], ids=" ".join
)
def test_what_the_model_cannot_do_is_a_sentence(
    options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "hi", *options]) == 1
    err = capsys.readouterr().err
    assert err.splitlines()[-1].startswith("error: ") and "Traceback" not in err
