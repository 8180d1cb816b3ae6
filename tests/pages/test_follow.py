"""The strips' reports follow a trace as it grows, agree with what it recorded, and say who waits and why."""

from dataclasses import replace

from core.scenarios import recorded_path
from core.trace import load
from pages.parts.follow import Follower, follow
from pages.parts.payload import build_payload
from tests.pages.traces import REAL


def test_agrees_with_the_recorded_usage() -> None:
    for name in ("first-steps", "full-block", "pool-runs-dry"):
        trace = load(recorded_path(name))
        reports = follow(trace, {})
        assert reports is not None and len(trace.steps[0].usage) > 1
        for step, report in zip(trace.steps, reports, strict=True):
            for usage in step.usage[1:]:
                assert report[usage.strategy].usage == usage, (name, step.index)


def test_a_strip_says_that_a_request_never_fits() -> None:
    trace = load(recorded_path("three-beams"))
    trace.meta["max_model_len"] = 24  # three beams of 24 slots each, and the pool has 36
    strips = build_payload(trace, 0, lang="en", mode="recorded", lockstep=follow(trace, {}))["strips"]
    assert strips[0]["note"] == "1 request never fits"


def test_a_growing_trace_is_followed_once() -> None:
    trace = next(iter(REAL.values()))()
    steps, memo = list(trace.steps), {}
    trace.steps[:] = steps[:2]
    first = follow(trace, memo)
    assert first is not None and len(first) == 2
    trace.steps[:] = steps
    again = follow(trace, memo)
    assert again is first and len(first) == len(steps)
    assert isinstance(memo["last"], Follower)


def test_an_unknown_strategy_leaves_the_events_to_be_drawn() -> None:
    trace = next(iter(REAL.values()))()
    step = trace.steps[0]
    foreign = replace(step.usage[0], strategy="somebody's own")
    trace.steps[0] = replace(step, usage=(*step.usage, foreign))
    assert follow(trace, {}) is None
    assert build_payload(trace, 0, lang="en", mode="recorded")["strips"]
