"""The operating system's pages: captions and questions under other scripts; comparisons lead to steps."""

from __future__ import annotations

import pytest

from core.memory import events as ev
from core.scenarios import recorded_path
from core.trace import load
from pages.parts.gates import coming
from pages.parts.lessons import analogy, lesson
from pages.parts.lessons.analogy import BREAKS, SAME, Line
from pages.parts.lessons.lesson import Stop
from pages.parts.lessons.os_model import OsWalk, play
from pages.parts.words import LANGUAGES, t

ONE = lesson("os-pages")
STOPS = {stop.name: stop for stop in ONE.stops}
OTHER = (
    ("map", "X", 9, ""), ("write", "X", 7, "q"), ("write", "X", 2, "r"), ("write", "X", 4, "s"),
    ("write", "X", 7, "t"), ("fork", "X", 0, "Y"), ("write", "X", 4, "u"), ("write", "Y", 4, "v"),
    ("exit", "X", 0, ""),
)  # fmt: skip


@pytest.fixture(params=("told", "other"))
def walk(request: pytest.FixtureRequest) -> OsWalk:
    return play() if request.param == "told" else play(OTHER, frames=12, order=(9, 1, 11, 0))


def said(stop: Stop, walk: OsWalk, lang: str = "en") -> str:
    at = stop.find(walk)
    assert at is not None
    return ONE.caption(stop, walk, at, lang)


@pytest.mark.parametrize("lang", LANGUAGES)
def test_captions_name_the_frames_of_the_step(walk: OsWalk, lang: str) -> None:
    step = walk.steps[STOPS["copy"].find(walk)]
    copy = next(event for event in step.events if event.name == "copy")
    text = said(STOPS["copy"], walk, lang)
    for number in (copy.page, copy.source, copy.frame, copy.count):
        assert str(number) in text
    step = walk.steps[STOPS["fault"].find(walk)]
    bound = next(event for event in step.events if event.name == "bind")
    assert str(bound.frame) in said(STOPS["fault"], walk, lang)
    assert str(len(walk.steps[0].tables[walk.steps[0].process])) in said(STOPS["map"], walk, lang)


def test_what_ends_and_what_stays(walk: OsWalk) -> None:
    step = walk.steps[-1]
    freed = sum(event.name == "free" for event in step.events)
    kept = sum(event.name == "release" and event.count > 0 for event in step.events)
    text = said(STOPS["exit"], walk)
    assert f"Given back: {freed}; still in use by others: {kept}." in text
    assert f"Frames taken now: {sum(count > 0 for count in step.counts)}." in text


@pytest.mark.parametrize("lang", LANGUAGES)
def test_the_truth_of_every_question_is_what_the_machine_does(walk: OsWalk, lang: str) -> None:
    for at in range(1, len(walk.steps)):
        before, step = walk.steps[at - 1], walk.steps[at]
        taken = sum(c > 0 and not b for b, c in zip(before.counts, step.counts, strict=True))
        if step.what in ("fork", "write"):
            asked = STOPS["fault"].gate(coming(walk, at, lang))
            assert asked is not None and asked.truth == taken
        asked = STOPS["copy"].gate(coming(walk, at, lang))
        if step.what != "write":
            assert asked is None
            continue
        kinds = {event.name for event in step.events}
        truth = "copy" if "copy" in kinds else "bind" if "bind" in kinds else "place"
        assert asked is not None and asked.truth == truth


def test_a_question_is_the_same_in_both_languages(walk: OsWalk) -> None:
    for stop in ONE.stops:
        at = stop.find(walk)
        if stop.gate is not None and at:
            zh, en = (stop.gate(coming(walk, at, lang)) for lang in LANGUAGES)
            assert zh is not None and en is not None and zh.truth == en.truth
            assert [option for option, _ in zh.options] == [option for option, _ in en.options]


@pytest.mark.parametrize("line", (*SAME, *BREAKS), ids=lambda line: line.name)
def test_every_line_leads_to_a_step_that_shows_it(line: Line) -> None:
    walk = load(recorded_path(line.run))
    step = line.find(walk)
    assert step is not None and 0 <= step < len(walk.steps)
    assert analogy.link(line, walk, "zh") == f"./?lesson={line.run}&step={step}&lang=zh"
    events = walk.steps[step].events
    shows = {"cow": ev.Copy, "protect": ev.Copy, "full": ev.Preempt, "demand": ev.Allocate, "exit": ev.Free}
    if line.name in shows:
        assert any(isinstance(event, shows[line.name]) for event in events)
    for lang in LANGUAGES:
        assert all(t(f"analogy.{line.name}{part}", lang) for part in ("", ".os", ".kv"))


def test_no_line_links_to_a_run_without_its_step() -> None:
    walk = load(recorded_path("two-blocks"))
    assert analogy.link(Line("cow", "two-blocks", BREAKS[3].find), walk, "en") is None
