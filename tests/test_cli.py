"""The commands as a user runs them: what they print, how they exit, and that mistakes are sentences."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from core.cli import main
from core.cli.errors import UsageError
from core.cli.options import parse_bytes, parse_order
from core.cli.requests import read_requests
from core.config import Sampling
from core.scenarios import recorded_path
from core.trace import load, save

ROOT = Path(__file__).resolve().parent.parent
EXAMPLE = ROOT / "tests" / "data" / "example.kvtrace.json"


def run_main(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    code = main([str(a) for a in argv])
    out, err = capsys.readouterr()
    return code, out, err


def test_verify_accepts_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run_main(capsys, "verify", str(EXAMPLE))
    assert (code, out, err) == (0, "ok: 3 steps, 2 sequences, rules 1-8 hold\n", "")


def test_verify_names_the_rule_and_the_place(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    data = json.loads(EXAMPLE.read_text(encoding="utf-8"))
    data["steps"][1]["blocks"][0]["ref"] = 3
    (tmp_path / "bad.kvtrace.json").write_text(json.dumps(data), encoding="utf-8")
    code, out, _ = run_main(capsys, "verify", str(tmp_path / "bad.kvtrace.json"))
    assert code == 1
    assert out == "rule 2 does not hold after step 1: block 5 has ref 3, but 2 block tables list it.\n"


def test_verify_names_the_rule_of_a_file_that_cannot_be_loaded(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    data = json.loads(EXAMPLE.read_text(encoding="utf-8"))
    data["steps"][1]["sequences"][0]["block_table"] = [5, 70]
    (tmp_path / "bad.kvtrace.json").write_text(json.dumps(data), encoding="utf-8")
    code, out, _ = run_main(capsys, "verify", str(tmp_path / "bad.kvtrace.json"))
    assert code == 1
    assert out.startswith("rule 1 does not hold: ") and "steps[1].sequences[0].block_table[1] is 70" in out


@pytest.mark.parametrize("content", [b"", b"{}", b"\x1f\x8b\x00", b'{"format":"paged-kv-trace","version":2}'])
def test_verify_of_no_trace_is_a_sentence(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, content: bytes
) -> None:
    (tmp_path / "t").write_bytes(content)
    code, out, err = run_main(capsys, "verify", str(tmp_path / "t"))
    assert (code, out) == (1, "")
    assert err.startswith("error: ") and err.count("\n") == 1


def test_verify_compares_two_runs(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    other = load(EXAMPLE)
    other.steps[0].time_ms  # noqa: B018
    save(other, tmp_path / "b.kvtrace.json.gz")
    code, out, _ = run_main(capsys, "verify", str(EXAMPLE), "--same-as", str(tmp_path / "b.kvtrace.json.gz"))
    assert (code, out) == (0, "ok: 3 steps, 2 sequences, rules 1-9 hold\n")
    other.meta["seed"] = 5
    save(other, tmp_path / "b.kvtrace.json.gz")
    code, out, _ = run_main(capsys, "verify", str(EXAMPLE), "--same-as", str(tmp_path / "b.kvtrace.json.gz"))
    assert (code, out) == (1, "rule 9 does not hold: meta of the two traces differ.\n")


@pytest.mark.parametrize(
    "argv",
    [
        [],
        ["fly"],
        ["verify"],
        ["run"],
        ["run", "hi", "--block-size", "0"],
        ["run", "hi", "--block-size", "many"],
        ["run", "hi", "--blocks", "4", "--pool-bytes", "1MiB"],
        ["run", "hi", "--pool-bytes", "much"],
        ["run", "hi", "--top-p", "0"],
        ["run", "hi", "--watermark", "1.5"],
        ["run", "hi", "--free-order", "1,1"],
        ["run", "hi", "--free-order", "one"],
        ["run", "hi", "--trace", "/no/such/folder/t.json"],
        ["run", "--requests", "/no/such/file.jsonl"],
        ["record"],
        ["record", "nothing"],
        ["record", "two-blocks", "--all"],
        ["bench", "nothing"],
    ],
    ids=" ".join,
)
def test_bad_usage_exits_with_2_and_a_sentence(capsys: pytest.CaptureFixture[str], argv: list[str]) -> None:
    code, out, err = run_main(capsys, *argv)
    assert (code, out) == (2, "")
    assert "error: " in err and "Traceback" not in err


def test_help_needs_no_torch_and_is_quick() -> None:
    code = (
        "import sys; from core.cli import main\n"
        "for line in ('--help', 'run --help', 'record list', 'bench list', 'verify ' + sys.argv[1]):\n"
        "    assert main(line.split()) == 0, line\n"
        "heavy = {'torch', 'transformers', 'numpy', 'streamlit'} & set(sys.modules); assert not heavy, heavy"
    )
    command = [sys.executable, "-c", code, str(EXAMPLE)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "--host-blocks" in done.stdout and "two-blocks" in done.stdout


def test_a_reader_that_goes_away_is_no_error() -> None:
    command = f"{sys.executable} -m core record list | head -1"
    done = subprocess.run(["bash", "-c", command], cwd=ROOT, capture_output=True, text=True)
    assert done.stderr == "" and done.stdout.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "size"),
    [("64MiB", 64 << 20), ("1.5 GB", 1_500_000_000), ("4096", 4096), ("2k", 2048), ("1G", 1 << 30)],
)
def test_sizes(text: str, size: int) -> None:
    assert parse_bytes(text) == size


def test_free_order() -> None:
    assert parse_order("1,3,2") == (1, 3, 2)


def write(folder: Path, *lines: str) -> Path:
    path = folder / "requests.jsonl"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


DEFAULTS: dict[str, Any] = {"max_new_tokens": 7, "n": 1, "chat": False, "seed": 3, "ignore_eos": False}


def test_requests_of_a_file(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        '{"prompt": "a", "arrival_step": 4, "chat": true}',
        "",
        '{"prompt": "b", "n": 3, "top_k": 5}',
        '{"prompt": "c", "beam": 4, "length_penalty": 0.5, "max_new_tokens": 2}',
    )
    a, b, c = read_requests(path, DEFAULTS)
    assert (a.prompt, a.options["arrival_step"], a.options["chat"], a.options["max_new_tokens"]) == (
        "a",
        4,
        True,
        7,
    )
    assert a.options["sampling"] == Sampling(seed=3)
    assert b.options["sampling"] == Sampling(seed=3, top_k=5, temperature=1.0)
    assert (c.options["beam"], c.options["length_penalty"]) == (4, 0.5)
    assert "n" not in c.options and c.options["sampling"] == Sampling()
    assert c.origin == "requests.jsonl, line 4"


def test_a_file_made_in_a_windows_editor(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_bytes('﻿{"prompt": "你好"}\r\n{"prompt": "b"}\r\n'.encode())
    assert [r.prompt for r in read_requests(path, DEFAULTS)] == ["你好", "b"]


def test_a_line_may_say_how_its_beams_stop(tmp_path: Path) -> None:
    lines = ['{"prompt": "a", "beam": 2, "early_stopping": "never"}', '{"prompt": "b", "beam": 2}']
    found = read_requests(write(tmp_path, *lines), DEFAULTS | {"early_stopping": True})
    assert [r.options["early_stopping"] for r in found] == ["never", True]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("{", "Expecting"),
        ("[1]", "must be a JSON object"),
        ('{"text": "a"}', 'unknown key "text"'),
        ('{"n": 2}', 'needs "prompt" as a text'),
        ('{"prompt": 5}', 'needs "prompt" as a text'),
        ('{"prompt": "a", "n": 17}', '"n" must be a whole number from 1 to 16, not 17'),
        ('{"prompt": "a", "n": true}', "not true"),
        ('{"prompt": "a", "n": 2.5}', "not 2.5"),
        ('{"prompt": "a", "beam": 1}', '"beam" must be a whole number from 2 to 8'),
        ('{"prompt": "a", "arrival_step": -1}', '"arrival_step" must be'),
        ('{"prompt": "a", "temperature": "hot"}', 'not "hot"'),
        ('{"prompt": "a", "temperature": NaN}', '"temperature" must be'),
        ('{"prompt": "a", "top_p": 0}', "top-p is 0"),
        ('{"prompt": "a", "chat": 1}', '"chat" must be true or false'),
        ('{"prompt": "a", "early_stopping": 1}', '"early_stopping" must be true, false or "never", not 1'),
        ('{"prompt": "a", "early_stopping": "now"}', 'not "now"'),
        ("[" * 100_000, "could be a request"),
    ],
)
def test_a_bad_line_is_a_sentence_with_its_number(tmp_path: Path, line: str, says: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_requests(write(tmp_path, '{"prompt": "fine"}', line), DEFAULTS)
    assert str(caught.value).startswith("requests.jsonl, line 2: ") and says in str(caught.value)


def test_an_empty_file_of_requests(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has no requests"):
        read_requests(write(tmp_path, "", "  "), DEFAULTS)


def test_record_refuses_a_lesson_that_does_not_break_the_rule_it_says(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Both ways round: a rule broken where none should be, and none broken where rule 4 should be."""
    from core.cli import record

    traces = {name: load(recorded_path(name)) for name in ("half-full-block", "no-copy-on-write")}
    swapped = dict(zip(traces, reversed(traces.values()), strict=True))
    monkeypatch.setattr(record, "record", lambda scenario, **options: swapped[scenario.name])
    for name, sentence in (
        ("half-full-block", "rule 4 does not hold after step 1"),
        ("no-copy-on-write", "it is to break rule 4, but every rule holds"),
    ):
        assert main(["record", name, "--trace", str(tmp_path / "t.kvtrace.json")]) == 1
        assert sentence in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
    monkeypatch.setattr(record, "record", lambda scenario, **options: traces[scenario.name])
    assert main(["record", "no-copy-on-write", "--trace", str(tmp_path / "t.kvtrace.json")]) == 0
