"""Blocks found again by content: what is shared between requests, when it is offered, when it goes."""

import pytest

from core.memory.events import Allocate, Cache, Evict, Release, Share
from tests.engine.driver import Driver

ORDER = tuple(range(16))


def served(**config: object) -> Driver:
    return Driver(**{"block_size": 4, "num_blocks": 16, "free_order": ORDER, "prefix_cache": True, **config})


@pytest.mark.parametrize(("prompt", "hit"), [(4, 0), (8, 4), (12, 8), (9, 8), (7, 4)])
@pytest.mark.parametrize("still_running", [False, True])
def test_at_least_one_token_is_computed(prompt: int, hit: int, still_running: bool) -> None:
    """A1: the same prompt twice; the second computes what is left, at its own positions: the same text."""
    d = served(vocab=50)
    d.submit("a", prompt, new=6)
    if still_running:
        d.step()
    else:
        d.run()
    computed = d.model.tokens_computed
    d.submit("b", prompt, new=6)
    row = next(r for r in d.plan().scheduled if r.sequence == "b.0")
    assert (row.start, len(row.token_ids)) == (hit, prompt - hit)
    d.finish_step()
    found = d.scheduler.hit_of("b")
    assert found is not None and found.tokens == hit and len(found.blocks) == hit // 4
    d.run()
    texts = d.texts()
    assert texts["a.0"] == texts["b.0"]
    assert d.model.tokens_computed - computed <= prompt - hit + 5 + (5 if still_running else 0)
    assert d.refs() == {}


def test_shared_with_a_live_request_it_counts_once() -> None:
    d = served()
    d.submit("a", 9, new=3)
    d.step()
    d.submit("b", 9, new=3)
    d.step()
    assert d.of(Share) == [Share(0, "b.0", 0, 2, "prefix"), Share(1, "b.0", 1, 2, "prefix")]
    assert d.refs() == {0: 2, 1: 2, 2: 1, 3: 1}
    assert d.scheduler.usage().live == 8 + 2 + 1


def test_the_same_prompt_twice_in_one_step() -> None:
    """A11 (b): neither reads the other's unwritten blocks; both keep their own, the index keeps the first."""
    d = served(vocab=50)
    d.submit("a", 9, new=4)
    d.submit("b", 9, new=4)
    d.step()
    assert d.of(Share) == [] and d.sequence("b.0").block_table == (3, 4, 5)
    d.submit("c", 9, new=4)  # (c): in the step after it is found
    d.step()
    assert d.of(Share) == [Share(0, "c.0", 0, 2, "prefix"), Share(1, "c.0", 1, 2, "prefix")]
    d.run()
    assert len(set(d.texts().values())) == 1


def test_tails_are_evicted_before_heads_and_only_when_nothing_else_is_free() -> None:
    d = served(num_blocks=4, free_order=(0, 1, 2, 3))
    d.submit("a", 13, new=1)
    d.run()
    assert [type(e) for e in d.events[-1][-8:]].count(Cache) == 3  # the partly filled block is free
    d.submit("b", [1, 2, 3, 4, 5, 6, 7, 8], new=1)
    events = d.step()
    taken = [e for e in events if isinstance(e, Allocate | Evict)]
    assert taken == [Allocate(3, "b.0", 0), Evict(2), Allocate(2, "b.0", 1)]
    d.submit("c", 13, new=1)
    d.step()
    assert d.of(Share) == [Share(0, "c.0", 0, 1, "prefix"), Share(1, "c.0", 1, 1, "prefix")]


def test_released_blocks_are_cached_with_it_and_free_without() -> None:
    for cache in (True, False):
        d = served(prefix_cache=cache)
        d.submit("a", 8, new=2)
        d.run()
        assert d.scheduler.usage().cached == (8 if cache else 0)
        assert [e.block for e in d.of(Release)] == [2, 1, 0]
        assert {b.state for b in d.scheduler.blocks()} == ({"cached"} if cache else set())


def test_cached_blocks_are_counted_as_needed() -> None:
    """The hit's blocks are evictable until they are shared: they must not be promised twice."""
    d = served(num_blocks=4, free_order=(0, 1, 2, 3))
    d.submit("a", 13, new=1)
    d.run()
    assert d.scheduler.usage().cached == 12
    d.submit("b", 13, new=4)
    d.run()
    assert len(d.of(Evict)) == 0 and len(d.of(Share)) == 3


def test_why_the_hit_ended_is_told() -> None:
    d = served()
    d.submit("a", 11, new=1)
    d.run()
    hit = d.scheduler.explain_hit(tuple(range(100, 111)))
    assert (hit.tokens, hit.why, hit.number, hit.block_size) == (8, "partial", 3, 4)
    assert d.scheduler.explain_hit((100, 101, 102, 103, 104, 9, 9, 9, 9)).number == 5
    without = Driver()
    assert without.scheduler.explain_hit((1, 2)).why == "absent"


def test_no_sharing_between_requests_without_the_cache() -> None:
    for sharing in ("copy-on-write", "append-only", "none"):
        d = served(prefix_cache=False, sharing=sharing)
        d.submit("a", 9, new=4)
        d.step()
        d.submit("b", 9, new=4)
        d.run()
        assert d.of(Share) == []


def test_forks_find_the_twin_that_was_there_first() -> None:
    """append-only: two equal prompts in one step; b's second answer shares a's blocks, found by content."""
    d = served(sharing="append-only", prefix_cache=False)
    d.submit("a", 8, new=3)
    d.submit("b", 8, n=2, new=3)
    d.step()
    assert d.of(Share) == [Share(0, "b.1", 0, 2, "prefix"), Share(1, "b.1", 1, 2, "prefix")]
    d.run()
    assert d.scheduler.blocks() == ()
