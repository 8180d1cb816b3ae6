"""Doubling: copies, both runs held, growth that finds no room, under other prompts and block sizes."""

from __future__ import annotations

import pytest

from core.scenarios import recorded_path
from core.trace import load
from core.trace.step import Trace
from pages.parts.gates import coming
from pages.parts.lessons import lesson, shadow
from pages.parts.lessons.drawings.doubling import doubling, reports
from tests.pages.lesson_runs import run

ONE = lesson("doubling")
STOPS = {stop.name: stop for stop in ONE.stops}


@pytest.fixture(params=((4, 24, 0), (2, 60, 1), (8, 10, 2), (1, 90, 3), (4, 40, 5)), ids=str)
def trace(request: pytest.FixtureRequest) -> Trace:
    size, blocks, shift = request.param
    prompts = [[100 * k + i for i in range(3 + (5 * k + shift) % 8)] for k in range(11)]
    return run("coming-and-going", size, prompts, blocks=blocks)


def test_the_truth_of_the_question_is_what_is_copied(trace: Trace) -> None:
    asked = 0
    for at in range(1, len(trace.steps)):
        question = STOPS["grow"].gate(coming(trace, at, "en"))
        if question is None:
            continue
        asked += 1
        grown = shadow.grown(reports(trace)[at])
        assert [event.copied for event in grown] == [question.truth]
    assert asked


def test_captions_say_what_moved(trace: Trace) -> None:
    at = STOPS["most"].find(trace)
    assert at is not None
    grown = shadow.grown(reports(trace)[at])
    text = ONE.caption(STOPS["most"], trace, at, "en")
    assert f"{len(grown)} move" in text and f"{sum(event.copied for event in grown)} tokens" in text
    assert all(f"{event.old_length} → {event.length}" in text for event in grown)
    everything = [e for one in reports(trace)[: at + 1] for e in shadow.grown(one)]
    assert f"So far {len(everything)} moves and {sum(e.copied for e in everything)} tokens" in text
    last = len(trace.steps) - 1
    one = sum(e.copied for r in reports(trace, "grow by one") for e in shadow.grown(r))
    text = ONE.caption(STOPS["sum"], trace, last, "en")
    copied = reports(trace)[last].usage.copied
    assert f"has copied {copied} tokens ({copied * 128:,} bytes); growing by one {one}," in text
    assert one > copied > 0 == trace.steps[last].usage[0].copied


def test_a_stall_says_what_is_lacking(trace: Trace) -> None:
    at = STOPS["stall"].find(trace)
    if at is None:
        pytest.skip("everybody can grow in this run")
    waiting = reports(trace)[at].waiting
    assert waiting is not None and waiting.growing
    text = ONE.caption(STOPS["stall"], trace, at, "en")
    assert f"must move to {waiting.need} slots in a row" in text and f"{waiting.free} are free" in text


def test_both_runs_are_held_while_copying(trace: Trace) -> None:
    for one in reports(trace):
        for event in shadow.grown(one):
            disjoint = event.start + event.length <= event.old_start
            assert disjoint or event.start >= event.old_start + event.old_length
    at = STOPS["most"].find(trace)
    assert at is not None
    event = max(shadow.grown(reports(trace)[at]), key=lambda event: event.copied)
    question = ONE.questions[0].make
    from pages.parts.lessons.lesson import Sight

    assert question(Sight(trace, at, "zh")).truth == event.old_length + event.length


def test_the_picture_of_every_step(trace: Trace) -> None:
    for at in range(len(trace.steps)):
        alt = doubling(trace, at, "en")["alt"]
        assert f"doubling has copied {reports(trace)[at].usage.copied} tokens" in alt


def test_the_recording_has_a_stall_in_the_middle_of_an_answer() -> None:
    trace = load(recorded_path("coming-and-going"))
    at = STOPS["stall"].find(trace)
    assert at is not None
    waiting = reports(trace)[at].waiting
    assert waiting is not None and waiting.reason == "fragmented" and waiting.free >= waiting.need
