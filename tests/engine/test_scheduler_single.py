"""One answer a request: when blocks are taken, how it ends, what is refused, what a plan keeps."""

from typing import Any

import pytest

from core.engine.errors import RequestRefused
from core.engine.plan import Outcome
from core.engine.refusal import NeverFits
from core.engine.scheduler import Scheduler, SchedulerStuck
from core.memory.events import Admit, Allocate, Arrive, Finish, Free, Reject, Release, Sample, Wait, Write
from tests.engine.driver import Driver


def test_a_step_with_exact_ids() -> None:
    d = Driver(block_size=4, num_blocks=8, free_order=(1, 3))
    d.submit("r0", 5, new=3)
    assert d.plan().events == (Arrive("r0"), Admit("r0"), Allocate(1, "r0.0", 0), Allocate(3, "r0.0", 1))
    assert d.plan().kind == "prefill"
    assert d.scheduler.sequences() == () and d.scheduler.blocks() == ()  # the screen may still ask
    first = d.finish_step()[4:]
    assert first[:2] == (Write("r0.0", 0, 1, 0, 4), Write("r0.0", 4, 3, 0, 1))
    assert [type(e) for e in first] == [Write, Write, Sample]
    view = d.sequence("r0.0")
    assert (len(view.token_ids), view.written, view.block_table) == (6, 5, (1, 3))
    assert d.plan().kind == "decode"
    row = d.plan().scheduled[0]
    assert (row.start, row.kv_len, row.block_table, row.num_samples) == (5, 6, (1, 3), 1)
    d.finish_step()
    last = d.step()
    assert last[-5:] == (
        Finish("r0.0", "length"), Release(3, "r0.0", 0), Free(3), Release(1, "r0.0", 0), Free(1),
    )  # fmt: skip
    assert not d.scheduler.has_work
    assert len(d.sequence("r0.0").token_ids) == 8 and d.sequence("r0.0").written == 7


@pytest.mark.parametrize("prompt", [1, 3, 4, 5, 7, 8, 9])
def test_a_new_block_exactly_when_its_first_slot_is_written(prompt: int) -> None:
    """A3: block size 4, 9 new tokens; table = ceil(written / 4) after every step."""
    d = Driver(block_size=4, num_blocks=8)
    d.submit("r0", prompt, new=9)
    d.step()
    for length in range(prompt + 1, prompt + 9):  # with the token that is about to be written
        taken = [e for e in d.plan().events if isinstance(e, Allocate)]
        assert len(taken) == ((length - 1) % 4 == 0)
        assert len(d.plan().scheduled[0].block_table) == -(-length // 4)
        d.finish_step()
    assert d.sequence("r0.0").state == "finished" and d.model.tokens_computed == prompt + 8


def test_the_last_token_takes_no_slot() -> None:
    """A18: P 4 G 1 is one block and no decode; P 4 G 5 is 8 slots, 2 blocks, not 3."""
    d = Driver(block_size=4, num_blocks=1)
    d.submit("r0", 4, new=1)
    assert len(d.run().events) == 1 and len(d.of(Allocate)) == 1
    d = Driver(block_size=4, num_blocks=2)
    d.submit("r0", 4, new=5)
    assert len(d.run().events) == 5 and len(d.of(Allocate)) == 2
    assert len(d.sequence("r0.0").token_ids) == 9


@pytest.mark.parametrize(
    ("limit", "prompt", "new", "fits"),
    [(16, 15, 1, True), (16, 15, 2, True), (16, 16, 1, True), (16, 16, 2, False), (16, 17, 1, False),
     (10, 7, 4, True), (10, 7, 5, False), (10, 11, 1, False)],
)  # fmt: skip
def test_at_the_edge_of_the_context(limit: int, prompt: int, new: int, fits: bool) -> None:
    """A18. The rule: what is written, prompt + new - 1, may not be more than the limit; nothing is cut."""
    d = Driver(block_size=4, num_blocks=16, max_model_len=limit)
    if fits:
        d.submit("r0", prompt, new=new)
        assert len(d.run().sequence("r0.0").token_ids) == prompt + new
        return
    with pytest.raises(NeverFits, match=f"write {prompt + new - 1} slots and a sequence may have {limit}"):
        d.submit("r0", prompt, new=new)
    assert not d.scheduler.has_work


@pytest.mark.parametrize(
    ("size", "blocks", "prompt", "new", "need"),
    [(16, 49, 1002, 1, 63), (4, 2, 8, 4, 3), (4, 2, 9, 1, 3)],
)
def test_larger_than_the_pool(size: int, blocks: int, prompt: int, new: int, need: int) -> None:
    """A5: refused at once, with numbers; whoever comes later runs."""
    d = Driver(block_size=size, num_blocks=blocks, max_model_len=4096)
    for name in ("big", "big too"):
        with pytest.raises(NeverFits, match=f"need {need} blocks and the pool has {blocks}") as refusal:
            d.submit(name, prompt, new=new)
        assert (refusal.value.need, refusal.value.have) == (need, blocks)
    d.submit("small", 2, new=2)
    events = d.step()
    assert events[0] == Arrive("big")
    assert isinstance(events[1], Reject) and (events[1].need, events[1].have) == (need, blocks)
    assert len(d.run().sequence("small.0").token_ids) == 4
    assert [view.id for view in d.scheduler.sequences()] == ["small.0"]


def test_an_empty_prompt_is_refused() -> None:
    """A24."""
    with pytest.raises(RequestRefused, match="no tokens"):
        Driver().submit("r0", 0)


@pytest.mark.parametrize(
    ("kind", "says"),
    [({"new": 0}, "new tokens is 0"), ({"n": 0}, "answers is 0"), ({"n": 17}, "answers is 17"),
     ({"n": 9, "mode": "beam"}, "beams is 9")],
)  # fmt: skip
def test_malformed_requests_are_refused(kind: dict[str, Any], says: str) -> None:
    with pytest.raises(RequestRefused, match=says):
        Driver().submit("r0", 3, **kind)


def test_too_many_at_once_is_refused() -> None:
    with pytest.raises(NeverFits, match="4 sequences go on together and only 3 may run at once"):
        Driver(max_running=3).submit("r0", 3, n=4)
    with pytest.raises(NeverFits, match="only 2 may be computed in a step"):
        Driver(max_batch_tokens=2).submit("r0", 3, n=4)


def test_a_name_is_taken_once() -> None:
    d = Driver()
    d.submit("r0", 3)
    with pytest.raises(RequestRefused, match="taken"):
        d.submit("r0", 3)


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("blocks", [1, 2])
@pytest.mark.parametrize("cache", [False, True])
def test_odd_sizes_work(size: int, blocks: int, cache: bool) -> None:
    """A24: block size 1, 2, 3; pool of 1, 2; a prompt of one token, as long as it fits."""
    d = Driver(block_size=size, num_blocks=blocks, prefix_cache=cache)
    for name in ("a", "b"):
        d.submit(name, 1, new=size * blocks)
    d.run()
    assert [len(text) for text in d.texts().values()] == [1 + size * blocks] * 2


def test_stops_at_a_stop_token_which_is_shown() -> None:
    d = Driver(vocab=4, seed=3)
    d.submit("r0", 3, new=50, stop=frozenset({2}))
    d.run()
    text = d.sequence("r0.0").token_ids
    assert text[-1] == 2 and 2 not in text[3:-1] and len(text) < 53
    assert d.of(Finish) == [Finish("r0.0", "stop")]


def test_chunked_prefill() -> None:
    """7 tokens a step: a prompt of 17 takes three steps, only the last gives a token; blocks come by need."""
    d = Driver(block_size=4, num_blocks=8, max_batch_tokens=7)
    d.submit("r0", 17, new=2)
    seen = []
    for _ in range(3):
        row = d.plan().scheduled[0]
        seen.append((row.start, len(row.token_ids), len(row.block_table), row.num_samples))
        d.finish_step()
    assert seen == [(0, 7, 2, 0), (7, 7, 4, 0), (14, 3, 5, 1)]


def test_decodes_go_before_prompts() -> None:
    d = Driver(block_size=4, num_blocks=32, max_batch_tokens=4)
    d.submit("a", 3, new=9)
    d.step()
    d.submit("b", 6, new=2)
    plan = d.plan()
    assert [(r.sequence, len(r.token_ids)) for r in plan.scheduled] == [("a.0", 1), ("b.0", 3)]
    assert plan.kind == "mixed"


def test_first_come_first_served() -> None:
    """Nobody overtakes the head of the queue, though the small one would fit."""
    d = Driver(block_size=4, num_blocks=6)
    d.submit("a", 12, new=9)
    d.step()
    d.submit("b", 16, new=1)
    d.submit("c", 1, new=1)
    events = d.step()
    assert [e for e in events if isinstance(e, Wait)] == [Wait("b", 4, 2, "blocks")]
    assert not any(isinstance(e, Admit) for e in events)
    d.run()
    assert [e.request for e in d.of(Admit)] == ["a", "b", "c"]


def test_admission_keeps_what_a_prompt_in_chunks_still_needs() -> None:
    """a's answers take 4 blocks while b's prompt is under way: b waits for 2, c must not take the last."""
    d = Driver(block_size=4, num_blocks=10, max_batch_tokens=12)
    d.submit("a", 8, n=4, new=6)
    d.submit("b", 24, new=1)
    d.step()
    d.step()
    assert d.scheduler.usage().free == 4 and d.sequence("b.0").written == 12
    d.submit("c", 1, new=1)
    assert Wait("c", 1, 0, "blocks") in d.step()
    d.run()


def test_at_most_so_many_run() -> None:
    d = Driver(max_running=2, num_blocks=32)
    for name in ("a", "b", "c"):
        d.submit(name, 2, new=3)
    assert Wait("c", 1, 0, "sequences") in d.step()


def test_arrives_when_it_is_due() -> None:
    d = Driver()
    d.submit("late", 2, new=1, arrival=2)
    assert [d.step(), d.step()] == [(), ()]
    assert [p.kind for p in d.plans] == ["idle", "idle"]
    assert d.step()[0] == Arrive("late")


def test_without_preemption_the_text_so_far_is_kept() -> None:
    """A5: only while decoding it turns out; 2 blocks each fit, 3 each do not."""
    d = Driver(block_size=4, num_blocks=4, preempt="none")
    d.submit("a", 6, new=6)
    d.submit("b", 6, new=6)
    d.run()
    ends = {e.sequence: e.reason for e in d.of(Finish)}
    assert ends == {"a.0": "out_of_memory", "b.0": "length"}
    assert len(d.sequence("a.0").token_ids) == 9 and len(d.sequence("b.0").token_ids) == 12


def test_cancel_at_any_moment() -> None:
    """A12: twice, after the end, between plan and commit, before arrival; blocks go back each time."""
    d = Driver(block_size=4, num_blocks=8)
    d.submit("r0", 5, new=9)
    d.step()
    d.plan()
    d.cancel("r0")
    d.cancel("r0")
    d.finish_step()
    assert d.sequence("r0.0").state == "running"
    events = d.step()
    assert events[0] == Finish("r0.0", "cancelled") and d.plans[-1].kind == "idle"
    assert d.scheduler.blocks() == () and not d.scheduler.has_work
    d.cancel("r0")
    assert not d.scheduler.has_work
    d.submit("r1", 5, arrival=50)
    d.cancel("r1")
    assert d.step() == (Arrive("r1"), Finish("r1.0", "cancelled"))
    with pytest.raises(KeyError):
        d.cancel("nobody")


def test_cancelled_before_its_first_step_nothing_is_published() -> None:
    """A11 (a): submit, cancel, submit again: nothing to be found of the first."""
    d = Driver(block_size=4, num_blocks=8, prefix_cache=True)
    d.submit("a", 9, new=1)
    d.cancel("a")
    d.submit("b", 9, new=1)
    d.run()
    assert d.of(Finish) == [Finish("a.0", "cancelled"), Finish("b.0", "length")]
    assert not any(e.name == "share" for s in d.events for e in s)


def test_submitting_between_plan_and_commit_waits_for_the_next_plan() -> None:
    d = Driver()
    d.submit("a", 3)
    plan = d.plan()
    d.submit("b", 3)
    assert d.plan() is plan and {r.request for r in plan.scheduled} == {"a"}
    d.finish_step()
    assert Arrive("b") in d.plan().events


def test_commit_wants_its_plan_and_every_token() -> None:
    d = Driver()
    d.submit("a", 3)
    with pytest.raises(ValueError, match="not the pending plan"):
        d.scheduler.commit(Driver().scheduler.plan(), Outcome())
    plan = d.plan()
    with pytest.raises(ValueError, match=r"a\.0 needs 1 sampled tokens and got 0"):
        d.scheduler.commit(plan, Outcome())
    d.finish_step()  # nothing was lost
    assert len(d.sequence("a.0").token_ids) == 4


def test_no_progress_is_said_aloud() -> None:
    """A5, the watchdog: blocks that nobody holds in a table can never come back."""
    d = Driver(num_blocks=4, check=False)
    d.scheduler._state.memory.pool.take(4)  # a leak, made on purpose
    d.submit("a", 16, new=1)
    assert Wait("a", 4, 3, "blocks") in d.step()
    with pytest.raises(SchedulerStuck, match=r"No progress at step 1: 0 requests run.*of 4 blocks 1 are"):
        d.scheduler.plan()


def test_nothing_to_do_is_an_idle_step() -> None:
    scheduler = Scheduler(Driver().config)
    assert not scheduler.has_work
    assert scheduler.plan().kind == "idle" and scheduler.plan().events == ()
