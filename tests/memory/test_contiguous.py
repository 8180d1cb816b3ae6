"""The strategies, one by one: exact addresses, figures and events on small runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from core.memory.contiguous import STRATEGIES, make_strategy
from core.memory.events import GiveBack, Grow, Reserve
from core.memory.holders import Copied
from core.memory.strategy import Strategy
from core.memory.strips import Run
from core.memory.views import RequestView, SequenceView
from tests.compare.runs import ideal_run, request

EXAMPLE = Path(__file__).parent.parent / "data" / "example.kvtrace.json"


def follow(strategy: Strategy, requests: list[RequestView], lengths: list[int], extra: int = 0) -> None:
    """Let the strategy follow a run with memory for all, and ``extra`` steps after its end."""
    table = {r.id: r for r in requests}
    views: tuple[SequenceView, ...] = ()
    index = -1
    for index, views in enumerate(ideal_run(requests, lengths)):
        strategy.advance(index, views, table)
    for more in range(extra):
        strategy.advance(index + 1 + more, views, table)


def step_by_step(strategy: Strategy, requests: list[RequestView], lengths: list[int], extra: int = 0) -> Any:
    """As ``follow``, but gives (events, usage) after each step."""
    table = {r.id: r for r in requests}
    pictures = list(ideal_run(requests, lengths))
    for index, views in enumerate(pictures + pictures[-1:] * extra):
        yield strategy.advance(index, views, table), strategy.usage()


def test_the_example_of_the_trace_format() -> None:
    """Every reserve and give_back, and every figure, as the format's own example has them."""
    data = json.loads(EXAMPLE.read_text())
    requests = {
        r["id"]: RequestView(
            id=r["id"], prompt_text="", prompt_token_ids=tuple(r["prompt_token_ids"]), mode=r["mode"],
            n=r["n"], max_new_tokens=r["max_new_tokens"],
        )
        for r in data["requests"]
    }  # fmt: skip
    strategy = make_strategy("reserve max", capacity=32, max_model_len=16)
    for step in data["steps"]:
        views = tuple(
            SequenceView(**s | {"token_ids": tuple(s["token_ids"]), "block_table": tuple(s["block_table"])})
            for s in step["sequences"]
        )
        events = strategy.advance(step["index"], views, requests)
        expected = [e for e in step["events"] if e["event"] in ("reserve", "grow", "give_back")]
        assert [event.to_dict() for event in events] == expected
        usage = strategy.usage()
        for key, value in step["usage"][1].items():
            assert getattr(usage, key) == value, key


def test_reserve_max_holds_the_longest_possible_run() -> None:
    strategy = make_strategy("reserve max", capacity=40, max_model_len=16)
    steps = list(step_by_step(strategy, [request(0, 5, 9, most=10)], [9]))
    assert steps[0][0] == (Reserve("reserve max", "r0.0", 0, 16),)
    first = steps[0][1]
    assert (first.live, first.reserved, first.internal, first.free) == (5, 9, 2, 24)
    last = steps[7][1]
    assert (last.live, last.reserved, last.internal) == (12, 2, 2), "one of ten tokens never came"


def test_grow_by_one_copies_everything_at_every_step() -> None:
    strategy = make_strategy("grow by one", capacity=40, max_model_len=16)
    steps = list(step_by_step(strategy, [request(0, 5, 4)], [4]))
    assert [events for events, _ in steps] == [
        (Reserve("grow by one", "r0.0", 0, 5),),
        (Grow("grow by one", "r0.0", 5, 6, 0, 5, 5),),
        (Grow("grow by one", "r0.0", 11, 7, 5, 6, 6),),
        (Grow("grow by one", "r0.0", 0, 8, 11, 7, 7), GiveBack("grow by one", "r0.0", 0, 8)),
    ]
    assert strategy.copied == 5 + 6 + 7


def test_grow_by_one_needs_old_and_new_at_once() -> None:
    """12 slots: a move to 6 slots holds 5 + 6; one to 7 would hold 6 + 7. Alone, it stops visibly."""
    strategy = make_strategy("grow by one", capacity=12, max_model_len=16)
    follow(strategy, [request(0, 5, 4)], [4], extra=3)
    stop = strategy.stopped["r0.0"]
    assert (stop.reason, stop.need, stop.free, stop.longest, stop.written) == ("no room", 7, 6, 5, 6)
    assert strategy.idle and strategy.usage().free == 12


def test_doubling_copies_when_full_and_frees_the_old_run() -> None:
    strategy = make_strategy("doubling", capacity=64, max_model_len=64)
    steps = list(step_by_step(strategy, [request(0, 4, 14)], [14]))
    grown = [event for events, _ in steps for event in events if isinstance(event, Grow)]
    assert grown == [
        Grow("doubling", "r0.0", 4, 8, 0, 4, 4),
        Grow("doubling", "r0.0", 12, 16, 4, 8, 8),
        Grow("doubling", "r0.0", 28, 32, 12, 16, 16),
    ]
    assert strategy.copied == 28
    usage = steps[5][1]  # 9 tokens in a run of 16
    assert (usage.live, usage.reserved, usage.internal) == (9, 7, 0)
    usage = steps[12][1]  # 16 of at most 17
    assert (usage.live, usage.reserved, usage.internal) == (16, 0, 0)


def test_power_of_two_rounds_the_output_and_the_run() -> None:
    """9 new tokens count as 16: 6 + 16 - 1 = 21 slots, and the buddy allocator makes that 32."""
    strategy = make_strategy("reserve power of two", capacity=64, max_model_len=64)
    (events, usage), *_ = step_by_step(strategy, [request(0, 6, 9)], [9])
    assert events == (Reserve("reserve power of two", "r0.0", 0, 32),)
    assert (usage.live, usage.reserved, usage.internal) == (6, 8, 18)


def test_exact_knows_the_true_length() -> None:
    for finals, held in (({"r0.0": 8}, 8), (None, 32)):
        strategy = make_strategy("exact", capacity=64, max_model_len=64, final_lengths=finals)
        (events, _), *_ = step_by_step(strategy, [request(0, 6, 3, most=20)], [3])
        assert events == (Reserve("exact", "r0.0", 0, held),)


def test_promised_pages_are_reserved_and_never_run_dry() -> None:
    strategy = make_strategy("promised pages", capacity=24, max_model_len=64, block_size=4)
    requests = [request(0, 5, 6), request(1, 3, 8), request(2, 2, 3)]
    steps = list(step_by_step(strategy, requests, [6, 8, 3], extra=4))
    usage = steps[0][1]  # 10 slots = 3 pages each, 6 in all; the third request waits
    assert (usage.live, usage.reserved, usage.internal, usage.free) == (8, 12, 4, 0)
    assert usage.waiting == 1 and usage.external == 0
    assert strategy.idle and not strategy.stopped and strategy.preempted == 0


def test_paged_without_sharing_preempts_the_youngest() -> None:
    strategy = make_strategy("paged", capacity=16, max_model_len=64, block_size=4)
    follow(strategy, [request(0, 4, 9), request(1, 4, 9)], [9, 9], extra=20)
    assert strategy.name == "paged without sharing"
    assert strategy.preempted == 1 and strategy.recomputed > 0
    assert strategy.idle and not strategy.stopped


def test_no_cache_holds_nothing_and_computes_all_again() -> None:
    strategy = make_strategy("no cache", capacity=8, max_model_len=8)
    for _, usage in step_by_step(strategy, [request(0, 6, 4)], [4]):
        assert usage.live == 0 and usage.free == 8
    assert strategy.recomputed == 6 + 7 + 8
    assert strategy.computed == 6 + 7 + 8 + 9


def test_first_come_first_served_and_why_the_head_waits() -> None:
    """needs 32 in a row; 48 are free, the longest run is 20 (the same kind, smaller): A, B, C; B stays."""
    strategy = make_strategy("exact", capacity=24, max_model_len=64, policy="first fit")
    requests = [request(0, 4, 5), request(1, 4, 13), request(2, 3, 6), request(3, 8, 5, arrival=1),
                request(4, 1, 1, arrival=1)]  # fmt: skip
    table = {r.id: r for r in requests}
    pictures = list(ideal_run(requests, [5, 13, 6, 5, 1]))
    for index, views in enumerate(pictures[:2]):
        strategy.advance(index, views, table)
    assert [run[:3] for run in strategy.runs()] == [(0, 8, "r0.0"), (8, 16, "r1.0")]
    waiting = strategy.head_of_queue()
    assert waiting is not None and waiting.request == "r2" and waiting.reason == "full"
    follow(strategy2 := make_strategy("exact", capacity=24, max_model_len=64, policy="first fit"),
           requests, [5, 13, 6, 5, 1], extra=30)  # fmt: skip
    assert strategy2.idle and not strategy2.stopped


def test_external_fragmentation_is_what_no_need_fits_into() -> None:
    strategy = make_strategy("exact", capacity=12, max_model_len=64, policy="first fit")
    requests = [request(0, 4, 1), request(1, 4, 5), request(2, 6, 3, arrival=1)]
    steps = list(step_by_step(strategy, requests, [1, 5, 3], extra=12))
    usage = steps[1][1]  # r0 gone: [0, 4) free; r1 holds [4, 12); r2 needs 8
    assert (usage.free, usage.external, usage.waiting) == (0, 4, 1)
    assert steps[4][1].free == 12, "r1 has gone; r2 goes on in the next step"
    assert strategy.idle


def test_fragmented_and_next_are_told_apart() -> None:
    strategy = make_strategy("exact", capacity=16, max_model_len=64, policy="first fit")
    requests = [request(0, 4, 1), request(1, 4, 5), request(2, 4, 1), request(3, 6, 3, arrival=1)]
    table = {r.id: r for r in requests}
    reasons = []
    pictures = list(ideal_run(requests, [1, 5, 1, 3]))
    for index, views in enumerate(pictures):
        strategy.advance(index, views, table)
        head = strategy.head_of_queue()
        reasons.append(head and (head.reason, head.need, head.free, head.longest))
    assert reasons[0] is None
    assert reasons[1] == ("fragmented", 8, 8, 4), "[0, 4) and [12, 16) are free"
    assert reasons[4] == ("next", 8, 16, 16)


def test_an_estimate_that_is_too_small_stops_visibly() -> None:
    strategy = make_strategy("reserve max", capacity=32, max_model_len=32, estimate=8)
    follow(strategy, [request(0, 5, 9)], [9])
    stop = strategy.stopped["r0.0"]
    assert (stop.reason, stop.written, stop.need, stop.step) == ("estimate", 8, 9, 4)
    assert strategy.idle


def test_an_estimate_that_is_too_small_moves() -> None:
    strategy = make_strategy("reserve max", capacity=32, max_model_len=32, estimate=8, overflow="move")
    steps = list(step_by_step(strategy, [request(0, 5, 9)], [9]))
    moved = [event for events, _ in steps for event in events if isinstance(event, Grow)]
    assert moved == [Grow("reserve max", "r0.0", 8, 16, 0, 8, 8)]
    assert not strategy.stopped and strategy.copied == 8


def test_a_request_that_never_fits_is_refused_with_numbers_and_others_go_on() -> None:
    strategy = make_strategy("reserve max", capacity=32, max_model_len=64)
    follow(strategy, [request(0, 5, 3)], [3])
    assert strategy.stopped["r0.0"][2:6] == ("never fits", 64, 32, 32)
    strategy = make_strategy("exact", capacity=16, max_model_len=64)
    follow(strategy, [request(0, 15, 8), request(1, 4, 3)], [8, 3], extra=2)
    assert set(strategy.stopped) == {"r0.0"} and strategy.idle


def test_deadlocked_growth_is_resolved_by_the_youngest_giving_way() -> None:
    strategy = make_strategy("grow by one", capacity=20, max_model_len=64)
    usages = [usage for _, usage in step_by_step(
        strategy, [request(0, 6, 3), request(1, 6, 3)], [3, 3], extra=30)]  # fmt: skip
    assert strategy.preempted == 1 and strategy.recomputed == 6
    assert strategy.idle and not strategy.stopped
    assert [(u.running, u.waiting) for u in usages[:5]] == [(2, 0), (2, 0), (1, 1), (0, 1), (1, 0)]


def test_alone_and_cut_off_by_its_own_run() -> None:
    """A run in the middle leaves 15 slots free and no 10 in a row: it stops, with the numbers."""
    strategy = make_strategy("grow by one", capacity=24, max_model_len=64)
    follow(strategy, [request(0, 6, 6), request(1, 6, 6)], [6, 6], extra=30)
    assert strategy.stopped["r0.0"][2:] == ("no room", 10, 15, 8, 9)


def beam_run(strategy: Strategy) -> list[Any]:
    """Two beams over a prompt of 4: at depth 2 both survivors come from beam 0, and beam 1 is dropped."""
    r = RequestView(
        id="r0", prompt_text="", prompt_token_ids=(1, 2, 3, 4), mode="beam", n=2, max_new_tokens=4
    )

    def view(key: str, parent: str | None, tokens: int, written: int, state: Any = "running") -> SequenceView:
        ids = (1, 2, 3, 4, *range(10, 10 + tokens))
        return SequenceView(
            id=key, request="r0", parent=parent, state=state, token_ids=ids, written=written, block_table=()
        )

    pictures = [
        (view("r0.0", None, 1, 4), view("r0.1", "r0.0", 1, 4)),
        (view("r0.0", None, 2, 5), view("r0.1", "r0.0", 1, 5, "finished"), view("r0.2", "r0.0", 2, 5)),
        (view("r0.0", None, 3, 6, "finished"), view("r0.1", "r0.0", 1, 5, "finished"),
         view("r0.2", "r0.0", 3, 6, "finished")),
    ]  # fmt: skip
    return [strategy.advance(i, views, {"r0": r}) for i, views in enumerate(pictures)]


def test_a_beam_that_forks_copies_its_parents_tokens() -> None:
    strategy = make_strategy("reserve max", capacity=16, max_model_len=8)
    events = beam_run(strategy)
    assert events[0] == (Reserve("reserve max", "r0.0", 0, 8), Reserve("reserve max", "r0.1", 8, 8))
    assert events[1] == (GiveBack("reserve max", "r0.1", 8, 8), Reserve("reserve max", "r0.2", 8, 8))
    assert strategy.copied == 5
    assert strategy.idle


def test_copies_of_a_fork_are_listed_piece_by_piece() -> None:
    strategy = make_strategy("paged", capacity=32, max_model_len=8, block_size=2)
    events = beam_run(strategy)
    assert strategy.copied == 5
    assert strategy.idle
    strategy = make_strategy("paged", capacity=32, max_model_len=8, block_size=2)
    copies = []
    advance = strategy.advance

    def note(*args: Any) -> Any:
        done = advance(*args)
        copies.append(strategy.copies)
        return done

    strategy.advance = note  # type: ignore[method-assign]
    assert beam_run(strategy) == events
    assert copies[1] == (Copied(0, 4, 2), Copied(2, 6, 2), Copied(8, 10, 1))


def test_a_long_prompt_is_followed_in_chunks() -> None:
    r = request(0, 8, 2)
    strategy = make_strategy("reserve max", capacity=16, max_model_len=16)
    for index, (tokens, written) in enumerate([(8, 0), (8, 3), (8, 6), (9, 8)]):
        views = (
            SequenceView(id="r0.0", request="r0", parent=None, state="running",
                         token_ids=tuple(range(tokens)), written=written, block_table=()),
        )  # fmt: skip
        strategy.advance(index, views, {"r0": r})
        assert strategy.usage().live == written


def test_a_lagging_request_is_never_ahead_and_plays_the_same_tokens() -> None:
    strategy = make_strategy("reserve max", capacity=16, max_model_len=16)
    lives = [usage.live for _, usage in step_by_step(
        strategy, [request(0, 5, 3), request(1, 7, 4)], [3, 4], extra=5)]  # fmt: skip
    assert lives == [5, 6, 0, 7, 8, 9, 0, 0, 0]


def test_cancelled_while_running_and_while_waiting() -> None:
    strategy = make_strategy("reserve max", capacity=16, max_model_len=16)
    requests = {f"r{i}": request(i, 4, 8) for i in range(2)}

    def view(key: str, tokens: int, written: int, state: Any) -> SequenceView:
        return SequenceView(
            id=f"{key}.0", request=key, parent=None, state=state, token_ids=tuple(range(4 + tokens)),
            written=written, block_table=(),
        )  # fmt: skip

    strategy.advance(0, (view("r0", 1, 4, "running"), view("r1", 0, 0, "waiting")), requests)
    assert strategy.usage().waiting == 1
    strategy.advance(1, (view("r0", 2, 5, "running"), view("r1", 0, 0, "finished")), requests)
    strategy.advance(2, (view("r0", 2, 5, "finished"), view("r1", 0, 0, "finished")), requests)
    assert strategy.usage().live == 0
    strategy.advance(3, (view("r0", 2, 5, "finished"), view("r1", 0, 0, "finished")), requests)
    assert strategy.idle and not strategy.stopped


def test_compaction_moves_live_tokens_and_lets_the_head_in() -> None:
    strategy = make_strategy("exact", capacity=16, max_model_len=64, policy="first fit")
    requests = [request(0, 4, 1), request(1, 4, 5), request(2, 4, 1), request(3, 6, 3, arrival=1)]
    table = {r.id: r for r in requests}
    pictures = list(ideal_run(requests, [1, 5, 1, 3]))
    strategy.advance(0, pictures[0], table)
    strategy.advance(1, pictures[1], table)
    head = strategy.head_of_queue()
    assert head is not None and head.reason == "fragmented"
    assert strategy.compact() == (Copied(4, 0, 5),) and strategy.copied == 5
    strategy.advance(2, pictures[2], table)
    assert strategy.head_of_queue() is None
    assert strategy.runs() == (Run(0, 8, "r1.0", 6, 8), Run(8, 8, "r3.0", 6, 8))
    with pytest.raises(ValueError, match="cannot be compacted"):
        make_strategy("exact", capacity=16, max_model_len=64).compact()
    with pytest.raises(ValueError, match="cannot be compacted"):
        make_strategy("promised pages", capacity=16, max_model_len=64).compact()


def test_hindsight_moves_reserved_to_internal() -> None:
    strategy = make_strategy("reserve max", capacity=16, max_model_len=16)
    requests = [request(0, 5, 3, most=10)]
    strategy.advance(0, next(iter(ideal_run(requests, [3]))), {"r0": requests[0]})
    known, truth = strategy.usage(), strategy.usage({"r0.0": 7})
    assert (known.live, known.reserved, known.internal) == (5, 9, 2)
    assert (truth.live, truth.reserved, truth.internal) == (5, 2, 9)
    assert strategy.runs({"r0.0": 7}) == (Run(0, 16, "r0.0", 5, 7),)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"name": "magic"}, "no strategy 'magic'"),
        ({"policy": "worst fit"}, "worst fit"),
        ({"capacity": 0}, "capacity is 0"),
        ({"estimate": 0}, "estimate is 0"),
        ({"overflow": "ignore"}, "overflow is 'ignore'"),
        ({"name": "paged", "capacity": 3, "block_size": 4}, "do not hold one page"),
    ],
)
def test_settings_are_refused_with_a_sentence(change: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make_strategy(**{"name": "reserve max", "capacity": 8, "max_model_len": 8} | change)


@pytest.mark.parametrize("name", STRATEGIES)
def test_every_strategy_finishes_with_all_slots_free(name: str) -> None:
    requests = [request(i, 3 + 5 * i % 7, 9, n=1 + i % 3, arrival=i // 2) for i in range(7)]
    lengths = [1 + 4 * i % 9 for i in range(7)]
    strategy = make_strategy(name, capacity=128, max_model_len=16, block_size=4)
    follow(strategy, requests, lengths, extra=60)
    assert strategy.idle and strategy.usage().free == 128
    assert not strategy.stopped
