"""``python -m core compare``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from core.__main__ import main

EXAMPLE = str(Path(__file__).parent.parent / "data" / "example.kvtrace.json")


def test_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", EXAMPLE, "--strategies", "paged,reserve max,doubling"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "1 requests, 3 steps, 32 slots; peak / mean, in slots"
    assert [line.split("  ")[0] for line in lines[2:]] == ["paged", "reserve max", "doubling"]
    assert "14 / 13.0" in lines[3] and "16 / 16.0" in lines[3]


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", EXAMPLE, "--json", "--hindsight"]) == 0
    data = json.loads(capsys.readouterr().out)
    rows = {row["strategy"]: row for row in data["summary"]}
    assert len(rows) == 9 and rows["grow by one"]["copied"] == 26
    assert rows["grow by one"]["copied_bytes"] == 26 * 64
    assert rows["no cache"]["recomputed"] == 26
    assert data["steps"][0]["reserve max"]["usage"]["internal"] == 16
    assert data["steps"][0]["reserve max"]["runs"][0] == {
        "start": 0, "length": 16, "owner": "r0.0", "live": 6, "usable": 8,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["compare", EXAMPLE, "--strategies", "magic"], "no strategy 'magic'"),
        (["compare", "nowhere.kvtrace.json"], "nowhere.kvtrace.json"),
        (["compare", EXAMPLE, "--estimate", "0"], "estimate is 0"),
    ],
)
def test_errors_are_one_sentence(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert words in capsys.readouterr().err


def test_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", EXAMPLE, "--strategies", "list"]) == 0
    assert capsys.readouterr().out.splitlines()[:2] == ["paged", "no cache"]
