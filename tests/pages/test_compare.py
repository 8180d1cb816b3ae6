"""The comparison as plain data: strips that add up, what is said, settings that make strategies differ."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from itertools import combinations
from typing import Any

import pytest

from core.compare.report import StepReport
from core.memory.views import Usage
from core.scenarios import LESSONS, SCENARIOS, recorded_path
from core.trace import Trace, load
from pages.parts.compare_page import OPENS_WITH, move
from pages.parts.compare_payload import compare_payload
from pages.parts.compare_run import (
    ALL,
    POLICIES,
    TICKED,
    Choices,
    Reports,
    Runs,
    can_compact,
    estimates,
    opening_step,
    policy_of,
)
from pages.parts.compare_say import Names, note, why
from pages.parts.compare_strips import segments, sums
from pages.parts.words import LANGUAGES

OPENING = OPENS_WITH.removeprefix("lesson:")


@cache
def lesson(name: str) -> Trace:
    return load(recorded_path(name))


def compared(name: str = OPENING, **changes: Any) -> tuple[Trace, Choices, Reports]:
    choices = Choices(trace=name, **changes)
    return lesson(name), choices, Runs().reports(lesson(name), choices)


def settings() -> Iterator[dict[str, Any]]:
    for policy in POLICIES:
        yield {"policy": policy}
        yield {"policy": policy, "estimate": 6, "overflow": "move", "hindsight": True}
    yield {"estimate": 6, "overflow": "stop"}
    yield {"compact_at": {name: (6, 20) for name in SCENARIOS}}


@pytest.mark.parametrize("name", [name for name in SCENARIOS if recorded_path(name).exists()])
def test_every_strip_adds_up_to_its_usage(name: str) -> None:
    for changes in settings():
        trace, choices, reports = compared(name, strategies=ALL, **changes)
        places = Names(trace, "en").places
        for index, step in enumerate(reports):
            for strategy, report in step.items():
                strip = segments(report, places, policy_of(strategy, choices.policy))
                wanted = {kind: getattr(report.usage, kind) for kind in sums([])}
                assert sums(strip) == wanted, (changes, index, strategy)


def test_the_page_opens_with_settings_that_make_the_strategies_differ() -> None:
    """Case E1: ragged lengths, memory the limit; every column of the table tells the strategies apart."""
    trace, choices, reports = compared()
    lengths = [len(view.token_ids) for view in trace.steps[-1].sequences]
    assert len(set(lengths)) >= 6, "ragged"
    assert sum(length % int(trace.meta["block_size"]) != 0 for length in lengths) >= 5, "no multiples"
    whole = {n: [step[n].usage for step in reports] for n in TICKED}
    most = {name: max(usage.running for usage in column) for name, column in whole.items()}
    assert most["paged"] >= 2 * most["reserve max"] and len(set(most.values())) >= 3
    assert all(sum(u.waiting for u in whole[name]) > 0 for name in TICKED), "memory is the limit for all"
    payload = compare_payload(trace, reports, opening_step(reports), choices, "en")
    rows = payload["rows"]
    for kind in ("live", "reserved", "internal", "external", "running", "waiting"):
        assert len({row["now"][kind] for row in rows}) >= 3, kind
    for one, other in combinations(rows, 2):
        figures = [(one[part][key], other[part][key]) for part in ("now", "so_far") for key in one[part]]
        assert sum(a != b for a, b in figures) >= 4, (one["name"], other["name"])
    assert len({row["whole"]["steps"] for row in rows}) >= 4
    assert len({row["whole"]["mean"] for row in rows}) >= 4


def test_a_switch_of_the_policy_changes_what_happens() -> None:
    steps = {p: len(Runs().reports(*first_two(strategies=("exact",), policy=p))) for p in POLICIES}
    assert steps["best fit"] < steps["first fit"], "best fit is done sooner on this crowd"
    assert steps["buddy"] == steps["own"]


def first_two(**changes: Any) -> tuple[Trace, Choices]:
    return lesson(OPENING), Choices(trace=OPENING, **changes)


def test_what_waits_says_why_with_its_numbers() -> None:
    trace, _, reports = compared()
    report = reports[6]["exact"]
    assert report.waiting is not None and report.waiting.reason == "fragmented"
    assert why(report.waiting, Names(trace, "en")) == (
        "E waits: needs 18 in a row; 27 are free, the longest run is 17"
    )
    said = why(report.waiting, Names(trace, "zh"))
    assert said == "E 在等：要连续 18 个槽位；空着 27 个，最长一段只有 17 个"


def test_an_estimate_that_is_too_small_stops_or_moves() -> None:
    trace, _, reports = compared(estimate=10, overflow="stop")
    assert {stop.reason for stop in reports[-1]["exact"].stopped} == {"estimate"}
    stop = reports[-1]["exact"].stopped[0]
    told = note("exact", reports[stop.step]["exact"], Names(trace, "en"), stop.step)
    assert told == f"A stops after {stop.written} tokens: its run is full, the estimate was too small"
    assert [step["reserve max"] for step in reports] == [s["reserve max"] for s in compared()[2]], (
        "not estimated"
    )

    trace, choices, reports = compared(estimate=10, overflow="move")
    assert not reports[-1]["exact"].stopped and reports[-1]["exact"].usage.copied > 0
    moved = [
        segment
        for step in reports
        for segment in segments(step["exact"], {}, "first fit")
        if segment[3] == "moved"
    ]
    assert moved, "the move is marked in the step in which it happens"
    assert "move" in {kind for _, kind in compare_payload(trace, reports, 0, choices, "en")["marks"]}


def test_compaction_makes_one_hole_and_says_what_it_cost() -> None:
    before = compared()[2]
    trace, choices, reports = compared(compact_at={OPENING: (6,)})
    report = reports[6]["exact"]
    assert report.compacted == 63 and report.usage.copied == before[6]["exact"].usage.copied + 63
    assert report.usage.running == before[6]["exact"].usage.running + 1, "who waited goes on"
    holes = [s for s in segments(report, {}, "first fit") if s[0] in ("hole", "free")]
    assert len(holes) == 1
    assert reports[5] == before[5], "nothing before it changes"
    head, text = compare_payload(trace, reports, 6, choices, "en")["say"]
    megabytes = 63 * trace.meta["bytes_per_token"] / 1e6
    assert head.startswith("Paged runs") and f"Reserve exactly 63 ({megabytes:.1f} MB)" in text
    assert len(reports) < len(before) or report != before[6]


def test_only_first_and_best_fit_can_be_compacted() -> None:
    assert can_compact(Choices(policy="first fit")) and can_compact(Choices(policy="own"))
    assert not can_compact(Choices(policy="buddy"))
    assert not can_compact(Choices(strategies=("paged", "promised pages", "no cache")))
    same = compared(policy="buddy", compact_at={OPENING: (6,)})[2]
    assert same == compared(policy="buddy")[2]


def test_hindsight_turns_reserved_into_internal() -> None:
    known, hindsight = compared()[2], compared(hindsight=True)[2]
    for now, then in zip(known, hindsight, strict=True):
        for name in TICKED:
            a, b = now[name].usage, then[name].usage
            assert a.reserved + a.internal == b.reserved + b.internal and b.internal >= a.internal
    assert any(
        b["paged"].usage.internal > a["paged"].usage.internal for a, b in zip(known, hindsight, strict=True)
    )


def test_all_strategies_are_at_the_same_step_until_the_last_one_is_done() -> None:
    trace, _, reports = compared(strategies=ALL)
    assert len(reports) > len(trace.steps) and all(list(step) == list(ALL) for step in reports)
    assert all(report.usage.running == report.usage.waiting == 0 for report in reports[-1].values())
    assert all(not report.events for name, report in reports[-1].items() if name == "exact")


@pytest.mark.parametrize("lang", LANGUAGES)
def test_every_step_of_every_lesson_can_be_drawn(lang: str) -> None:
    for path in sorted(LESSONS.glob("*.gz")):
        trace = load(path)
        choices = Choices(trace="x", strategies=ALL, estimate=6)
        reports = Runs().reports(trace, choices)
        for index in range(0, len(reports), 5):
            payload = compare_payload(trace, reports, index, choices, lang)
            assert json.loads(json.dumps(payload)) == payload
            assert all(row["label"] and row["note"] for row in payload["rows"]) and payload["say"][0]


def test_an_index_outside_is_the_nearest_and_no_reports_are_said() -> None:
    trace, choices, reports = compared()
    assert compare_payload(trace, reports, 10_000, choices, "en")["index"] == len(reports) - 1
    assert compare_payload(trace, reports, -3, choices, "en")["index"] == 0
    empty = compare_payload(trace, [], 0, choices, "en")
    assert empty["rows"] == [] and empty["say"][1]


def test_lines_hold_the_values_of_every_step() -> None:
    trace, choices, reports = compared()
    payload = compare_payload(trace, reports, 0, choices, "en")
    for row in payload["rows"]:
        for key in ("live", "running"):
            line = dict(row["lines"][key])
            value = 0
            for index, step in enumerate(reports):
                value = line.get(index, value)
                assert value == getattr(step[row["name"]].usage, key)


@pytest.mark.parametrize(
    ("action", "goal"),
    [
        ({"do": "step"}, 6), ({"do": "back"}, 4), ({"do": "start"}, 0), ({"do": "end"}, 9),
        ({"do": "goto", "arg": 3}, 3), ({"do": "goto", "arg": 99}, 9), ({"do": "goto", "arg": "x"}, 5),
        ({"do": "goto", "arg": True}, 5), ({"do": "goto"}, 5), ({"do": None}, 5), ({}, 5),
        ({"do": "jump"}, 5), ({"do": ["step"]}, 5),
    ],
)  # fmt: skip
def test_where_an_action_leads(action: dict[str, Any], goal: int) -> None:
    assert move(action, 5, 9) == goal


def test_ticking_one_more_runs_that_one_only(monkeypatch: pytest.MonkeyPatch) -> None:
    from pages.parts import compare_run

    ran: list[str] = []
    real = compare_run.lockstep

    def counting(trace: Trace, names: tuple[str, ...], **options: Any) -> list[dict[str, StepReport]]:
        ran.extend(names)
        return real(trace, names, **options)

    monkeypatch.setattr(compare_run, "lockstep", counting)
    runs = Runs()
    runs.reports(*first_two(strategies=("exact", "paged")))
    runs.reports(*first_two(strategies=("exact", "doubling", "paged")))
    runs.reports(*first_two(strategies=("exact", "doubling"), estimate=6))
    assert ran == ["exact", "paged", "doubling", "exact"], "doubling goes by no estimate"


def test_estimates_end_with_the_true_length() -> None:
    steps = estimates(lesson(OPENING))
    assert steps[-1] == 0 and steps[:-1] == sorted(set(steps[:-1])) and max(steps) >= 40


def test_a_buddy_gap_is_cut_as_the_allocator_has_it() -> None:
    report = StepReport(Usage(strategy="exact", capacity=44, free=44), (), None, own_runs=())
    assert segments(report, {}, "buddy") == [["free", 44, [], ""]]
    assert OPENING in SCENARIOS
