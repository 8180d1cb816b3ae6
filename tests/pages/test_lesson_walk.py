"""Where a key leads in a lesson, what a frame shows, the event log: pure functions."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from core.memory import events as ev
from core.scenarios import SCENARIOS
from pages.parts.lessons import LESSON_IDS, lesson, log, runs
from pages.parts.lessons.frame import Frame, stage_payload
from pages.parts.lessons.own import scenario_of, wish
from pages.parts.lessons.pictures import mark, picture
from pages.parts.lessons.quiz import next_lesson
from pages.parts.lessons.state import Study
from pages.parts.lessons.walk import Place, Way, back, forward, has_next, jump
from tests.pages.lesson_runs import run

# two stops in run a (steps 1 and 3 of 5), one that never happens, one in run b (step 0 of 2)
WAY = Way((("a", 1), ("a", 3), ("a", None), ("b", 0)), {"a": (2, 1, 0, 3, 1), "b": (1, 1)})


def walk_on(place: Place, pace: str, move: object, times: int) -> list[Place]:
    found = []
    for _ in range(times):
        place = move(WAY, place, pace)
        found.append(place)
    return found


def test_stops_then_questions_and_back() -> None:
    assert walk_on(Place(0, 1), "stops", forward, 4) == [Place(1, 3), Place(3, 0), Place(4), Place(4)]
    assert walk_on(Place(4), "stops", back, 4) == [Place(3, 0), Place(1, 3), Place(0, 1), Place(0, 1)]
    assert not has_next(WAY, Place(4)) and has_next(WAY, Place(3, 0))


def test_token_by_token_passes_every_step_and_every_stop() -> None:
    assert walk_on(Place(0, 1), "steps", forward, 5) == [
        Place(0, 2), Place(1, 3), Place(1, 4), Place(3, 0), Place(3, 1),
    ]  # fmt: skip
    assert back(WAY, Place(1, 3), "steps") == Place(0, 2)
    assert back(WAY, Place(3, 0), "steps") == Place(1, 3)


def test_event_by_event() -> None:
    places = walk_on(Place(0, 1), "events", forward, 4)
    assert places == [Place(0, 1, 0), Place(0, 2), Place(1, 3), Place(1, 3, 0)]
    assert back(WAY, Place(1, 3, 1), "events") == Place(1, 3, 0)
    assert back(WAY, Place(1, 3, 0), "events") == Place(1, 3)


def test_stepping_back_from_between_two_stops_goes_to_the_stop() -> None:
    assert back(WAY, Place(1, 4), "stops") == Place(1, 3)


def test_goto_and_jump_stay_in_the_run() -> None:
    assert WAY.near(Place(0, 1), 99) == Place(1, 4) and WAY.near(Place(1, 3), -5) == Place(0, 0)
    assert jump(WAY, Place(0, 1), [1, 4]) == Place(1, 4) and jump(WAY, Place(1, 4), [1, 4]) == Place(1, 4)
    assert WAY.at(99) == Place(4) and WAY.at(-1) == Place(0, 1) and WAY.at(2) == Place(2, 4)


def test_an_open_run_waits_at_its_last_stop() -> None:
    open_way = Way((("live", 0), ("live", None)), {"live": (1,)}, open=True)
    assert forward(open_way, Place(0, 0), "stops") == Place(0, 0)


def frame(name: str, place: Place, **more: object) -> Frame:
    one = lesson(name)
    walks = {stop.run: run(stop.run, 4, [list(range(10))]) for stop in one.stops}
    way = runs.way(one, walks)
    trace = walks[way.stops[place.stop][0]]
    return Frame(lesson=one, way=way, place=place, trace=trace, lang="en", **more)  # type: ignore[arg-type]


def test_while_a_question_is_open_nothing_of_the_step_is_shown() -> None:
    asking = frame("copy-on-write", Place(1, 1))
    payload = stage_payload(asking)
    assert asking.asking() and payload["gate"]["question"] and "result" not in payload["gate"]
    assert payload["index"] == payload["known"] == 0 and payload["say"]["text"] == ""
    assert payload["last"] == len(asking.trace.steps) - 1  # the time line keeps its length
    assert payload["marks"].get("copy") is None and "copy" not in payload["did"]
    target = next(e.target for e in asking.trace.steps[1].events if isinstance(e, ev.Copy))
    assert all(target not in row["b"] for row in payload["seqs"])
    assert str(asking.trace.steps[1].sequences[0].token_ids[-1]) not in json.dumps(payload["seqs"])
    assert payload["point"] == []
    assert len(asking.seen().steps) == 1, "the event log tells nothing of it either"
    assert len(frame("copy-on-write", Place(1, 1), given=3).seen().steps) == len(asking.trace.steps)


def test_a_lesson_begun_again_asks_again() -> None:
    one = Study("copy-on-write", answers={("copy-on-write", "recorded", 1): 3, ("sharing", "recorded", 1): 2})
    one.quiz = {"quiz_copy-on-write_0": 2, "quiz_sharing_0": 1}
    one.forget()
    assert one.answers == {("sharing", "recorded", 1): 2} and one.quiz == {"quiz_sharing_0": 1}


def test_after_the_answer_prediction_and_truth_stand_side_by_side() -> None:
    told = frame("copy-on-write", Place(1, 1), given=3)
    payload = stage_payload(told)
    assert payload["index"] == 1 and payload["did"]["copy"]
    result = payload["gate"]["result"]
    assert (result["answer"], result["truth"], result["correct"]) == (3, 2, False)
    assert result["text"] == "", "the caption says why"
    again = stage_payload(frame("copy-on-write", Place(2, 2), given="copy"))
    assert again["gate"]["result"]["text"], "this caption does not"
    assert "Copy-on-write" in payload["say"]["head"] and payload["point"]


def test_without_questions_the_step_is_shown_without_a_result() -> None:
    payload = stage_payload(frame("copy-on-write", Place(1, 1), gates=False))
    assert payload["gate"] is None and payload["index"] == 1 and payload["say"]["text"]


@pytest.mark.parametrize("place", (Place(1, 1), Place(2, 2)))
def test_a_question_passed_by_tells_its_answer(place: Place) -> None:
    told = frame("copy-on-write", place, skipped=True)
    payload = stage_payload(told)
    assert not told.asking() and payload["index"] == place.step and payload["say"]["text"]
    result, answered = payload["gate"]["result"], stage_payload(replace(told, skipped=False, given=3))
    assert (result["answer"], result["correct"]) == (None, None)
    truth = answered["gate"]["result"]
    assert (result["truth"], result["text"]) == (truth["truth"], truth["text"])
    assert place.stop == 1 or result["text"], "this caption does not say why"


def test_which_of_several_runs_is_on_the_screen() -> None:
    several = ("half-full-block", "no-copy-on-write", "full-block")
    one = frame("copy-on-write", Place(4, 0))
    assert stage_payload(one)["run"] == {"r": 3, "of": len(several)}
    assert stage_payload(frame("copy-on-write", Place(1, 1), given=3))["run"]["r"] == 1
    assert stage_payload(frame("paged-attention", Place(0, 0)))["run"] is None


def test_between_stops_the_step_speaks_for_itself_and_events_one_at_a_time() -> None:
    between = stage_payload(frame("copy-on-write", Place(2, 4)))
    assert between["say"]["text"] and between["gate"] is None
    event = frame("copy-on-write", Place(1, 1, 0), skipped=True)
    payload = stage_payload(event)
    assert payload["say"]["head"].startswith("Event 1 of")
    copy = event.trace.steps[1].events[0]
    assert isinstance(copy, ev.Copy)
    assert payload["point"] == [f'.right .card[data-b="{b}"]' for b in (copy.source, copy.target)]


def test_only_the_first_place_has_nothing_before_it() -> None:
    assert not stage_payload(frame("copy-on-write", Place(0, 0)))["can_back"]
    assert stage_payload(frame("copy-on-write", Place(0, 0, 0)))["can_back"]
    assert stage_payload(frame("copy-on-write", Place(2, 2), skipped=True))["can_back"]


def test_a_live_run_locates_stops_as_it_grows() -> None:
    one = lesson("copy-on-write")
    trace = run("half-full-block", 4, [list(range(10))])
    steps = list(trace.steps)
    trace.steps = steps[:1]
    assert [at for _, at in runs.live_way(one, trace, open_=True).stops] == [0] + [None] * 5
    trace.steps = steps
    located = [at for _, at in runs.live_way(one, trace, open_=False).stops]
    assert located[:3] == [0, 1, 2] and located[3] is None


def test_stops_about_other_rules_are_not_looked_for_in_ones_own_run() -> None:
    one, trace = lesson("sharing-rules"), run("half-full-block", 4, [list(range(10))])
    located = [at for _, at in runs.live_way(one, trace, open_=False).stops]
    assert [stop.run for stop in one.stops[:4]] == ["half-full-block", "answers-append-only"] * 2
    assert located == [0, None, 1, None, None]
    assert set(runs.own(one, trace)) == {"half-full-block"}
    assert set(runs.own(lesson("running-dry"), trace)) == {"pool-runs-dry"}
    assert set(runs.own(lesson("copy-on-write"), trace)) == {"half-full-block", "full-block"}


def test_the_log_filters_by_kind_and_sequence() -> None:
    trace = run("half-full-block", 4, [list(range(10))])
    found = log.entries(trace)
    assert not any(hasattr(entry.event, "strategy") for entry in found)
    copies = log.filtered(found, ["copy"], [])
    assert [entry.step for entry in copies] == [1, 1]
    assert {entry.owner for entry in log.filtered(found, [], ["B"])} == {"B"}
    assert log.filtered(found, [], []) == found


@pytest.mark.parametrize("lang", ("zh", "en"))
def test_differences_are_those_of_the_two_pictures(lang: str) -> None:
    trace = run("half-full-block", 4, [list(range(10))])
    lines = log.differences(trace, 1, lang)
    before, after = trace.steps[0], trace.steps[1]
    for place, name in enumerate("AB"):
        old, new = list(before.sequences[place].block_table), list(after.sequences[place].block_table)
        assert any(line.startswith(name) and f"{old} → {new}" in line for line in lines)
    shared = before.sequences[0].block_table[-1]
    assert any(f" {shared}" in line and "3 → 1" in line for line in lines)
    assert log.differences(trace, 0, lang), "the first step differs from an empty pool"


def test_own_prompts_take_the_rules_of_the_scenario() -> None:
    asked = wish(SCENARIOS["system-prompt"], ["a", "b", "c", "d", "e"], 8, 40)
    assert asked.config.prefix_cache and asked.config.block_size == 8 and asked.config.num_blocks == 40
    assert [request["prompt"] for request in asked.requests] == ["a", "b", "c", "d", "e"]
    assert [request.get("arrival_step", 0) for request in asked.requests] == [0, 2, 4, 6, 6]
    with pytest.raises(ValueError, match="no prompt"):
        wish(SCENARIOS["system-prompt"], [], 8, 40)
    with pytest.raises(ValueError, match="block size is 65"):
        wish(SCENARIOS["system-prompt"], ["a"], 65, 40)


@pytest.mark.parametrize("name", LESSON_IDS)
def test_a_lesson_with_its_own_prompt_has_a_scenario_for_it(name: str) -> None:
    one = lesson(name)
    assert (scenario_of(one) is not None) == one.own


def test_the_path_goes_through_all_lessons() -> None:
    assert [next_lesson(name) for name in LESSON_IDS] == [*LESSON_IDS[1:], None]
    with pytest.raises(ValueError, match="no lesson 'nonsense'"):
        lesson("nonsense")


def test_pictures_and_marks() -> None:
    assert mark("rect", cls="live", data_b=3, x=None) == ["rect", {"class": "live", "data-b": 3}, ""]
    with pytest.raises(ValueError, match="'script' cannot be drawn"):
        mark("script")
    with pytest.raises(ValueError, match="no picture 'nonsense'"):
        picture("nonsense")
