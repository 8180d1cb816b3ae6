"""Narration: every event has words in both languages, and every number in them is of the step."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from core.memory import events as ev
from core.memory.events import EVENT_TYPES, Event
from core.trace.step import Step, Trace
from pages.parts.narration import narrate, sentence
from pages.parts.say import NARRATORS
from pages.parts.scene import Holders, Scene
from tests.pages import traces

LANGS = ("en", "zh")
ALL = {**traces.BY_NAME, **{f"real {name}": make for name, make in traces.REAL.items()}}


def steps(trace: Trace) -> Iterator[tuple[Step, Step | None]]:
    for index, step in enumerate(trace.steps):
        yield step, trace.steps[index - 1] if index else None


def numbers(text: str) -> list[int]:
    """The numbers in a text, without those inside quotes (tokens) and in the rule."""
    bare = re.sub(r"‘[^’]*’|“[^”]*”|\(Rule:[^)]*\)|（规则：[^）]*）", "", text)
    return [int(number) for number in re.findall(r"\d+", bare)]


def test_there_are_words_for_every_event_type() -> None:
    assert set(NARRATORS) == set(EVENT_TYPES.values())
    step = Step(index=0, kind="idle", events=(), sequences=(), blocks=(), usage=())
    assert all(narrate(event, step, None, lang) for event in one_of_each() for lang in LANGS)


def one_of_each() -> list[Event]:
    """One event of each type, out of any context."""
    made = []
    for cls in EVENT_TYPES.values():
        values = [
            "x" if f.type == "str" else 1
            for f in cls.__dataclass_fields__.values()
            if f.type != "ClassVar[str]"
        ]
        made.append(cls(*values))
    return made


def test_an_unknown_event_is_refused() -> None:
    step = Step(index=0, kind="idle", events=(), sequences=(), blocks=(), usage=())
    with pytest.raises(ValueError, match="no words for the event"):
        narrate(Event(), step, None, "en")


@pytest.mark.parametrize("name", ALL)
def test_every_event_of_every_trace_is_said_in_full_sentences(name: str) -> None:
    trace = ALL[name]()
    for step, previous in steps(trace):
        for event in step.events[:60]:
            for lang, stop in (("en", (".", ")", ".”")), ("zh", ("。", "）"))):
                text = narrate(event, step, previous, lang, trace)
                assert text.endswith(stop), text
                assert "{" not in text and "  " not in text and "\ufffd" not in text, text
                assert len(text) < 330, text


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("lang", LANGS)
def test_every_step_has_its_one_sentence(name: str, lang: str) -> None:
    trace = ALL[name]()
    for index, step in enumerate(trace.steps):
        said = sentence(trace, index, lang)
        assert said.headline and said.text
        assert len(said.text) < 420, said.text
        types = {type(event) for event in step.events}
        must = {
            "copy": ev.Copy,
            "preempt": ev.Preempt,
            "evict": ev.Evict,
            "finish": ev.Finish,
            "allocate": ev.Allocate,
        }
        if said.kind in must:
            assert must[said.kind] in types
        if ev.Copy in types and not types & {ev.Preempt, ev.Reject}:
            assert said.kind == "copy"


def test_copy_on_write_says_who_reads_which_block_and_what_is_left() -> None:
    """Every figure of the copy caption against the tables, along several copies in one step."""
    trace = traces.samples(4)
    step, previous = trace.steps[1], trace.steps[0]
    holders = Holders.after(previous, trace.meta["num_blocks"])
    copies = 0
    for event in step.events:
        if isinstance(event, ev.Copy):
            before = holders.ref(event.source)
            text = narrate(event, step, previous, "en", trace)
            assert f"ref {before})" in text and f"to ref {before - 1}," in text
            assert f"into block {event.source}," in text and f"to block {event.target}," in text
            assert "(Rule: copy-on-write" in text
            copies += 1
        holders.apply(event)
    assert copies == 3  # n sharers, n - 1 copies
    assert "D, the last one on block 10, writes in place." in sentence(trace, 1, "en").text


def test_the_last_holder_writes_in_place() -> None:
    trace = traces.two_answers()
    step, previous = trace.steps[1], trace.steps[0]
    writes = [event for event in step.events if isinstance(event, ev.Write)]
    texts = [narrate(event, step, previous, "en", trace) for event in writes]
    assert "in place" not in texts[0]  # into its own copy
    assert texts[1].startswith(
        "‘Un’, which B chose a step ago, gets its keys and values now: block 4, slot 2."
    )
    assert "no copy" in texts[1]


def test_chosen_is_not_written() -> None:
    """The most repeated misunderstanding: a sampled token has no keys and values before the next step."""
    trace = traces.chinese()
    for step, previous in steps(trace):
        for event in step.events:
            if isinstance(event, ev.Sample):
                view = next(s for s in step.sequences if s.id == event.sequence)
                text = narrate(event, step, previous, "en", trace)
                assert numbers(text) == [len(view.token_ids), view.written]
                assert view.written == len(view.token_ids) - 1
    assert sentence(trace, 0, "en").text.endswith(
        "The first new token is ‘悠久’: chosen, but not yet written."
    )
    assert "，还没有写入。" in sentence(trace, 0, "zh").text


@pytest.mark.parametrize("size", [1, 2, 3, 4, 8])
def test_captions_follow_the_block_size(size: int) -> None:
    """The same story at another block size: blocks, counts and what stays free are those of the step."""
    trace = traces.scheduled({"prompt": 7, "new": 6, "n": 2}, size=size, blocks=40)
    for index, (step, previous) in enumerate(steps(trace)):
        scene = Scene(step, previous, "en", trace)
        for event, holders in scene.walk():
            text = narrate(event, step, previous, "en", trace)
            match event:
                case ev.Allocate():
                    assert numbers(text)[-1] == holders.free - 1
                    assert event.block in numbers(text) and event.logical in numbers(text)
                case ev.Release():
                    assert f"ref {event.ref}" in text and f"block {event.block}" in text
                case ev.Share():
                    assert (
                        f"ref {holders.ref(event.block) + 1}" in text
                        and event.ref == holders.ref(event.block) + 1
                    )
                case ev.Write():
                    view = scene.now[event.sequence]
                    assert f"block {event.block}, slot" in text
                    assert (
                        event.block == (view.block_table or (event.block,))[0]
                        or event.position >= size
                        or view.state == "finished"
                    )
        after = Holders.after(step, 40)
        assert after.free == 40 - len(step.blocks), index


@pytest.mark.parametrize("name", traces.REAL)
def test_holders_followed_along_the_events_end_as_the_step_says(name: str) -> None:
    trace = traces.REAL[name]()
    for step, previous in steps(trace):
        scene = Scene(step, previous, "en", trace)
        holders = Holders.after(previous, scene.num_blocks)
        for event in step.events:
            holders.apply(event)
        assert {block.id: block.ref for block in step.blocks if block.state == "used"} == {
            block: len(owners) for block, owners in holders.lists.items() if owners
        }
        assert holders.cached == {block.id for block in step.blocks if block.state == "cached"}


def test_a_prefix_hit_says_why_it_ends() -> None:
    trace = traces.REAL["prefix"]()
    said = [sentence(trace, index, "en") for index in range(len(trace.steps))]
    hits = [one.text for one in said if one.kind == "share"]
    assert "only full blocks are shared, and of the next one 1 of 4 tokens agree with A." in hits[0]
    assert "(Rule: append-only, as in vLLM v1" in hits[0]


HITS = (
    (range(16), range(16), "at least one token must be computed, and token 15 is the last."),
    (range(15), range(15), "of the next one 3 of 4 tokens agree with A."),
    ((*range(9), *range(50, 60)), range(19), "the text parts from that of A at token 9."),
    (range(12), (*range(12), 70, 71, 72), "no earlier text goes on at token 12."),
    (
        range(20, 30),
        range(40, 50),
        "Nothing of it is found in the cache: the text parts from that of A at token 0.",
    ),
)


@pytest.mark.parametrize(("first", "second", "why"), HITS)
def test_each_end_of_a_hit_has_its_sentence(first: Any, second: Any, why: str) -> None:
    """Said where the request is admitted, and in the step's sentence where something was found."""
    prompts = [{"prompt": first, "new": 1}, {"prompt": second, "new": 2, "arrival": 2}]
    trace = traces.scheduled(*prompts, prefix_cache=True)
    step = next(
        s for s in trace.steps if any(isinstance(e, ev.Admit) and e.request == "r1" for e in s.events)
    )
    admit = next(e for e in step.events if isinstance(e, ev.Admit))
    previous = trace.steps[step.index - 1]
    assert why in narrate(admit, step, previous, "en", trace)
    number = re.findall(r"\d+", why)[0]
    assert number in narrate(admit, step, previous, "zh", trace)
    if any(isinstance(e, ev.Share) for e in step.events):
        assert why in sentence(trace, step.index, "en").text


def test_a_child_shares_by_content_under_append_only_and_the_sentence_says_how_far() -> None:
    trace = traces.scheduled({"prompt": 6, "new": 3, "n": 2}, sharing="append-only")
    text = sentence(trace, 0, "en").text
    assert "only full blocks are shared, and of the next one 2 of 4 tokens agree with A." in text


def test_every_reason_to_wait_has_its_own_words_and_figures() -> None:
    step = Step(index=0, kind="idle", events=(), sequences=(), blocks=(), usage=())
    for lang in LANGS:
        texts = {}
        for reason in ("blocks", "watermark", "sequences", "tokens"):
            texts[reason] = narrate(ev.Wait("r1", 7, 3, reason), step, None, lang)
            assert sorted(numbers(texts[reason].replace("r1", ""))) == [3, 7]
        assert len(set(texts.values())) == 4
    assert "running sequences" in narrate(ev.Wait("r1", 7, 3, "sequences"), step, None, "en")
    assert "tokens" in narrate(ev.Wait("r1", 7, 3, "tokens"), step, None, "en")


def test_refusals_and_waits_have_their_figures() -> None:
    trace = traces.REAL["too large"]()
    said = sentence(trace, 0, "en")
    reject = next(event for event in trace.steps[0].events if isinstance(event, ev.Reject))
    assert said.kind == "reject" and numbers(said.text)[-2:] == [reject.need, reject.have]
    waits = [(event, narrate(event, step, previous, lang, trace_))
             for trace_ in [traces.REAL["recompute"]()] for step, previous in steps(trace_)
             for event in step.events if isinstance(event, ev.Wait) for lang in LANGS]  # fmt: skip
    assert waits
    for event, text in waits:
        assert {event.need, event.have} <= set(numbers(text))


def test_what_a_finish_gives_back() -> None:
    trace = traces.beams()
    for index, step in enumerate(trace.steps):
        said = sentence(trace, index, "en")
        if said.kind == "finish":
            freed = sum(isinstance(event, ev.Free) for event in step.events)
            assert f"{freed} block" in said.text
            assert "Hypothesis" in said.text


def test_tokens_are_named_as_the_slots_show_them() -> None:
    assert "‘E4 BD’" in sentence(traces.chinese(), 2, "en").text
    assert "“E4 BD”" in sentence(traces.chinese(), 2, "zh").text
    assert "‘\\n’" in sentence(traces.chinese(), 4, "en").text
