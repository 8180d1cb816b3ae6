"""Batch size: the fastest decode steps by batch, and how many requests fit, from the runs themselves."""

from __future__ import annotations

from dataclasses import replace

import pytest

from core.compare.lockstep import lockstep
from core.scenarios import recorded_path
from core.trace import load
from core.trace.step import TimeMs, Trace
from pages.parts.gates import coming
from pages.parts.lessons import batches, lesson
from pages.parts.lessons.batches import measured, walk
from tests.pages.lesson_runs import run

ONE = lesson("batch-size")
STOPS = {stop.name: stop for stop in ONE.stops}


def timed(ms: dict[int, float], prompt: int = 6, size: int = 4) -> Trace:
    """The scenario on made-up tokens; a decode step of n takes ms[n], the first of each size 9 times that."""
    prompts = [[20 * k + i for i in range(prompt)] for k in range(16)]
    trace = run("growing-batch", size, prompts, blocks=400)
    seen: set[int] = set()
    for at, step in enumerate(trace.steps):
        n = len({e.sequence for e in step.events if e.name == "write"})
        took = ms.get(n, 1.0) * (1 if n in seen or step.kind != "decode" else 9)
        seen |= {n} if step.kind == "decode" else set()
        trace.steps[at] = replace(step, time_ms=TimeMs(plan=50.0, forward=took - 0.25, sample=0.25))
    return trace


@pytest.fixture
def crowd() -> Trace:
    prompts = [[100 * k + i for i in range(4 + 6 * k)] for k in range(8)]
    return run("ragged-crowd", 4, prompts, blocks=200)


@pytest.mark.parametrize(
    "ms", ({1: 10.0, 2: 12.0, 4: 16.0, 8: 30.0, 16: 40.0}, {1: 5.0, 2: 5.0, 4: 5.5, 8: 6.0, 16: 9.0})
)
def test_rates_come_from_the_steps(ms: dict[int, float], crowd: Trace) -> None:
    found = measured(timed(ms))
    assert [one.size for one in found] == [1, 2, 4, 8, 16]
    for one in found:
        assert one.ms == pytest.approx(ms[one.size]) and one.steps >= 4
        assert one.rate == pytest.approx(1e3 * one.size / ms[one.size])
    made = walk(timed(ms), crowd)
    text = ONE.caption(STOPS["four"], made, 2, "en")
    assert f"4 requests take a step together: {ms[4]:.0f} ms, {ms[4] / ms[1]:.1f} times as long" in text
    assert f"{4e3 / ms[4]:.0f} a second" in text
    question = STOPS["four"].gate(coming(made, 2, "en"))
    truth = "same" if ms[4] / ms[1] < 1.25 else "less"
    assert question is not None and question.truth == truth


def test_a_batch_that_costs_as_much_as_it_holds_is_said_to() -> None:
    linear = {n: 10.0 * n for n in (1, 2, 4, 8, 16)}
    crowd = load(recorded_path("ragged-crowd"))
    question = STOPS["four"].gate(coming(walk(timed(linear), crowd), 2, "en"))
    assert question is not None and question.truth == "factor"


def test_what_fits_is_what_the_strategies_admit(crowd: Trace) -> None:
    made = walk(timed({1: 1.0}), crowd)
    reports = lockstep(crowd, ("reserve max", "doubling", "exact"), drain=False)
    for name in ("reserve max", "doubling", "exact"):
        peak = max(step[name].usage.running for step in reports)
        assert made.meta["at_once"][name] == peak
    assert made.meta["at_once"]["paged"] == max(step.usage[0].running for step in crowd.steps)
    last = len(made.steps) - 1
    assert made.steps[last].fits and not any(step.fits for step in made.steps[:last])
    question = STOPS["fits"].gate(coming(made, last, "zh"))
    assert question is not None and question.truth == made.meta["at_once"]["reserve max"]
    fits = made.meta["at_once"]
    text = ONE.caption(STOPS["fits"], made, last, "en")
    assert f"{fits['reserve max']} run at once; with the exact length, known" in text
    assert f"known beforehand, {fits['exact']}; doubling, {fits['doubling']}; paged, {fits['paged']}." in text


def test_the_recordings_differ_where_they_should() -> None:
    """Memory is what holds the crowd back, and a larger batch gives more tokens a second."""
    fits = batches.at_once(load(recorded_path("ragged-crowd")))
    assert fits["reserve max"] < fits["doubling"] < fits["paged"]
    trace = load(recorded_path("growing-batch"))
    found = measured(trace)
    assert [one.size for one in found] == [1, 2, 4, 8, 16]
    assert found[-1].rate > 2 * found[0].rate
    fastest = {one.size: one.ms for one in found}
    for step in trace.steps:
        if step.kind == "decode":
            n = len({e.sequence for e in step.events if e.name == "write"})
            assert step.time_ms.forward + step.time_ms.sample >= fastest[n]
