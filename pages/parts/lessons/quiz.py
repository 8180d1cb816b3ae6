"""The questions at the end of a lesson: made from the run, answered by choice, explained in one sentence."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import streamlit as st

from pages.parts import live
from pages.parts.gates import Answer, Question
from pages.parts.lessons import LESSON_IDS, runs
from pages.parts.lessons.lesson import Lesson, Sight
from pages.parts.lessons.quiz_keys import listen
from pages.parts.lessons.state import SKIPPED, Study
from pages.parts.lessons.walk import Place
from pages.parts.words import t

Numbered = tuple[int, Question]  # its number in the lesson, from 0, and the question


def numbered(lesson: Lesson, walks: Mapping[str, Any], lang: str) -> list[Numbered]:
    """The lesson's questions that these runs have numbers for; the others are not asked."""
    found = []
    for number, ask in enumerate(lesson.questions):
        walk = walks.get(ask.run)
        step = None if walk is None else ask.find(walk)
        question = None if step is None else ask.make(Sight(walk, step, lang))
        if question is not None:
            found.append((number, question))
    return found


def questions(lesson: Lesson, walks: Mapping[str, Any], lang: str) -> list[Question]:
    """The same without their numbers."""
    return [question for _, question in numbered(lesson, walks, lang)]


def _asked(state: Study, lang: str) -> list[Numbered]:
    """What this tab is asked: of its own run while it looks at one, else of the recorded runs."""
    trace = live.trace() if state.live else None
    if trace is not None and trace.steps:
        return numbered(state.lesson, runs.own(state.lesson, trace), lang)
    return numbered(state.lesson, runs.recorded(state.lesson), lang)


def order(lesson: str, number: int, question: Question) -> tuple[tuple[Answer, str], ...]:
    """The options, mixed the same way every time and in both languages; numbers stay in their order."""
    options = list(question.options)
    if not all(isinstance(option, int) for option, _ in options):
        random.Random(f"{lesson}{number}").shuffle(options)
    return tuple(options)


def key_of(state: Study, number: int) -> str:
    """What the answer to a question is filed under; every own run asks anew."""
    return f"quiz_{state.id}_{number}" + (f"_own{live.run().begun}" if state.live else "")


def first_open(state: Study, asked: list[Numbered]) -> int | None:
    """Place on the screen of the first question that is neither answered nor told."""
    for place, (number, question) in enumerate(asked):
        given = state.quiz.get(key_of(state, number))
        if given != SKIPPED and not question.known(given):
            return place
    return None


def show(state: Study, lang: str) -> None:
    """All questions, one under the other; each is explained as soon as it is answered or passed by."""
    st.subheader(t("lessons.quiz.title", lang, lesson=state.lesson.text("title", lang)), anchor=False)
    asked = _asked(state, lang)
    with st.container(key="quiz", gap="medium"):
        for place, (number, question) in enumerate(asked):
            _one(state, place, number, question, lang)
        if not asked:
            st.info(t("lessons.quiz.none_fits", lang))
    waiting = first_open(state, asked)
    with st.container(horizontal=True):
        st.button(
            t("lessons.quiz.back", lang), key="quiz_back", icon=":material/arrow_back:", on_click=_back,
            args=(state,), shortcut="PageUp",
        )  # fmt: skip
        if waiting is not None:
            st.button(
                t("lessons.quiz.tell", lang, k=waiting + 1), key="quiz_tell", on_click=_tell,
                args=(state, asked[waiting][0]), shortcut="PageDown",
            )  # fmt: skip
        following = next_lesson(state.id)
        if following:
            st.button(
                t("lessons.quiz.next", lang, lesson=t(f"lesson.{following}.title", lang)), key="quiz_next",
                type="primary", on_click=state.open, args=(following,),
                shortcut="PageDown" if waiting is None else None,
            )  # fmt: skip
    listen(_act)


def next_lesson(name: str) -> str | None:
    """The lesson after this one in the course; None after the last."""
    place = LESSON_IDS.index(name) + 1
    return LESSON_IDS[place] if place < len(LESSON_IDS) else None


def _back(state: Study) -> None:
    state.place = Place()
    state.asked_stop = len(state.lesson.stops) - 1


def _tell(state: Study, number: int) -> None:
    state.quiz[key_of(state, number)] = SKIPPED


def _note(state: Study, key: str) -> None:
    state.quiz[key] = st.session_state[key]


def _act(action: dict[str, Any]) -> None:
    """A key: a digit answers the first open question, Right tells its answer or goes on, Left goes back."""
    state: Study = st.session_state.study
    asked = _asked(state, st.session_state.lang)
    place, do, arg = first_open(state, asked), action.get("do"), action.get("arg")
    if do == "back":
        _back(state)
    elif do == "start":
        state.forget()
        state.place, state.asked_stop = Place(), 0
    elif do == "step" and place is None:
        if following := next_lesson(state.id):
            state.open(following)
    elif do == "step" and place is not None:
        _tell(state, asked[place][0])
    elif do == "predict" and place is not None and isinstance(arg, int):
        number, question = asked[place]
        options = order(state.id, number, question)
        if 1 <= arg <= len(options):
            key = key_of(state, number)
            state.quiz[key] = st.session_state[key] = options[arg - 1][0]


def _one(state: Study, place: int, number: int, question: Question, lang: str) -> None:
    options = dict(order(state.id, number, question))
    key = key_of(state, number)
    given: Any = state.quiz.get(key)
    told = given == SKIPPED or given in options
    if key not in st.session_state and given in options:
        st.session_state[key] = given
    labels = {
        option: f":gray-badge[{k}] {text}{_MARK if told and question.is_right(option) else ''}"
        for k, (option, text) in enumerate(options.items(), start=1)
    }
    st.radio(
        f"**{place + 1}. {question.question}**", list(options), index=None, key=key,
        format_func=lambda option: labels.get(option, ""), on_change=_note, args=(state, key),
        horizontal=all(len(text) < 12 for text in options.values()),
    )  # fmt: skip
    stop = t("lessons.quiz.mark", lang)
    if given == SKIPPED:
        truth = t("stage.was_so", lang, truth=options[question.truth])
        st.info(f"{t('stage.unanswered', lang)}{stop}{truth}{stop}{question.because}")
    elif given in options:
        right = question.is_right(given)
        verdict = t("stage.right" if right else "stage.wrong", lang)
        (st.success if right else st.info)(f"{verdict}{stop}{question.because}")


_MARK = " :green[:material/check_circle:]"  # behind the right answer, once it is told
