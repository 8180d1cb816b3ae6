"""The questions at the end on the page, by AppTest: keys, answers told without a vote, their numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from pages.parts.lessons import lesson
from pages.parts.lessons.quiz import _act, first_open, key_of, numbered, order
from pages.parts.lessons.runs import recorded
from pages.parts.lessons.state import SKIPPED, Study
from pages.parts.words import t

ROOT = Path(__file__).resolve().parents[2]
NAME = "copy-on-write"


def opened(lang: str, step: int = 7) -> AppTest:
    at = AppTest.from_file(str(ROOT / "app.py"), default_timeout=60)
    at.switch_page("pages/lesson.py")
    for name, value in {"lesson": NAME, "step": str(step), "lang": lang}.items():
        at.query_params[name] = value
    at.run()
    assert not at.exception
    return at


def texts(at: AppTest) -> str:
    return " ".join(one.value for one in (*at.info, *at.success))


@pytest.mark.parametrize("lang", ("zh", "en"))
def test_every_answer_bears_the_number_of_its_key(lang: str) -> None:
    at = opened(lang)
    assert len(at.radio) == len(lesson(NAME).questions)
    for radio in at.radio:
        assert [text.split("]")[0] for text in radio.options] == [
            f":gray-badge[{k}" for k in range(1, len(radio.options) + 1)
        ]


@pytest.mark.parametrize("lang", ("zh", "en"))
def test_an_open_question_is_told_before_the_page_goes_on(lang: str) -> None:
    at = opened(lang)
    for place in range(3):
        tell = at.get_by_key("quiz_tell")
        assert tell.label == t("lessons.quiz.tell", lang, k=place + 1)
        tell.click().run()
        assert texts(at).count(t("stage.unanswered", lang)) == place + 1
        assert ":material/check_circle:" in " ".join(at.radio[place].options)
    assert not [one for one in at.button if one.key == "quiz_tell"]
    assert at.session_state.study.id == NAME, "the next lesson is one more press away"


def test_a_vote_after_all_counts_as_an_answer() -> None:
    at = opened("en")
    at.get_by_key("quiz_tell").click().run()
    at.radio[0].set_value(3).run()
    assert t("stage.wrong", "en") in texts(at) and t("stage.unanswered", "en") not in texts(at)


@pytest.fixture
def tab(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A tab's state without a page."""

    class State(dict[str, Any]):
        __getattr__ = dict.__getitem__

    state = State(study=Study(NAME), lang="en")
    monkeypatch.setattr("pages.parts.lessons.quiz.st.session_state", state)
    return state


def test_keys_answer_the_first_open_question_and_tell_it() -> None:
    one = Study(NAME)
    asked = numbered(one.lesson, recorded(one.lesson), "en")
    assert first_open(one, asked) == 0
    one.quiz[key_of(one, 0)] = SKIPPED
    assert first_open(one, asked) == 1
    one.quiz[key_of(one, 1)] = "block"
    assert first_open(one, asked) == 2
    one.quiz[key_of(one, 2)] = 99  # an answer of another run that this question does not have
    assert first_open(one, asked) == 2


def test_digits_and_arrows(tab: Any) -> None:
    study = tab.study
    asked = numbered(study.lesson, recorded(study.lesson), "en")
    _act({"do": "predict", "arg": 9})
    assert study.quiz == {}
    _act({"do": "predict", "arg": 2})
    assert study.quiz == {key_of(study, 0): order(NAME, 0, asked[0][1])[1][0]}
    _act({"do": "step"})
    assert study.quiz[key_of(study, 1)] == SKIPPED and study.id == NAME
    _act({"do": "step"})
    _act({"do": "step"})
    assert study.id == "many-answers"
    _act({"do": "back"})
    assert study.asked_stop == len(study.lesson.stops) - 1


@pytest.mark.parametrize("lang", ("zh", "en"))
def test_all_points_of_a_recording_can_be_chosen(lang: str) -> None:
    at = opened(lang, step=1)
    points = [one for one in at.button if one.key.startswith("point_")]
    assert [one.label for one in points] == ["1", "2", "3", "4", "5", "6", t("lessons.questions", lang)]
    assert not any(one.disabled for one in points)
    points[3].click().run()
    assert at.session_state.study.place.stop == 3 and not at.exception
