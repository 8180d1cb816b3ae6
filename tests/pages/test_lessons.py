"""Lessons: stops found by what happens, captions that hold under other runs, questions with one truth."""

from __future__ import annotations

import re
from typing import Any

import pytest

from core.memory import events as ev
from core.scenarios import SCENARIOS, recorded_path
from core.trace import load
from core.trace.step import Trace
from pages.parts import gates
from pages.parts.gates import Question, coming, numbers_near
from pages.parts.lessons import LESSON_IDS, lesson
from pages.parts.lessons.lesson import Lesson, Stop
from pages.parts.lessons.quiz import numbered, order, questions
from pages.parts.lessons.runs import own
from pages.parts.words import LANGUAGES, vocabulary
from tests.pages.lesson_runs import prompts_for, run

LESSONS = [lesson(name) for name in LESSON_IDS]
STOPS = [(one, stop) for one in LESSONS for stop in one.stops]
KINDS = (
    "parts", "paged-attention", "sharing", "copy-on-write", "many-answers", "sharing-rules", "beam-search",
    "prefix-reuse", "running-dry",
)  # fmt: skip


def name_of(value: Any) -> str:
    return value.id if isinstance(value, Lesson) else value.name if isinstance(value, Stop) else str(value)


@pytest.fixture(scope="module")
def recorded() -> dict[str, Trace]:
    names = {stop.run for one in LESSONS for stop in (*one.stops, *one.questions) if stop.run in SCENARIOS}
    return {name: load(recorded_path(name)) for name in names}


def walk(one: Lesson, name: str, recorded: dict[str, Trace]) -> Any:
    return one.made[name]() if name in one.made else recorded[name]


@pytest.mark.parametrize("one, stop", STOPS, ids=name_of)
def test_every_stop_is_found_on_its_recorded_run(one: Lesson, stop: Stop, recorded: dict[str, Trace]) -> None:
    trace = walk(one, stop.run, recorded)
    at = stop.find(trace)
    assert at is not None and 0 <= at < len(trace.steps)
    texts = {lang: one.caption(stop, trace, at, lang) for lang in LANGUAGES}
    assert all(texts.values()) and one.head(stop, "zh") and one.head(stop, "en")
    assert texts["zh"] != texts["en"]


@pytest.mark.parametrize("one", LESSONS, ids=name_of)
def test_stops_of_a_run_come_in_order(one: Lesson, recorded: dict[str, Trace]) -> None:
    """Right never leads back within a stretch of one run, unless another picture looks at it anew."""
    stretch, last = ("", ""), -1
    for stop in one.stops:
        at = stop.find(walk(one, stop.run, recorded))
        assert at is not None
        assert (stop.run, stop.picture) != stretch or at >= last, stop.name
        stretch, last = (stop.run, stop.picture), at


@pytest.mark.parametrize("one, stop", [pair for pair in STOPS if pair[1].gate], ids=name_of)
@pytest.mark.parametrize("lang", LANGUAGES)
def test_every_question_before_a_stop(one: Lesson, stop: Stop, lang: str, recorded: dict[str, Trace]) -> None:
    trace = walk(one, stop.run, recorded)
    at = stop.find(trace)
    assert stop.gate is not None and at is not None
    question = stop.gate(coming(trace, at, lang))
    assert question is not None
    check(question)
    asked = question.payload("x")
    assert "result" not in asked and asked["answer"] is None
    told = question.payload("x", question.truth)["result"]
    assert told["correct"] and told["truth"] == question.truth


def check(question: Question) -> None:
    """One truth, at least two answers to choose from, none of them written twice."""
    if question.kind == "block":
        assert isinstance(question.truth, int) and question.known(question.truth)
        return
    ids = [option for option, _ in question.options]
    texts = [text for _, text in question.options]
    assert ids.count(question.truth) == 1 and len(ids) >= 2
    assert len(set(texts)) == len(texts)
    wrong = [option for option in ids if option != question.truth]
    assert not any(question.is_right(option) for option in wrong)


@pytest.mark.parametrize("one", LESSONS, ids=name_of)
def test_questions_at_the_end(one: Lesson, recorded: dict[str, Trace]) -> None:
    runs = {ask.run: walk(one, ask.run, recorded) for ask in one.questions}
    by_lang = {lang: questions(one, runs, lang) for lang in LANGUAGES}
    assert 2 <= len(by_lang["zh"]) <= 3
    for number, (zh, en) in enumerate(zip(by_lang["zh"], by_lang["en"], strict=True)):
        check(zh)
        assert zh.truth == en.truth and zh.because and en.because
        ids = [option for option, _ in order(one.id, number, zh)]
        assert ids == [option for option, _ in order(one.id, number, en)]
        assert sorted(map(str, ids)) == sorted(str(option) for option, _ in zh.options)


@pytest.mark.parametrize("one", LESSONS, ids=name_of)
def test_every_lesson_has_all_its_words(one: Lesson) -> None:
    for lang in LANGUAGES:
        for part in ("title", "line", "ask", "answers", "next"):
            assert one.text(part, lang)
        assert len(one.text("line", lang)) < 110


def test_the_words_of_lessons_are_all_used() -> None:
    """A word of a lesson that no code mentions by its last part, and no stop bears as its name, is idle."""
    from pathlib import Path

    code = "".join(path.read_text() for path in Path(gates.__file__).parent.joinpath("lessons").rglob("*.py"))
    code += Path(gates.__file__).read_text()
    names = {stop.name for _, stop in STOPS} | {"title", "line", "ask", "answers", "next", "head", "because"}
    for key in vocabulary("en"):
        if key.startswith(("lesson.", "gate.")):
            last = key.rsplit(".", 1)[1]
            assert last in names or last in code, key


# -- other block sizes, other prompts ------------------------------------------------------------------------


def numbers_in(text: str) -> list[int]:
    return [int(number.replace(",", "")) for number in re.findall(r"(?<![\w#.-])\d[\d,]*(?![\w.]*\d)", text)]


def facts(trace: Trace, at: int) -> set[int]:
    """Numbers of a step, taken from its pictures and events."""
    step = trace.steps[at]
    before = trace.steps[at - 1] if at else None
    found: set[int] = {0, 1, int(trace.meta["block_size"]), int(trace.meta["num_blocks"])}
    found |= {int(trace.meta["block_size"]) * int(trace.meta["num_blocks"])}
    for view in (*step.sequences, *(before.sequences if before else ())):
        found |= {len(view.token_ids), view.written, len(view.block_table), *view.block_table}
    for event in step.events:
        found |= {value for value in event.to_dict().values() if isinstance(value, int)}
    kinds = [type(event) for event in step.events]
    found |= {kinds.count(kind) for kind in kinds}
    return found


@pytest.mark.parametrize("block_size", (1, 2, 3, 4, 5, 8))
@pytest.mark.parametrize("length", (5, 8, 12))
@pytest.mark.parametrize("name", KINDS)
def test_captions_and_questions_hold_under_other_runs(name: str, length: int, block_size: int) -> None:
    one, seen = lesson(name), 0
    names = {stop.run for stop in one.stops}
    runs = {run_: run(run_, block_size, prompts_for(run_, length), blocks=64) for run_ in names}
    for stop in one.stops:
        trace = runs[stop.run]
        at = stop.find(trace)
        if at is None:
            continue
        seen += 1
        texts = [one.caption(stop, trace, at, lang) for lang in LANGUAGES]
        # both languages say the same numbers of the same step
        zh, en = (sorted(set(numbers_in(text)) & facts(trace, at)) for text in texts)
        assert zh == en, (stop.name, texts)
        if stop.gate is not None and at:
            question = stop.gate(coming(trace, at, "en"))
            if question is not None:
                check(question)
    needs_a_part = name == "sharing-rules" and length % block_size == 0
    assert seen or needs_a_part or name == "running-dry"


@pytest.mark.parametrize("block_size", (1, 2, 3, 4, 5, 8))
@pytest.mark.parametrize("length", (4, 7, 10, 12))
def test_copy_on_write_says_what_the_state_says(length: int, block_size: int) -> None:
    """The numbers of the copy, from the events and the pictures by themselves."""
    one = lesson("copy-on-write")
    trace = run("half-full-block", block_size, prompts_for("half-full-block", length), blocks=64)
    stop = next(stop for stop in one.stops if stop.name == "copy")
    at = stop.find(trace)
    if length % block_size == 0:
        assert at is None
        return
    assert at == 1
    copies = [e for e in trace.steps[1].events if isinstance(e, ev.Copy)]
    text = one.caption(stop, trace, 1, "en")
    first = copies[0]
    assert f"block {first.source} has other readers (ref 3)" in text
    assert f"its filled slots ({length % block_size}) are copied to block {first.target}" in text
    assert f"3 writers, {len(copies)} copies; block {first.source} ends at ref 1" in text
    question = gates.how_many_copies(coming(trace, 1, "en"))
    assert question is not None and question.truth == 2 == len(copies)


@pytest.mark.parametrize("block_size", (2, 3, 4, 5))
@pytest.mark.parametrize("length", (4, 7, 9))
def test_paged_attention_never_takes_a_block_early(length: int, block_size: int) -> None:
    one = lesson("paged-attention")
    trace = run("two-blocks", block_size, prompts_for("two-blocks", length))
    stops = {stop.name: stop for stop in one.stops}
    full, new = stops["full"].find(trace), stops["new"].find(trace)
    assert new is not None
    if full is not None:
        written = trace.steps[full].sequences[0].written
        assert written % block_size == 0
        text = one.caption(stops["full"], trace, full, "en")
        assert f"({written} = {written // block_size} × {block_size})" in text
    taken = next(e for e in trace.steps[new].events if isinstance(e, ev.Allocate))
    assert trace.steps[new - 1].sequences[0].written == taken.logical * block_size
    assert f"physical block {taken.block} becomes logical block {taken.logical}" in one.caption(
        stops["new"], trace, new, "en"
    )


@pytest.mark.parametrize("block_size", (1, 2, 3, 4, 5))
def test_prefix_reuse_says_why_a_hit_ended(block_size: int) -> None:
    one = lesson("prefix-reuse")
    trace = run("prefix-moved", block_size, prompts_for("prefix-moved", 12), blocks=64)
    stops = {stop.name: stop for stop in one.stops}
    at = stops["other_end"].find(trace)
    assert at is not None
    hits = [e for e in trace.steps[at].events if isinstance(e, ev.Share) and e.cause == "prefix"]
    assert len(hits) == 11 // block_size
    text = one.caption(stops["other_end"], trace, at, "en")
    assert f"the first 11 are known, {len(hits)} blocks found, {len(hits) * block_size} tokens" in text
    assert "ends at token 11 (counting from 0), ‘w90’:" in text
    moved = stops["moved"].find(trace)
    assert moved is not None and moved > at
    assert "The same words, only ‘w11’ now stands in front" in one.caption(stops["moved"], trace, moved, "en")
    question = gates.hits(coming(trace, moved, "en"))
    assert question is not None and question.truth == 0


@pytest.mark.parametrize("name, how", (("pool-runs-dry", "recompute"), ("pool-runs-dry-swap", "swap")))
@pytest.mark.parametrize("block_size, blocks", ((2, 12), (3, 8), (4, 6)))
def test_running_dry_says_who_and_how_much(name: str, how: str, block_size: int, blocks: int) -> None:
    one = lesson("running-dry")
    trace = run(name, block_size, prompts_for(name, 8), blocks=blocks)
    stops = {stop.name: stop for stop in one.stops}
    at = stops["preempt"].find(trace)
    assert at is not None
    event = next(e for e in trace.steps[at].events if isinstance(e, ev.Preempt))
    assert event.how == how
    before = next(s for s in trace.steps[at - 1].sequences if s.id == event.sequence)
    text = one.caption(stops["preempt"], trace, at, "en")
    assert f"B came later and gives up all {len(before.block_table)} blocks" in text
    assert f"keys and values of {before.written} tokens" in text
    question = gates.who_gives_way(coming(trace, at, "en"))
    assert question is not None and question.truth == event.sequence
    back = stops["again" if how == "recompute" else "back"].find(trace)
    assert back is not None
    computed = sum(e.count for e in trace.steps[back].events if isinstance(e, ev.Write))
    question = gates.tokens_computed(coming(trace, back, "en"))
    assert question is not None and question.truth == computed
    assert computed == (before.written + 1 if how == "recompute" else 1)


def test_both_sharing_rules_give_the_same_text(recorded: dict[str, Trace]) -> None:
    one, two = recorded["half-full-block"], recorded["answers-append-only"]
    assert [s.token_ids for s in one.steps[-1].sequences] == [s.token_ids for s in two.steps[-1].sequences]


def test_without_copy_on_write_only_the_last_writer_is_right(recorded: dict[str, Trace]) -> None:
    trace = recorded["no-copy-on-write"]
    stop = next(stop for stop in lesson("copy-on-write").stops if stop.name == "off")
    at = stop.find(trace)
    assert at == 1
    proof = trace.steps[1].proof
    assert proof is not None
    *lost, last = proof.by_sequence.values()
    assert min(lost) > 1.0 and last < 1e-3
    text = lesson("copy-on-write").caption(stop, trace, 1, "en")
    assert "logits of A and B change" in text and f"{max(lost):.1f}" in text


@pytest.mark.parametrize("block_size", (1, 2, 3, 4, 5, 8))
@pytest.mark.parametrize("length", (4, 5, 8, 12))
@pytest.mark.parametrize("name", [name for name in LESSON_IDS if lesson(name).own])
def test_questions_at_the_end_take_the_numbers_of_ones_own_run(
    name: str, length: int, block_size: int
) -> None:
    """What is asked of an own run is true of it, in both languages; what it has no step for is not asked."""
    one = lesson(name)
    scenario = one.stops[0].run
    blocks = -(-(length + 14) // block_size) if name == "running-dry" else 256 // block_size
    trace = run(scenario, block_size, prompts_for(scenario, length), blocks=blocks)
    by_lang = {lang: numbered(one, own(one, trace), lang) for lang in LANGUAGES}
    assert [number for number, _ in by_lang["zh"]] == [number for number, _ in by_lang["en"]]
    for (_, zh), (_, en) in zip(by_lang["zh"], by_lang["en"], strict=True):
        check(zh)
        assert zh.truth == en.truth and zh.because and en.because


def test_a_question_names_the_block_of_ones_own_run() -> None:
    one = lesson("copy-on-write")
    trace = run("half-full-block", 5, [list(range(8))])
    source = next(e.source for e in trace.steps[1].events if isinstance(e, ev.Copy))
    asked = dict(numbered(one, own(one, trace), "en"))
    assert f"share block {source}," in asked[0].question and "A block has 5 slots" in asked[2].question
    full = run("half-full-block", 4, [list(range(8))])
    assert 0 not in dict(numbered(one, own(one, full), "en")), "no copy there, nothing to ask about it"


# -- questions by themselves ---------------------------------------------------------------------------------


def test_numbers_near_never_doubles_the_truth() -> None:
    for truth in range(6):
        for wrong in ((), (truth,), (truth, 0, truth), (0, 1, 2, 3, 4, 5)):
            options = numbers_near(truth, wrong)
            assert options.count(truth) == 1 and len(set(options)) == len(options) >= 2
            assert list(options) == sorted(options) and min(options) >= 0
    assert min(numbers_near(1, (0,), low=1)) == 1


def test_a_question_whose_truth_is_no_option_is_refused() -> None:
    with pytest.raises(ValueError, match="hold the truth 3 once"):
        Question(question="?", truth=3, because="", options=((1, "1"), (2, "2")))
    with pytest.raises(ValueError, match="must differ"):
        Question(question="?", truth=1, because="", options=((1, "1"), (1, "one")))


def test_only_known_answers_are_taken() -> None:
    choice = Question(question="?", truth=2, because="", options=((1, "1"), (2, "2")))
    assert choice.known(1) and not choice.known("1") and not choice.known(3) and not choice.known(True)
    block = Question(question="?", truth=2, because="", kind="block", right=frozenset({2, 5}))
    assert block.known(7) and not block.known(-1) and not block.known("2") and not block.known(True)
    assert block.is_right(5) and not block.is_right(7)


def test_the_coming_step_is_not_in_what_may_be_shown() -> None:
    trace = run("half-full-block", 4, [list(range(10))])
    before = coming(trace, 1, "en")
    assert len(before.trace.steps) == 1 and before.before is trace.steps[0]
    assert len(trace.steps) > 1, "the trace itself stays whole"
