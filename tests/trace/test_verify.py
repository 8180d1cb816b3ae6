"""verify: accepts good traces, and names the right rule and place in damaged ones."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from core.memory.events import Allocate, Cache, Copy, Event, Free, Share, Write
from core.trace import first_difference, load, same_but_for_times, verify
from core.trace.step import Step, TimeMs, Trace
from tests.trace import stories
from tests.trace.test_file import at

EXAMPLE = Path(__file__).parent.parent / "data" / "example.kvtrace.json"


@pytest.mark.parametrize("story", [stories.swapped, stories.recomputed, stories.evicted])
def test_good_stories_are_accepted(story: Callable[[], Trace]) -> None:
    assert verify(story()) is None


def _picture(way: str, value: Any) -> Callable[[Trace], Trace]:
    """The example with one value of its file replaced."""

    def damage(_: Trace) -> Trace:
        data = json.loads(EXAMPLE.read_text(encoding="utf-8"))
        return load(json.dumps(at(data, way, value)).encode())

    return damage


def _events(step: int, change: Callable[[list[Event]], Any]) -> Callable[[Trace], Trace]:
    """The trace with the events of one step changed and its pictures left as they are."""

    def damage(trace: Trace) -> Trace:
        events = list(trace.steps[step].events)
        change(events)
        trace.steps[step] = replace(trace.steps[step], events=tuple(events))
        return trace

    return damage


def _block(step: int, **changes: Any) -> Callable[[Trace], Trace]:
    """The trace with the first block of a step's picture changed (an id out of range cannot be loaded)."""

    def damage(trace: Trace) -> Trace:
        first, *rest = trace.steps[step].blocks
        trace.steps[step] = replace(trace.steps[step], blocks=(replace(first, **changes), *rest))
        return trace

    return damage


def _never_given_back(trace: Trace) -> Trace:
    """Events and picture agree that everybody has finished and one table still lists its blocks."""
    step = trace.steps[2]
    events = step.events[:10] + step.events[14:]
    last = replace(step.sequences[1], block_table=(5, 2))
    full, half, _ = trace.steps[1].blocks
    blocks = (replace(full, ref=1), replace(half, filled=4, token_ids=(15, 16, 31, 32)))
    trace.steps[2] = replace(step, events=events, sequences=(step.sequences[0], last), blocks=blocks)
    return trace


def _drop(kind: type[Event], nth: int = 0) -> Callable[[list[Event]], None]:
    def change(events: list[Event]) -> None:
        events.pop([k for k, e in enumerate(events) if isinstance(e, kind)][nth])

    return change


def _change(kind: type[Event], nth: int = 0, **fields: Any) -> Callable[[list[Event]], None]:
    def change(events: list[Event]) -> None:
        k = [k for k, e in enumerate(events) if isinstance(e, kind)][nth]
        events[k] = replace(events[k], **fields)

    return change


def _twice(kind: type[Event]) -> Callable[[list[Event]], None]:
    def change(events: list[Event]) -> None:
        k = next(k for k, e in enumerate(events) if isinstance(e, kind))
        events.insert(k, events[k])

    return change


DAMAGED = [
    # rule, step, where, what was done to the example
    (1, 1, "block 2", "the same block twice", _picture("steps.1.blocks.0.id", 2)),
    (1, 0, "block 5", "cached, yet counted", _picture("steps.0.blocks.0.state", "cached")),
    (1, 0, "block 8", "an id out of range", _block(0, id=8)),
    (1, 0, "block 5", "used by nobody", _picture("steps.0.blocks.0.ref", 0)),
    (2, 0, "block 5", "one count too many", _picture("steps.0.blocks.0.ref", 3)),
    (2, 1, "block 2", "a table lists another block", _picture("steps.1.sequences.0.block_table.1", 2)),
    (2, 0, "block 2", "a listed block is free", _picture("steps.0.blocks.1", ...)),
    (2, 0, "block 5", "an event's count is wrong", _events(0, _change(Share, ref=4))),
    (2, 1, "r0.0", "swapped out with blocks", _picture("steps.1.sequences.0.state", "swapped")),
    (3, 0, "r0.0", "a block early", _picture("steps.0.sequences.0.written", 3)),
    (3, 0, "r0.0", "a hole in the middle", _block(0, filled=3, token_ids=(11, 12, 13))),
    (4, 1, "block 2", "no copy before the write", _events(1, lambda e: e.__setitem__(
        slice(0, 2), [Write("r0.0", 6, 2, 2, 1)]))),
    (4, 1, "block 2", "the write before the copy", _events(1, lambda e: e.insert(0, e.pop(2)))),
    (4, 0, "block 3", "a write into a free block", _events(0, _change(Write, block=3))),
    (5, 0, "block 5", "another token in a slot", _picture("steps.0.blocks.0.token_ids.1", 99)),
    (5, 1, "block 7", "a slot too few", _picture("steps.1.blocks.2.token_ids", [15, 16])),
    (5, 1, "block 2", "another history", _picture("steps.1.sequences.1.token_ids.5", 99)),
    (6, 0, "r0.1", "no fork", _events(0, lambda e: e.__delitem__(slice(8, 11)))),
    (4, 0, "block 2", "a write into a block never taken", _events(0, _change(Allocate, nth=1, block=3))),
    (6, 0, "r0.0", "another token was sampled", _picture("steps.0.events.11.token_id", 99)),
    (6, 1, "r0.0", "nobody sampled", _events(1, lambda e: e.__delitem__(slice(3, 5)))),
    (6, 1, "r0.0", "a state from nowhere", _picture("steps.1.sequences.0.state", "waiting")),
    (6, 2, "block 7", "never set free", _events(2, _drop(Free))),
    (6, 2, "block 7", "cached instead of freed", _events(2, lambda e: e.__setitem__(6, Cache(7)))),
    (6, 1, "block 5", "copied onto a used block", _events(1, _change(Copy, target=5))),
    (6, 1, "r0.0", "a write that never happened", _events(1, _drop(Write))),
    (6, 0, "r0.0", "blocks appended out of order", _events(0, _change(Allocate, logical=1))),
    (7, 2, "block 5", "a block that nobody gave back", _never_given_back),
    (8, 1, "r0.0", "written twice", _events(1, _twice(Write))),
    (8, 0, "r0.0", "written out of order", _events(0, lambda e: e.insert(6, e.pop(7)))),
]  # fmt: skip


@pytest.mark.parametrize(
    ("rule", "step", "where", "damage"),
    [(rule, step, where, damage) for rule, step, where, _, damage in DAMAGED],
    ids=[f"{rule}: {what}" for rule, _, _, what, _ in DAMAGED],
)
def test_a_damaged_trace_is_rejected(
    rule: int, step: int, where: str, damage: Callable[[Trace], Trace]
) -> None:
    violation = verify(damage(load(EXAMPLE)))
    assert violation is not None
    assert (violation.rule, violation.step, violation.where) == (rule, step, where), violation
    assert str(violation).startswith(f"rule {rule} does not hold after step {step}: ")


def test_every_rule_has_a_damaged_trace() -> None:
    assert {rule for rule, *_ in DAMAGED} == {1, 2, 3, 4, 5, 6, 7, 8}


HOST = [
    (6, 1, "host block 0", "not swapped out", lambda events: events.pop(2)),
    (6, 1, "host block 1", "two blocks in one", lambda e: e.__setitem__(3, replace(e[3], host_block=0))),
    (6, 2, "host block 5", "from an empty one", lambda e: e.__setitem__(0, replace(e[0], host_block=5))),
    (6, 2, "r0.0", "the wrong one first", lambda e: e.__setitem__(slice(0, 2), [
        replace(e[0], host_block=1), replace(e[1], host_block=0)])),
]  # fmt: skip


@pytest.mark.parametrize(
    ("step", "where", "change"), [(s, w, c) for _, s, w, _, c in HOST], ids=[what for *_, what, _ in HOST]
)
def test_damage_on_the_host_is_rejected(step: int, where: str, change: Callable[[list[Event]], Any]) -> None:
    violation = verify(_events(step, change)(stories.swapped()))
    assert violation is not None
    assert (violation.rule, violation.step) == (6, step), violation


def test_an_unannounced_eviction_is_rejected() -> None:
    violation = verify(_events(5, lambda events: events.pop(3))(stories.evicted()))
    assert violation is not None and violation.rule == 6
    assert "cached, and was not evicted first" in violation.sentence


def test_a_write_into_a_cached_block_is_rejected() -> None:
    story = stories.evicted()
    violation = verify(_events(5, lambda events: events.pop(2))(story))
    assert violation is not None and violation.rule == 6  # its table is empty: nothing is where it should be
    violation = verify(_events(5, lambda e: e.insert(3, Write("r1.0", 4, 6, 0, 2)))(stories.evicted()))
    assert violation is not None and violation.rule == 4
    assert "cached" in violation.sentence


def test_positions_after_a_share_are_not_written_again() -> None:
    story = stories.recomputed()
    wrong = [Write("r0.0", 3, 5, 3, 1), *story.steps[3].events[3:]]
    violation = verify(_events(3, lambda e: e.__setitem__(slice(3, None), wrong))(story))
    assert violation is not None and violation.rule == 8
    assert "position 4 is next" in violation.sentence


def test_of_several_damaged_steps_the_first_is_named() -> None:
    trace = _block(2 - 1, ref=9)(_block(0, token_ids=(1, 2, 3, 4))(load(EXAMPLE)))
    violation = verify(trace)
    assert violation is not None and (violation.step, violation.rule) == (0, 5)


def test_two_runs_are_the_same_but_for_their_times() -> None:
    a, b = load(EXAMPLE), load(EXAMPLE)
    b.steps[1] = replace(b.steps[1], time_ms=TimeMs(plan=9.0, forward=9.0, sample=9.0))
    assert same_but_for_times(a, b) and first_difference(a, b) is None


@pytest.mark.parametrize(
    ("where", "change"),
    [
        ("meta", lambda trace: trace.meta.update(seed=1)),
        ("tokens", lambda trace: trace.tokens.update({1: b"x"})),
        ("requests", lambda trace: trace.requests.append(trace.requests[0])),
        ("steps", lambda trace: trace.steps.pop()),
        ("events", lambda trace: _put(trace, 1, events=trace.steps[1].events[1:])),
        ("blocks", lambda trace: _put(trace, 0, blocks=trace.steps[0].blocks[1:])),
    ],
)
def test_two_runs_that_differ_break_rule_9(where: str, change: Callable[[Trace], Any]) -> None:
    a, b = load(EXAMPLE), load(EXAMPLE)
    change(b)
    difference = first_difference(a, b)
    assert difference is not None and (difference.rule, difference.where) == (9, where)
    assert not same_but_for_times(a, b) and not same_but_for_times(b, a)


def _put(trace: Trace, k: int, **changes: Any) -> None:
    step: Step = replace(trace.steps[k], **changes)
    trace.steps[k] = step
