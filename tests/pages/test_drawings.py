"""Drawings of lessons: plain data, nothing cut off, both languages, and no answer before its question."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from core.scenarios import SCENARIOS, recorded_path
from core.trace import load
from pages.parts.lessons import LESSON_IDS, lesson
from pages.parts.lessons.drawings.basics import WIDTH, bytes_text, fitted, width_of
from pages.parts.lessons.frame import Frame, sheet_payload
from pages.parts.lessons.lesson import Lesson
from pages.parts.lessons.pictures import PICTURES, TAGS, mark, picture
from pages.parts.lessons.runs import way
from pages.parts.words import LANGUAGES

DRAWN = [
    (one, number)
    for one in map(lesson, LESSON_IDS)
    for number, stop in enumerate(one.stops)
    if stop.picture != "stage"
]
SIZES = {"big": 18.0, "mono": 13.0, "quiet": 13.0}


def frame(one: Lesson, number: int, lang: str, **more: Any) -> Frame:
    names = {stop.run for stop in one.stops}
    walks = {n: one.made[n]() if n in one.made else load(recorded_path(n)) for n in names}
    found = way(one, walks)
    return Frame(
        lesson=one, way=found, place=found.at(number), trace=walks[one.stops[number].run], lang=lang, **more
    )


def drawings(payload: dict[str, Any]) -> list[dict[str, Any]]:
    drawn = payload["drawing"]
    return drawn["choices"]["drawings"] if "choices" in drawn else [drawn]


def flat(marks: list[Any]) -> Iterator[list[Any]]:
    for one in marks:
        yield one
        if isinstance(one[2], list):
            yield from flat(one[2])


@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize("one, number", DRAWN, ids=lambda value: getattr(value, "id", value))
def test_every_drawing_is_plain_and_nothing_is_cut_off(one: Lesson, number: int, lang: str) -> None:
    payload = sheet_payload(frame(one, number, lang, skipped=True))
    assert json.loads(json.dumps(payload)) == payload
    assert len(json.dumps(payload)) < 60_000
    for drawn in drawings(payload):
        assert drawn["alt"] and 0 < drawn["height"] <= 500
        for tag, attributes, inner in flat(drawn["marks"]):
            assert tag in TAGS and not any(name.startswith("on") for name in attributes)
            if tag == "a":
                assert attributes["href"].startswith("./?lesson=")
            if tag == "text":
                check_room(attributes, inner, drawn["height"])


def check_room(attributes: dict[str, Any], words: str, height: float) -> None:
    names = attributes.get("class", "").split()
    wide = width_of(words, next((SIZES[name] for name in names if name in SIZES), 14.0))
    x = attributes["x"]
    left = x - wide if "end" in names else x - wide / 2 if "middle" in names else x
    assert left >= -8 and left + wide <= WIDTH + 8, (words, left, wide)
    assert 5 <= attributes["y"] <= height - 5, words


@pytest.mark.parametrize("one, number", DRAWN, ids=lambda value: getattr(value, "id", value))
def test_while_a_question_is_open_the_picture_is_that_of_the_step_before(one: Lesson, number: int) -> None:
    asking = frame(one, number, "en")
    if not asking.asking():
        return
    shown, told = sheet_payload(asking), sheet_payload(frame(one, number, "en", skipped=True))
    assert shown["index"] == asking.place.step - 1 and shown["say"] == {"head": "", "text": ""}
    assert shown["drawing"] != told["drawing"], "the answer must not be on the screen already"
    answered = frame(one, number, "en", given=asking.question().truth)  # type: ignore[union-attr]
    assert sheet_payload(answered)["gate"]["result"]["correct"]


def test_every_picture_is_used_and_exists() -> None:
    used = {stop.picture for one in map(lesson, LESSON_IDS) for stop in one.stops} - {"stage"}
    assert used == set(PICTURES)
    assert all(callable(picture(name)) for name in PICTURES)
    with pytest.raises(ValueError, match="no picture"):
        picture("nothing")
    with pytest.raises(ValueError, match="cannot be drawn"):
        mark("script")


def test_runs_are_scenarios_or_made() -> None:
    for one in map(lesson, LESSON_IDS):
        assert all(stop.run in SCENARIOS or stop.run in one.made for stop in one.stops)


def test_lines_break_where_they_may() -> None:
    assert fitted("one two three", 60, 14) == ["one two", "three"]
    lines = fitted("没有缺页：调度器在这一步之前就把块备好。", 90, 14)
    assert len(lines) > 2 and "".join(lines) == "没有缺页：调度器在这一步之前就把块备好。"
    assert not any(line[0] in "：。，" for line in lines)
    assert " ".join(fitted("a block of 4 KiB，页", 40, 14)).replace(" ", "") == "ablockof4KiB，页"


def test_bytes_as_people_read_them() -> None:
    assert bytes_text(9_999) == "9,999 B"
    assert bytes_text(46_080) == "45.0 KiB" and bytes_text(460_800) == "450 KiB"
    assert bytes_text(64 << 20) == "64.0 MiB"
