"""Holes: what is asked, said and drawn is what the allocator does, under other prompts and sizes."""

from __future__ import annotations

from typing import Any

import pytest

from core.memory import events as ev
from core.scenarios import recorded_path
from core.trace import load
from core.trace.step import Trace
from pages.parts.gates import coming
from pages.parts.lessons import lesson, shadow
from pages.parts.lessons.drawings.holes import compaction, fits, holes, reports
from tests.pages.lesson_runs import run

ONE = lesson("holes")
STOPS = {stop.name: stop for stop in ONE.stops}


@pytest.fixture(params=((4, 24, 0), (2, 48, 1), (8, 10, 2), (1, 80, 3), (3, 30, 4)), ids=str)
def trace(request: pytest.FixtureRequest) -> Trace:
    size, blocks, shift = request.param
    prompts = [[100 * k + i for i in range(3 + (5 * k + shift) % 8)] for k in range(11)]
    return run("coming-and-going", size, prompts, blocks=blocks)


def capacity(trace: Trace) -> int:
    return int(trace.meta["num_blocks"]) * int(trace.meta["block_size"])


def test_the_truth_of_the_question_is_what_happens(trace: Trace) -> None:
    asked = 0
    for at in range(1, len(trace.steps)):
        question = STOPS["stuck"].gate(coming(trace, at, "en"))
        waiting = reports(trace)[at - 1].waiting
        assert (question is not None) == (waiting is not None)
        if question is None or waiting is None:
            continue
        asked += 1
        taken = {e.sequence for e in reports(trace)[at].events if isinstance(e, ev.Reserve)}
        assert (question.truth == "yes") == (waiting.sequence in taken)
    assert asked or STOPS["stuck"].find(trace) is None


def test_stuck_means_enough_and_in_pieces(trace: Trace) -> None:
    at = STOPS["stuck"].find(trace)
    if at is None:
        pytest.skip("nobody is stuck in this run")
    before = reports(trace)[at - 1]
    waiting = before.waiting
    assert waiting is not None
    free = shadow.holes(before.runs, capacity(trace))
    assert sum(free) >= waiting.need > max(free)
    text = ONE.caption(STOPS["stuck"], trace, at, "en")
    assert f"needs {waiting.need} slots in a row. {sum(free)} are free, in {len(free)} pieces" in text
    assert f"({' + '.join(map(str, free))}), the longest {max(free)}:" in text
    assert waiting.sequence not in shadow.running(reports(trace)[at])


def test_compaction_moves_what_lies_above_a_hole_and_then_it_fits(trace: Trace) -> None:
    at = STOPS["stuck"].find(trace)
    if at is None:
        pytest.skip("nobody is stuck in this run")
    before = reports(trace)[at - 1]
    first = next(
        (run.start for k, run in enumerate(before.runs) if run.start > sum_of(before.runs[:k])), None
    )
    moved = sum(run.live for run in before.runs if first is not None and run.start >= first)
    text = ONE.caption(STOPS["compact"], trace, at, "en")
    assert f"keys and values of {moved} tokens are moved ({moved * 128:,} bytes)" in text
    after = reports(trace, compact_at=(at,))[at]
    waiting = before.waiting
    assert waiting is not None and waiting.sequence in shadow.running(after)
    choices = compaction(trace, at, "en")["choices"]
    assert len(choices["drawings"]) == 2 and choices["at"] == 0


def sum_of(runs: Any) -> int:
    return sum(run.length for run in runs)


def test_the_strip_shows_every_slot_once(trace: Trace) -> None:
    for at in range(len(trace.steps)):
        one = reports(trace)[at]
        total = sum(shadow.holes(one.runs, capacity(trace))) + sum_of(one.runs)
        assert total == capacity(trace)
        assert holes(trace, at, "zh")["alt"] and fits(trace, at, "en")["choices"]["at"] == 1


def test_the_recording_shows_what_the_lesson_is_about() -> None:
    """Three pieces or more, one of them stuck; best fit places it; pages have it running."""
    trace = load(recorded_path("coming-and-going"))
    at = STOPS["stuck"].find(trace)
    assert at is not None
    waiting = reports(trace)[at - 1].waiting
    assert waiting is not None
    assert len(shadow.holes(reports(trace)[at - 1].runs, capacity(trace))) >= 3
    assert waiting.sequence in shadow.running(reports(trace, "best fit")[at])
    view = next(view for view in trace.steps[at].sequences if view.id == waiting.sequence)
    assert view.state == "running" and view.block_table
