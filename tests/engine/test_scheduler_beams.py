"""Beams in the scheduler: forked, shared, dropped block by block; and the rules of the search itself."""

from typing import Any

import pytest

from core.engine.beams import BeamOptions, BeamSearch, Child
from core.engine.plan import Candidate
from core.engine.refusal import NeverFits
from core.memory.events import Copy, Finish, Fork, Release, Sample, Share
from tests.engine.driver import Driver

ORDER = tuple(range(20))


def search_of(width: int = 2, new: int = 4, stop: Any = (), **options: Any) -> BeamSearch:
    start = [Child("", -1, 0.0, sequence="p")]
    return BeamSearch(width, new, frozenset(stop), BeamOptions(**options), start)


def candidates(*pairs: tuple[int, float]) -> tuple[Candidate, ...]:
    return tuple(Candidate(token, logprob) for token, logprob in pairs)


def name(search: BeamSearch) -> list[tuple[str, int]]:
    """Call the living beams by their last token."""
    for beam in search.beams:
        beam.sequence = f"b{beam.token_id}"
    return [(beam.parent, beam.token_id) for beam in search.beams]


def test_twice_as_many_candidates_as_beams() -> None:
    """A21: 2 k candidates, more with several stop tokens, so that k of them go on whatever stops."""
    assert search_of(3).num_candidates == 6
    assert search_of(3, stop=(1, 2)).num_candidates == 9


def test_a_stop_among_the_best_does_not_shrink_the_beam() -> None:
    """A21: token 9 stops and is best; two others live on; only the first k may end."""
    search = search_of(stop=(9,))
    step = search.advance({"p": candidates((9, -0.1), (1, -0.5), (2, -0.7), (3, -0.9))})
    assert [(c.token_id, c.ended) for c in step.ended] == [(9, "stop")]
    assert name(search) == [("p", 1), ("p", 2)] and not step.over
    step = search.advance(
        {"b1": candidates((5, -0.1), (6, -0.2), (9, -0.3), (7, -3.0)), "b2": candidates((9, -0.1), (8, -9.0))}
    )
    assert step.ended == [] and len(search.results) == 1  # 9 was third and fourth: neither ends nor goes on
    assert name(search) == [("b1", 5), ("b1", 6)]


def test_equal_sums_are_taken_by_beam_and_then_by_token() -> None:
    search = search_of()
    search.advance({"p": candidates((4, -1.0), (7, -1.0), (2, -1.0))})
    assert name(search) == [("p", 2), ("p", 4)]
    search.advance({"b2": candidates((6, -1.0), (8, -2.0)), "b4": candidates((1, -1.0), (3, -1.0))})
    assert name(search) == [("b2", 6), ("b4", 1)]


@pytest.mark.parametrize(("penalty", "best"), [(0.0, 1), (1.0, 2), (-1.0, 1)])
def test_the_penalty_decides_between_short_and_long(penalty: float, best: int) -> None:
    """A21: sums -1.0 at length 1 and -1.5 at length 2: -1.0 and -0.75 with penalty 1."""
    search = search_of(new=2, stop=(9,), length_penalty=penalty, early_stopping="never")
    search.advance({"p": candidates((9, -1.0), (1, -1.2), (2, -4.0), (3, -5.0))})
    name(search)
    search.advance({"b1": candidates((4, -0.3), (9, -3.0)), "b2": candidates((5, -3.0), (6, -3.5))})
    assert search.results[0].score == pytest.approx({0.0: -1.0, 1.0: -0.75, -1.0: -1.0}[penalty])
    assert {1: 9, 2: 4}[best] == search.results[0].token_id


@pytest.mark.parametrize(
    ("early", "penalty", "over"),
    [(True, 1, True), (False, 1, True), ("never", 1, False), ("never", 0, True), ("never", -1, True)],
)
def test_the_stop_test_depends_on_the_sign_of_the_penalty(early: Any, penalty: int, over: bool) -> None:
    """A21: both places are filled at step 1; the best beam has -2.0 and may reach 100 tokens.

    At its present length it cannot beat -1.1; over 100 tokens, -2.0 / 100 could.
    """
    search = search_of(new=100, stop=(8, 9), length_penalty=penalty, early_stopping=early)
    step = search.advance({"p": candidates((9, -1.0), (8, -1.1), (1, -2.0), (2, -3.0))})
    assert step.over is over and bool(step.alive) is not over


def test_fewer_candidates_than_beams() -> None:
    """A21: 3 beams, 2 tokens in the whole vocabulary: two beams, then three; no two results are the same."""
    d = Driver(block_size=4, num_blocks=20, vocab=2)
    d.submit("r0", 6, n=3, new=3, mode="beam")
    d.step()
    assert len([s for s in d.scheduler.sequences() if s.state == "running"]) == 2
    d.run()
    results = d.scheduler.beam_result("r0")
    assert len(results) == 3 == len({tokens for _, tokens, _ in results})
    assert [score for *_, score in results] == sorted((score for *_, score in results), reverse=True)


def test_best_of_all_texts() -> None:
    """Width 8 over 2 tokens and 3 steps sees all 8 texts: the result is the ranking by brute force."""
    d = Driver(block_size=4, num_blocks=40, vocab=2)
    d.submit("r0", 5, n=8, new=3, mode="beam", options=BeamOptions(length_penalty=0.0))
    d.run()
    texts = {tuple(range(100, 105)): 0.0}
    for _ in range(3):
        texts = {(*t, c.token_id): s + c.logprob for t, s in texts.items() for c in d.model.best(t, 2)}
    expected = sorted(texts.items(), key=lambda pair: -pair[1])
    results = d.scheduler.beam_result("r0")
    assert [score for *_, score in results] == pytest.approx([score for _, score in expected], abs=1e-5)
    assert {tokens for _, tokens, _ in results} == set(texts)


def test_three_beams_share_one_prefix() -> None:
    d = Driver(block_size=4, num_blocks=20, free_order=ORDER, vocab=9)
    d.submit("r0", 6, n=3, new=3, mode="beam")
    events = d.step()
    assert d.refs() == {0: 3, 1: 3}
    assert [type(e) for e in events if isinstance(e, Fork | Share | Sample)] == [
        Fork, Share, Share, Fork, Share, Share, Sample, Sample, Sample,
    ]  # fmt: skip
    assert d.plans[0].scheduled[0].num_candidates == 6 and d.plans[0].scheduled[0].num_samples == 0
    d.step()
    assert len(d.of(Copy)) == 2  # three writers, two copies
    d.run()
    assert d.scheduler.blocks() == () and len(d.scheduler.beam_result("r0")) == 3


@pytest.mark.parametrize("sharing", ["copy-on-write", "append-only", "none"])
def test_children_are_forked_before_their_parents_are_freed(sharing: str) -> None:
    """And n children cost n - 1 forks: a parent's own sequence goes on as its last child."""
    d = Driver(block_size=2, num_blocks=64, sharing=sharing, vocab=9, seed=4)
    d.submit("r0", 5, n=4, new=12, mode="beam", stop=frozenset({3}))
    alive = {"r0.0"}
    while d.scheduler.has_work:
        events = d.step()
        forks = [i for i, e in enumerate(events) if isinstance(e, Fork)]
        samples = [i for i, e in enumerate(events) if isinstance(e, Sample)]
        ends = [i for i, e in enumerate(events) if isinstance(e, Finish | Release)]
        assert max(forks, default=-1) < min(samples) < min(ends, default=len(events))
        order = [e.sequence for e in events if isinstance(e, Sample)]
        children = set(order)
        for fork in (events[i] for i in forks):
            assert isinstance(fork, Fork) and order.index(fork.child) < order.index(fork.parent)
        dropped = {e.sequence for e in events if isinstance(e, Finish) and e.reason == "dropped"}
        assert len(children) == len(alive) - len(dropped) + len(forks)
        alive = {s.id for s in d.scheduler.sequences() if s.state == "running"}
        assert len(alive) in (0, 4)
    assert {e.reason for e in d.of(Finish)} >= {"dropped"}


def test_a_hypothesis_that_ended_is_a_sequence_of_its_own() -> None:
    """It is seen in the tree: forked, sampled, finished with "stop"; blocks given back, score kept."""
    d = Driver(block_size=4, num_blocks=30, vocab=6, seed=1)
    d.submit("r0", 6, n=3, new=8, mode="beam", stop=frozenset({0, 1}))
    d.run()
    stopped = [e.sequence for e in d.of(Finish) if e.reason == "stop"]
    assert stopped
    for name_ in stopped:
        view = d.sequence(name_)
        assert view.token_ids[-1] in (0, 1) and view.block_table == () and view.logprob is not None
    for sequence, tokens, score in d.scheduler.beam_result("r0"):
        view = d.sequence(sequence)
        assert view.token_ids == tokens and view.logprob is not None
        assert score == pytest.approx(view.logprob / (len(tokens) - 6), abs=1e-6)


def test_the_sum_of_a_beam_is_that_of_its_text() -> None:
    d = Driver(vocab=9, num_blocks=64)
    d.submit("r0", 4, n=4, new=5, mode="beam")
    d.run()
    for view in d.scheduler.sequences():
        total = 0.0
        for end in range(4, len(view.token_ids)):
            best = {c.token_id: c.logprob for c in d.model.best(view.token_ids[:end], 9)}
            total += best[view.token_ids[end]]
        assert view.logprob == pytest.approx(total, abs=1e-5)


def test_refused_or_served_as_a_whole() -> None:
    """A13: bs 4, P 6, 3 beams, pool 5: 4 blocks at once fit, 7 when all cross slot 8 never do."""
    d = Driver(block_size=4, num_blocks=5, vocab=9)
    with pytest.raises(NeverFits, match="in 3 sequences need 7 blocks and the pool has 5"):
        d.submit("long", 6, n=3, new=4, mode="beam")
    d.submit("short", 6, n=3, new=3, mode="beam")
    d.run()
    assert len(d.scheduler.beam_result("short")) == 3 and d.scheduler.blocks() == ()


@pytest.mark.parametrize("how", ["recompute", "swap"])
def test_beams_are_preempted_and_come_back_as_one(how: str) -> None:
    """A13: same results as with room for all."""
    results = []
    for blocks in (10, 90):
        d = Driver(block_size=4, num_blocks=blocks, preempt=how, host_blocks=32, vocab=9)
        for name_ in ("a", "b"):
            d.submit(name_, [len(name_), ord(name_), 1, 2, 3, 4], n=3, new=9, mode="beam")
        d.run()
        results.append([d.scheduler.beam_result(name_) for name_ in ("a", "b")])
        preempts = [[e.sequence for e in s if e.name == "preempt"] for s in d.events]
        assert all(len(p) in (0, 3) for p in preempts) and any(preempts) is (blocks == 10)
    assert results[0] == results[1]


def test_without_preemption_all_beams_end_with_what_they_have() -> None:
    d = Driver(block_size=4, num_blocks=7, preempt="none", vocab=9)
    d.submit("a", 6, new=16)
    d.submit("b", [1, 2, 3, 4, 5, 6], n=3, new=4, mode="beam")
    d.run()
    ends = {e.sequence: e.reason for e in d.of(Finish)}
    assert ends["a.0"] == "length"
    out = {name_ for name_, reason in ends.items() if reason == "out_of_memory"}
    assert len(out) == 3
    results = d.scheduler.beam_result("b")
    assert {sequence for sequence, *_ in results} == out and len(results[0][1]) > 6


@pytest.mark.parametrize(
    ("options", "says"), [({"length_penalty": 6.0}, "6\\.0"), ({"early_stopping": 2}, "2")]
)
def test_options_are_checked(options: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        BeamOptions(**options)


def test_no_beam_result_without_beams() -> None:
    d = Driver()
    d.submit("r0", 3)
    assert d.run().scheduler.beam_result("r0") == []
