"""What single lessons point at and say beside their pictures, and the verdicts on what is accepted."""

from __future__ import annotations

import pytest

from core.memory import events as ev
from core.scenarios import recorded_path
from core.trace import load
from pages.parts import gates
from pages.parts.gates import Question, coming
from pages.parts.lessons import common, lesson, point
from pages.parts.lessons.lesson import Sight
from tests.pages.lesson_runs import prompts_for, run


@pytest.mark.parametrize("value, text", ((4e-05, "4×10⁻⁵"), (2.94e-5, "3×10⁻⁵"), (12.0, "1×10¹"), (0.0, "0")))
def test_small_numbers_are_written_by_hand(value: float, text: str) -> None:
    assert common.power(value) == text


@pytest.mark.parametrize("block_size", (1, 2, 3, 4, 5, 8))
@pytest.mark.parametrize("length", (4, 7, 10))
def test_the_slot_pointed_at_is_empty_where_there_is_an_empty_one(length: int, block_size: int) -> None:
    trace = run("first-steps", block_size, prompts_for("first-steps", length), blocks=64)
    stop = next(stop for stop in lesson("parts").stops if stop.name == "slot")
    at = stop.find(trace)
    assert at is not None and stop.point is not None
    row = trace.steps[at].sequences[0]
    part = row.written % block_size
    place = row.written if part else row.written - 1
    expected = point.place(row.block_table[place // block_size], place % block_size)
    assert stop.point(Sight(trace, at, "en")) == [expected]


def test_the_recording_has_an_empty_slot_to_point_at() -> None:
    trace = load(recorded_path("first-steps"))
    for stop in lesson("parts").stops:
        at = stop.find(trace)
        assert at is not None
        assert trace.steps[at].sequences[0].written % int(trace.meta["block_size"]) > 0


def test_an_accepted_answer_gets_a_verdict_of_its_own() -> None:
    question = Question(question="?", kind="block", truth=6, because="", right=frozenset({6, 7}), also="fine")
    assert question.payload("x", 7)["result"]["also"] == "fine"
    assert question.payload("x", 7)["result"]["correct"]
    assert "also" not in question.payload("x", 6)["result"]
    assert "also" not in question.payload("x", 5)["result"]
    trace = load(recorded_path("two-blocks"))
    stop = next(stop for stop in lesson("paged-attention").stops if stop.name == "new")
    asked = gates.block_taken(coming(trace, stop.find(trace) or 0, "zh"))
    assert asked is not None and asked.also == "也可以" and len(asked.right) > 1


def test_who_is_dropped_does_not_end_by_itself() -> None:
    said = {}
    for name, stop_name in (("beam-search", "drop"), ("sharing", "end")):
        stop = next(stop for stop in lesson(name).stops if stop.name == stop_name)
        trace = load(recorded_path(stop.run))
        question = gates.blocks_back(coming(trace, stop.find(trace) or 0, "en"))
        assert question is not None
        said[name] = question.question
    assert "dropped" in said["beam-search"] and "in the next step" in said["sharing"]


@pytest.mark.parametrize("name, moved", (("pool-runs-dry", False), ("pool-runs-dry-swap", True)))
def test_blocks_that_come_back_are_named_only_where_some_do(name: str, moved: bool) -> None:
    trace = load(recorded_path(name))
    at = next(k for k, step in enumerate(trace.steps) if any(isinstance(e, ev.Resume) for e in step.events))
    question = gates.tokens_computed(coming(trace, at, "en"))
    assert question is not None and ("moved back or copied" in question.because) == moved


def test_nobody_is_asked_about_no_free_block_with_a_number() -> None:
    trace = load(recorded_path("pool-runs-dry"))
    at = next(k for k, step in enumerate(trace.steps) if any(isinstance(e, ev.Preempt) for e in step.events))
    question = gates.who_gives_way(coming(trace, at, "zh"))
    assert question is not None
    assert ("一块空闲的也没有" in question.question) == (coming(trace, at, "zh").holders.free == 0)


def test_what_was_overwritten_is_said_and_pointed_at() -> None:
    trace = load(recorded_path("no-copy-on-write"))
    one = lesson("copy-on-write")
    stop = next(stop for stop in one.stops if stop.name == "off")
    at = stop.find(trace)
    assert at is not None and stop.point is not None
    size = int(trace.meta["block_size"])
    *lost, last = [e for e in trace.steps[at].events if isinstance(e, ev.Write)]
    token = trace.steps[at].sequences[-1].token_ids[last.position]
    assert trace.tokens[token].decode().strip() in one.caption(stop, trace, at, "en")
    points = stop.point(Sight(trace, at, "en"))
    own = [point.slot(place, event.position // size, event.offset) for place, event in enumerate(lost)]
    assert points == [*own, point.place(last.block, last.offset)]


def test_what_was_freed_is_said_only_where_something_was() -> None:
    one = lesson("prefix-reuse")
    stop = next(stop for stop in one.stops if stop.name == "kept")
    trace = load(recorded_path(stop.run))
    for at, step in enumerate(trace.steps):
        kinds = [type(event) for event in step.events]
        if ev.Cache in kinds and ev.Finish in kinds:
            text = one.caption(stop, trace, at, "en")
            freed = kinds.count(ev.Free)
            assert (f"are freed: {freed}" in text) == (freed > 0)
