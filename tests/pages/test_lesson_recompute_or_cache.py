"""Recompute or cache: counts against brute force, under other prompts; the recorded text is the same."""

from __future__ import annotations

from typing import Any

import pytest

from core.scenarios import recorded_path
from core.trace import load
from core.trace.step import Trace
from pages.parts.gates import coming
from pages.parts.lessons import lesson
from pages.parts.lessons.drawings.recompute import passes, recompute, with_cache, without_cache
from pages.parts.lessons.lesson import Sight
from pages.parts.lessons.recompute_or_cache import proven
from tests.pages.lesson_runs import run

ONE = lesson("recompute-or-cache")
STOPS = {stop.name: stop for stop in ONE.stops}


def made(prompt: int, block_size: int) -> Trace:
    return run("one-answer", block_size, [list(range(prompt))], blocks=64)


@pytest.mark.parametrize("block_size", (1, 3, 4, 8))
@pytest.mark.parametrize("prompt", (1, 4, 9))
def test_the_bill(prompt: int, block_size: int) -> None:
    trace = made(prompt, block_size)
    rows = passes(trace, len(trace.steps) - 1)
    new = trace.requests[0].max_new_tokens
    lengths = [prompt + k for k in range(new)]
    assert [row.length for row in rows] == lengths
    slow, fast = without_cache(trace, rows), with_cache(trace, rows)
    assert slow.tokens == sum(lengths) and fast.tokens == lengths[-1]
    # layers, heads, one multiplication for every element of a key and of a value
    pairs = sum(key <= query for length in lengths for query in range(length) for key in range(length))
    assert slow.multiplications == 2 * 2 * 2 * 8 * pairs
    pairs = sum(key <= query for query in range(lengths[-1]) for key in range(lengths[-1]))
    assert fast.multiplications == 2 * 2 * 2 * 8 * pairs
    assert (slow.kv_bytes, fast.kv_bytes) == (128 * slow.tokens, 128 * fast.tokens)
    text = ONE.caption(STOPS["sum"], trace, len(trace.steps) - 1, "en")
    assert f"{new} steps: {slow.tokens} tokens processed on the left, {fast.tokens} on the right" in text
    assert "full pass" not in text, "nothing was proven in this run, so nothing is said about it"


@pytest.mark.parametrize("prompt", (1, 4, 9))
def test_questions(prompt: int) -> None:
    trace = made(prompt, 4)
    for at in range(1, len(trace.steps)):
        one = STOPS["first"].gate(coming(trace, at, "en"))
        all_ = STOPS["sum"].gate(coming(trace, at, "en"))
        assert one is not None and one.truth == 1
        assert all_ is not None and all_.truth == sum(prompt + k for k in range(at + 1))


def cells(marks: list[Any]) -> list[str]:
    return [mark[1]["class"] for mark in marks if mark[0] == "rect" and mark[1].get("width", 0) > 21]


def test_the_picture_has_a_cell_for_every_token_of_every_pass() -> None:
    trace = made(4, 4)
    last = len(trace.steps) - 1
    drawn = cells(recompute(trace, last, "en")["marks"])
    rows = passes(trace, last)
    total = sum(row.length for row in rows)
    assert len(drawn) == 2 * total
    computed = sum(name.startswith("computed") for name in drawn)
    assert computed == without_cache(trace, rows).tokens + with_cache(trace, rows).tokens
    assert sum("news" in name for name in drawn) == rows[-1].length + 1


def test_the_recorded_text_is_the_same_without_a_cache() -> None:
    trace = load(recorded_path("one-answer"))
    last = len(trace.steps) - 1
    proof = proven(Sight(trace, last, "en"))
    assert proof is not None and proof[0] == len(trace.steps) and proof[1] < 1e-3
    assert f"all {proof[0]} steps were checked" in ONE.caption(STOPS["sum"], trace, last, "en")
