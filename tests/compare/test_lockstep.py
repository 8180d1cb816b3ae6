"""Lock-step on traces of the real scheduler: what differs between the strategies, and what must not."""

from __future__ import annotations

from time import process_time

import pytest

from core.compare.lockstep import PAGED, Lockstep, lockstep
from core.compare.report import StepReport, final_lengths, max_model_len_of
from core.config import EngineConfig
from core.memory.contiguous import STRATEGIES
from core.memory.views import RequestView
from core.trace.step import Trace
from tests.compare.runs import ideal_run, request
from tests.compare.scheduled import run

ALL = (PAGED, *STRATEGIES)
LENGTHS = ((5, 23), (17, 9), (33, 28), (100, 12), (9, 7), (21, 28), (5, 16), (48, 20))  # prompt, answer


def ragged(**change: object) -> Trace:
    """The default comparison (E1): prompts of 5, 17, 33, 100 tokens, answers of 7 to 28, and memory the
    limit."""
    config = EngineConfig(**{"block_size": 4, "num_blocks": 64, "max_model_len": 128} | change)  # type: ignore[arg-type]
    requests, lengths = [], {}
    for i, (prompt, new) in enumerate(LENGTHS):
        requests.append(request(i, prompt, new, most=28, arrival=i))
        lengths[f"r{i}.0"] = new
    return run(config, requests, lengths)


@pytest.fixture(scope="module")
def trace() -> Trace:
    return ragged()


@pytest.fixture(scope="module")
def reports(trace: Trace) -> list[dict[str, StepReport]]:
    return lockstep(trace, ALL)


def peak(reports: list[dict[str, StepReport]], name: str, what: str) -> int:
    return max(getattr(report[name].usage, what) for report in reports)


def test_the_default_comparison_makes_the_strategies_differ(reports: list[dict[str, StepReport]]) -> None:
    """E1: a comparison in which all columns are alike teaches nothing. Memory is the limit, lengths are
    ragged."""
    running = {name: peak(reports, name, "running") for name in ALL}
    assert running["paged"] >= 2 * running["reserve max"]
    assert running["reserve max"] < running["exact"] <= running["paged"]
    assert peak(reports, "paged", "waiting") > 0 or peak(reports, "paged", "free") < 256, "memory is no limit"
    assert peak(reports, "reserve max", "waiting") > peak(reports, "exact", "waiting")
    for what in ("internal", "reserved"):
        assert len({peak(reports, name, what) for name in ALL}) >= 5, what
    assert any(peak(reports, name, "external") > 0 for name in STRATEGIES), "nobody is fragmented"
    copied = {name: reports[-1][name].usage.copied for name in ALL}
    assert copied["grow by one"] > 5 * copied["doubling"] > 0 == copied["reserve max"]
    assert reports[-1]["no cache"].recomputed > 10 * reports[-1]["paged without sharing"].recomputed
    assert len({tuple(r[name].usage.running for r in reports) for name in ALL}) >= 6


def test_all_strategies_serve_every_token(trace: Trace, reports: list[dict[str, StepReport]]) -> None:
    served = {r.owner for report in reports for r in report["reserve max"].runs}
    assert served == {f"r{i}.0" for i in range(8)}
    for name in STRATEGIES:
        last = reports[-1][name]
        assert last.usage.free == last.usage.capacity == 256
        # The run of 104 lies in the middle of 256 slots: no 105 in a row beside it.
        expected = {"r3.0": "no room"} if name == "grow by one" else {}
        assert {stop.sequence: stop.reason for stop in last.stopped} == expected
    assert len(reports) > len(trace.steps), "whoever admits later finishes later"
    assert len(lockstep(trace, ALL, drain=False)) == len(trace.steps)


def test_the_first_steps_are_those_of_the_cut_run(trace: Trace, reports: list[dict[str, StepReport]]) -> None:
    cut = lockstep(trace, ALL, drain=False)
    assert cut == reports[: len(cut)]


def test_the_traces_own_run_is_as_recorded(trace: Trace, reports: list[dict[str, StepReport]]) -> None:
    for step, report in zip(trace.steps, reports, strict=False):
        own = report[PAGED]
        assert own.usage == step.usage[0]
        assert sum(r.live for r in own.runs) == own.usage.live + own.usage.cached
        assert sum(r.usable - r.live for r in own.runs if r.owner) == own.usage.reserved
    waits = [report[PAGED].waiting for report in reports[: len(trace.steps)]]
    known = [wait for wait in waits if wait is not None]
    assert known and all(wait.need > wait.free for wait in known if wait.reason == "full")


def test_waits_say_what_is_needed(reports: list[dict[str, StepReport]]) -> None:
    seen = [report["reserve max"].waiting for report in reports]
    first = next(wait for wait in seen if wait is not None)
    assert (first.need, first.runs, first.growing) == (128, 1, False)
    assert first.free < 128 and first.reason == "full"


def test_hindsight_only_moves_reserved(trace: Trace, reports: list[dict[str, StepReport]]) -> None:
    truth = lockstep(trace, ALL, hindsight=True)
    assert len(truth) == len(reports)
    moved = 0
    for known, after in zip(reports, truth, strict=True):
        for name in ALL:
            a, b = known[name].usage, after[name].usage
            assert (a.live, a.external, a.cached, a.free) == (b.live, b.external, b.cached, b.free)
            assert b.reserved <= a.reserved and a.reserved + a.internal == b.reserved + b.internal
            moved += a.reserved - b.reserved if name == "reserve max" else 0
    assert moved > 0


def test_shared_blocks_count_once_and_contiguous_strategies_cannot_share() -> None:
    trace = run(EngineConfig(block_size=4, num_blocks=32, max_model_len=32), [request(0, 10, 6, n=3)])
    reports = lockstep(trace, (PAGED, "paged without sharing", "exact"))
    live = {name: reports[0][name].usage.live for name in reports[0]}
    assert live == {PAGED: 10, "paged without sharing": 30, "exact": 30}
    shared = reports[0][PAGED].runs
    assert [run.owner for run in shared] == ["r0.0+r0.1+r0.2"] * 3
    assert reports[0]["exact"].usage.copied == 0, "each answer computes the prompt into a run of its own"


def test_a_preempting_paged_run_is_followed_without_repeating(trace: Trace) -> None:
    small = ragged(num_blocks=40)
    assert any(event.name == "preempt" for step in small.steps for event in step.events)
    reports = lockstep(small, ("exact", "doubling", "reserve max"))
    lives = [report["exact"].usage.live for report in reports]
    finals = final_lengths(small)
    assert max(lives) <= sum(finals.values())
    assert reports[-1]["exact"].recomputed == 0


def test_estimate_compaction_and_policy_reach_the_strategies(trace: Trace) -> None:
    stopped = lockstep(trace, ("reserve max",), estimate=20)[-1]["reserve max"].stopped
    assert {stop.reason for stop in stopped} == {"estimate"}
    moved = lockstep(trace, ("reserve max",), estimate=20, overflow="move")[-1]["reserve max"]
    assert not moved.stopped and moved.usage.copied > 0
    plain = lockstep(trace, ("exact",), policy="first fit")
    squeezed = lockstep(trace, ("exact",), policy="first fit", compact_at=range(200))
    assert squeezed[-1]["exact"].usage.copied > plain[-1]["exact"].usage.copied == 0
    waited = [sum(r["exact"].usage.waiting for r in found) for found in (squeezed, plain)]
    assert waited[0] < waited[1]
    buddy = lockstep(trace, ("exact",))
    assert peak(buddy, "exact", "internal") > peak(plain, "exact", "internal") == 0
    with pytest.raises(ValueError, match="no strategy"):
        lockstep(trace, ("magic",))


def test_without_knowing_the_lengths_exact_goes_by_max_new(trace: Trace) -> None:
    informed = lockstep(trace, ("exact",), policy="first fit")
    blind = lockstep(trace, ("exact",), policy="first fit", know_lengths=False)
    assert informed[0]["exact"].runs[0].length == 5 + 23 - 1
    assert blind[0]["exact"].runs[0].length == 5 + 28 - 1


def test_max_model_len_is_found_where_the_trace_says_it(trace: Trace) -> None:
    assert max_model_len_of(trace) == 128
    bare = Trace(meta={}, requests=[request(0, 5, 4)])
    assert max_model_len_of(bare) == 9


def test_cost_at_64_sequences() -> None:
    """All eight strategies at 64 running sequences: well under 5 % of a decode step (hundreds of ms on a
    CPU)."""
    requests = [request(i, 20 + i % 40, 60) for i in range(64)]
    pictures = list(ideal_run(requests, [60] * 64))
    table: dict[str, RequestView] = {r.id: r for r in requests}
    best = 1e9
    for _ in range(3):
        followers = Lockstep(STRATEGIES, capacity=65_536, max_model_len=512)
        began = process_time()
        for index, views in enumerate(pictures):
            followers.advance(index, views, table)
        best = min(best, (process_time() - began) / len(pictures))
    assert best < 10e-3, f"{1e3 * best:.1f} ms a step"
