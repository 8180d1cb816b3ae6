"""A fixed reservation: who runs, what is lost, who is cut off, under other prompts and block sizes."""

from __future__ import annotations

import pytest

from core.memory import events as ev
from core.scenarios import recorded_path
from core.trace import load
from core.trace.step import Trace
from pages.parts.gates import coming
from pages.parts.lessons import lesson, shadow
from pages.parts.lessons.drawings.reservation import estimates, knob, rows, too_small
from tests.pages.lesson_runs import run

ONE = lesson("fixed-reservation")
STOPS = {stop.name: stop for stop in ONE.stops}
RESERVE = 256  # of the runs made here


@pytest.fixture(params=((4, 2), (8, 3), (16, 2), (64, 1)), ids=str)
def trace(request: pytest.FixtureRequest) -> Trace:
    """Four prompts of different lengths; memory for one, two or three reservations."""
    size, fit = request.param
    prompts = [list(range(100 * k, 100 * k + 9 * (k + 1))) for k in range(4)]
    return run("four-answers", size, prompts, blocks=fit * RESERVE // size)


def test_as_many_run_as_reservations_fit(trace: Trace) -> None:
    fit = int(trace.meta["num_blocks"]) * int(trace.meta["block_size"]) // RESERVE
    at = STOPS["idle"].find(trace)
    if at is None:
        assert fit >= 4
        return
    text = ONE.caption(STOPS["idle"], trace, at, "en")
    running = [row for row in rows(trace, at) if row.state == "running"]
    assert len(running) == fit
    written = sum(row.written for row in running)
    assert f"{fit * RESERVE:,} slots, and {written} of them hold tokens" in text
    assert f"The other {fit * RESERVE - written:,} lie idle" in text


def test_the_truth_of_the_question_is_what_happens(trace: Trace) -> None:
    asked = 0
    for at in range(1, len(trace.steps)):
        question = STOPS["idle"].gate(coming(trace, at, "en"))
        arrived = [e.request for e in trace.steps[at].events if isinstance(e, ev.Arrive)]
        assert (question is not None) == bool(arrived)
        if question is None:
            continue
        asked += 1
        one = shadow.report(trace, at, "reserve max")
        taken = {e.sequence.rpartition(".")[0] for e in one.events if isinstance(e, ev.Reserve)}
        assert (question.truth == "yes") == (arrived[-1] in taken)
    assert asked == 3


def test_what_is_lost_is_what_was_never_written(trace: Trace) -> None:
    at = STOPS["lost"].find(trace)
    assert at is not None
    written = trace.steps[at].sequences[0].written
    text = ONE.caption(STOPS["lost"], trace, at, "en")
    assert f"{RESERVE} slots reserved, {written} used, {RESERVE - written} never touched" in text
    question = STOPS["lost"].gate(coming(trace, at, "en"))
    assert question is not None and question.truth == RESERVE - written


def test_too_small_is_the_longest_that_stops_somebody(trace: Trace) -> None:
    last = len(trace.steps) - 1
    lengths, place = estimates(trace), too_small(trace, last)
    ends = {length: {row.state for row in rows(trace, last, estimate=length)} for length in lengths}
    assert "stopped" in ends[lengths[place]]
    assert not any("stopped" in ends[length] for length in lengths[:place])
    for row in rows(trace, last, estimate=lengths[place]):
        assert row.state != "stopped" or row.written == lengths[place] == row.reserved
    text = ONE.caption(STOPS["small"], trace, last, "en")
    peak = shadow.peak(shadow.reports(trace, "reserve max", estimate=lengths[place]))
    everybody = peak == len(trace.steps[last].sequences)
    assert (f"all {peak} requests run at once" if everybody else f"up to {peak} run at once") in text
    drawn = knob(trace, last, "en")["choices"]
    assert drawn["at"] == place and len(drawn["drawings"]) == len(lengths) == len(drawn["options"])


def test_the_recording_has_the_shape_of_the_texts_example() -> None:
    """1,024 reserved, about 100 generated, the rest lost; two run, the others wait in an empty memory."""
    trace = load(recorded_path("four-answers"))
    at = STOPS["lost"].find(trace)
    assert at is not None
    row = rows(trace, at)[0]
    assert row.reserved == 1024 and 80 < row.written - row.prompt < 130
    idle = STOPS["idle"].find(trace)
    assert idle is not None
    usage = shadow.report(trace, idle, "reserve max").usage
    assert usage.waiting and usage.live < 0.1 * usage.capacity
