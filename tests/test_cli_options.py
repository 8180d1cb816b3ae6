"""Options of ``run`` that make no sense: one sentence and exit 2, before any model is loaded."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from core.cli import main, run
from core.cli.options import add_memory_options, add_request_options, make_config

WRONG = (
    (["--n", "0"], "--n is 0; it must be a whole number from 1 to 16."),
    (["--n", "17"], "--n is 17; it must be a whole number from 1 to 16."),
    (["--beam", "1"], "--beam is 1; it must be a whole number from 2 to 8."),
    (["--beam", "9"], "--beam is 9; it must be a whole number from 2 to 8."),
    (["--n", "2", "--beam", "2"], "2 answers with 2 beams; ask for one or the other, not both."),
    (["--beam", "2", "--temperature", "1"], "beam search draws nothing"),
    (["--beam", "2", "--length-penalty", "9"], "--length-penalty is 9.0; it must be a number from -5 to 5."),
    (["--length-penalty", "nan"], "--length-penalty is nan;"),
    (["--max-tokens", "0"], "--max-tokens is 0; it must be a whole number, 1 or more."),
    (["--seed", "-1"], "--seed is -1;"),
    (["--seed", "99999999999999999999"], "--seed is 99999999999999999999;"),
    (["--temperature", "nan"], "--temperature is nan;"),
    (["--top-p", "0"], "top-p is 0.0;"),
    (["--host-blocks", "-1"], "host blocks is -1;"),
    (["--max-batch-tokens", "0"], "tokens a step is 0;"),
    (["--watermark", "1"], "the watermark is 1.0;"),
    (["--watermark", "nan"], "the watermark is nan;"),
    (["--sharing", "off"], "invalid choice: 'off'"),
    (["--preempt", "maybe"], "invalid choice: 'maybe'"),
)


@pytest.fixture(autouse=True)
def no_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "load_model", lambda name, **options: pytest.fail("a model was loaded"))


@pytest.mark.parametrize(("options", "sentence"), WRONG)
def test_a_wrong_option_is_refused_before_a_model_is_loaded(
    options: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "hello", *options]) == 2
    out, err = capsys.readouterr()
    assert sentence in err.splitlines()[-1] and out == ""


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ({"n": 2, "beam": 2}, "2 answers with 2 beams; ask for one or the other, not both."),
        ({"beam": 3, "temperature": 0.5}, "beam search draws nothing"),
        ({"beam": 3, "length_penalty": 7}, '"length_penalty" must be a number from -5 to 5, not 7.'),
        ("{no", "is no JSON ("),
    ],
)
def test_a_wrong_line_names_its_number(
    line: object, sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "r.jsonl"
    text = line if isinstance(line, str) else json.dumps({"prompt": "hi"} | dict(line))  # type: ignore[call-overload]
    path.write_text('{"prompt": "fine"}\n' + text)
    assert main(["run", "--requests", str(path)]) == 2
    err = capsys.readouterr().err
    assert err.startswith("error: r.jsonl, line 2: ") and sentence in err and err.count("\n") == 1


@pytest.mark.parametrize(
    ("options", "blocks"),
    [
        ([], 0),
        (["--preempt", "swap"], 24),
        (["--preempt", "swap", "--host-blocks", "3"], 3),
        (["--preempt", "swap", "--host-blocks", "0"], 0),
        (["--host-blocks", "2"], 2),
    ],
)
def test_swapping_has_room_on_the_host_unless_told_otherwise(options: list[str], blocks: int) -> None:
    parser = argparse.ArgumentParser()
    add_request_options(parser)
    add_memory_options(parser)
    args = parser.parse_args(["hello", "--blocks", "24", *options])
    assert make_config(args, None, 20).host_blocks == blocks
