"""The picture of a step in a terminal: aligned, complete, and with no replacement marks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from core.cli.show import show_step
from core.cli.text import cells, fit, token_text, width
from core.trace import load
from tests.trace import stories

EXAMPLE = Path(__file__).parent / "data" / "example.kvtrace.json"


@pytest.mark.parametrize(("text", "columns"), [("abc", 3), ("中国", 4), ("e\u0301", 1), ("，", 2), ("", 0)])
def test_width(text: str, columns: int) -> None:
    assert width(text) == columns


def test_fit_pads_and_cuts_to_columns() -> None:
    assert fit("中国", 6) == "中国  "
    assert fit("中国人", 4) == "中… "
    assert fit("cat", 2) == "c…"
    assert {width(fit(text, 5)) for text in ("", "a", "中国人民", "abcdef", "中a国b")} == {5}


def test_tokens_say_what_they_are() -> None:
    assert token_text(b"\xe4\xbd", 1) == "E4 BD"
    assert token_text(b" cat", 1) == " cat"
    assert token_text(b"\n", 1) == "\\n"
    assert token_text(b"  ", 1) == "␣␣"
    assert token_text(b"\x1b", 1) == "\\x1b"
    assert token_text(None, 77) == "#77"


def test_cells_align_with_wide_characters() -> None:
    tokens = {1: "中国的".encode(), 2: b"cat", 3: b"\xe4\xbd"}
    row = cells((1, 2, 3), tokens, 4, 6)
    assert row == "|中国的|cat   |E4 BD |······|"
    assert width(row) == 29


def test_a_copy_on_write_is_shown_whole() -> None:
    trace = load(EXAMPLE)
    trace.tokens = {t: f" t{t}".encode() for t in (*range(11, 17), 21, 22, 31, 32)}
    lines = show_step(trace, trace.steps[1]).splitlines()
    assert lines[0].startswith("── step 1 · decode")
    assert "copy-on-write: r0.0 copies 2 tokens from block 2 to block 7" in lines[1]
    assert any("logical   1 → physical    7  ref 1  | t15| t16| t21|····|" in line for line in lines)
    assert any("logical   0 → physical    5  ref 2" in line for line in lines)
    assert "   pool: 3 of 8 blocks used, 0 cached, 5 free; 10 of 32 slots hold a token" in lines
    assert any(line.endswith("| t11| t12| t13| t14|  r0.0 r0.1") for line in lines)
    assert lines[-1] == "      free  0-1, 3-4, 6"


def test_every_column_of_blocks_is_aligned() -> None:
    trace = load(EXAMPLE)
    trace.tokens = {11: "中国的".encode(), 12: b"a", 15: "悠".encode(), 16: b"\xe4\xbd"}
    rows = [line for line in show_step(trace, trace.steps[1]).splitlines() if "logical" in line]
    assert len(rows) == 4
    starts = {width(row[: row.index("|")]) for row in rows}
    ends = {width(row[: row.rindex("|")]) for row in rows}
    assert len(starts) == len(ends) == 1


def test_cached_blocks_and_the_host_are_shown() -> None:
    picture = show_step(stories.recomputed(), stories.recomputed().steps[2])
    assert "cached  |#1|#2|#3|#4|  nobody: reusable" in picture
    away = show_step(stories.swapped(), stories.swapped().steps[1])
    assert "host   0  ref 2  |#1|#2|#3|#4|" in away
    assert "r0.0 is preempted (swap)" in away and "block 7 moves to host block 0" in away


def test_an_empty_pool_is_shown() -> None:
    trace = load(EXAMPLE)
    last = replace(trace.steps[2], events=())
    assert show_step(trace, last).splitlines()[1:] == [
        "   pool: 0 of 8 blocks used, 0 cached, 8 free; 0 of 32 slots hold a token",
        "      free  0-7",
    ]
