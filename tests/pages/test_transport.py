"""Transport: where an action leads, and that nothing from a browser can lead elsewhere."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.trace.step import Trace
from pages.parts.component import is_new
from pages.parts.transport import JUMPS, Move, apply, kinds, marks, next_of
from tests.pages import traces


@pytest.fixture(scope="module")
def swap() -> Trace:
    return traces.swap()


def test_steps_and_ends(swap: Trace) -> None:
    last = len(swap.steps) - 1
    assert apply({"do": "step"}, swap, 3) == Move(4)
    assert apply({"do": "back"}, swap, 3) == Move(2)
    assert apply({"do": "back"}, swap, 0) == Move(0)
    assert apply({"do": "start"}, swap, 3) == Move(0)
    assert apply({"do": "end"}, swap, 3) == Move(last)
    assert apply({"do": "goto", "arg": 5}, swap, 3) == Move(5)
    assert apply({"do": "goto", "arg": 999}, swap, 3) == Move(last)
    assert apply({"do": "goto", "arg": -4}, swap, 3) == Move(0)


def test_a_step_at_the_end_runs_the_engine_if_it_can(swap: Trace) -> None:
    last = len(swap.steps) - 1
    assert apply({"do": "step"}, swap, last) == Move(last)
    assert apply({"do": "step"}, swap, last, can_step_live=True) == Move(last, "step")
    assert apply({"do": "step"}, swap, last - 1, can_step_live=True) == Move(last)


def test_a_live_trace_without_steps_can_begin() -> None:
    empty = Trace(meta={"block_size": 4, "num_blocks": 4})
    assert apply({"do": "step"}, empty, 0, can_step_live=True) == Move(0, "step")
    for do in ("back", "start", "end", "goto", "jump"):
        assert apply({"do": do, "arg": 3}, empty, 7) == Move(0)


def test_marks_are_where_the_events_are(swap: Trace) -> None:
    found = marks(swap)
    assert found["preempt"] == [5]
    assert found["swap"] == [5, 10]
    assert found["finish"] == [9]
    assert found["copy"] == []
    for kind in JUMPS:
        assert found[kind] == [i for i, step in enumerate(swap.steps) if kind in kinds(step.events)]


def test_jumps_go_to_the_next_one_and_stay_where_there_is_none(swap: Trace) -> None:
    assert apply({"do": "jump", "arg": "preempt"}, swap, 0) == Move(5)
    assert apply({"do": "jump", "arg": "preempt"}, swap, 5) == Move(5)
    assert apply({"do": "jump", "arg": "copy"}, swap, 2) == Move(2)
    assert apply({"do": "jump", "arg": "any"}, swap, 2) == Move(5)  # steps 3 and 4 only write
    assert next_of(swap, 10, "any") is None


def test_every_chip_has_a_trace_that_uses_it() -> None:
    there = set()
    for make in traces.BY_NAME.values():
        there |= {kind for kind, steps in marks(make()).items() if steps}
    assert there == set(JUMPS)


def test_what_the_page_must_do_is_handed_over(swap: Trace) -> None:
    assert apply({"do": "predict", "arg": 9}, swap, 3) == Move(3, "predict", 9)
    assert apply({"do": "select", "arg": {"block": 2}}, swap, 3) == Move(3, "select", {"block": 2})


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=True) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


@given(do=json_values | st.sampled_from(["step", "back", "goto", "jump", "start", "end"]), arg=json_values)
def test_nothing_from_a_browser_leads_outside(do: Any, arg: Any) -> None:
    trace = TWO
    move = apply({"do": do, "arg": arg}, trace, 2)
    assert 0 <= move.index < len(trace.steps)
    assert move.command in (None, "select", "predict")


TWO = traces.two_answers()


def test_an_action_counts_once() -> None:
    seen: dict[str, int] = {}
    assert is_new({"do": "step", "n": 1, "client": "a"}, seen)
    assert not is_new({"do": "step", "n": 1, "client": "a"}, seen)  # a rerun brings it again
    assert is_new({"do": "step", "n": 2, "client": "a"}, seen)
    assert not is_new({"do": "step", "n": 1, "client": "a"}, seen)  # one that overtook another
    assert is_new({"do": "step", "n": 1, "client": "b"}, seen)  # the page was loaded again
    for broken in (None, "step", {}, {"n": 3}, {"n": "3", "client": "a"}, {"n": 3, "client": 7}):
        assert not is_new(broken, seen)
