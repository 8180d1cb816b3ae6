"""The questions at the end of a lesson: made from the run, answered by choice, explained in one sentence."""

from __future__ import annotations

import random

import streamlit as st

from pages.parts.gates import Answer, Question
from pages.parts.lessons import LESSON_IDS, runs
from pages.parts.lessons.lesson import Lesson, Sight
from pages.parts.lessons.state import Study
from pages.parts.lessons.walk import Place
from pages.parts.words import t


def questions(lesson: Lesson, walks: dict[str, object], lang: str) -> list[Question]:
    """The lesson's questions from its recorded runs."""
    found = []
    for ask in lesson.questions:
        walk = walks[ask.run]
        step = ask.find(walk)
        if step is not None:
            found.append(ask.make(Sight(walk, step, lang)))
    return found


def order(lesson: str, number: int, question: Question) -> tuple[tuple[Answer, str], ...]:
    """The options, mixed the same way every time and in both languages; numbers stay in their order."""
    options = list(question.options)
    if not all(isinstance(option, int) for option, _ in options):
        random.Random(f"{lesson}{number}").shuffle(options)
    return tuple(options)


def show(state: Study, lang: str) -> None:
    """All questions, one under the other; each is explained as soon as it is answered."""
    st.subheader(t("lessons.quiz.title", lang, lesson=state.lesson.text("title", lang)), anchor=False)
    with st.container(key="quiz", gap="medium"):
        for number, question in enumerate(questions(state.lesson, runs.recorded(state.lesson), lang)):
            _one(state, number, question, lang)
    with st.container(horizontal=True):
        st.button(
            t("lessons.quiz.back", lang), key="quiz_back", icon=":material/arrow_back:", on_click=_back,
            args=(state,), shortcut="PageUp",
        )  # fmt: skip
        following = next_lesson(state.id)
        if following:
            st.button(
                t("lessons.quiz.next", lang, lesson=t(f"lesson.{following}.title", lang)), key="quiz_next",
                type="primary", on_click=state.open, args=(following,), shortcut="PageDown",
            )  # fmt: skip


def next_lesson(name: str) -> str | None:
    """The lesson after this one in the course; None after the last."""
    place = LESSON_IDS.index(name) + 1
    return LESSON_IDS[place] if place < len(LESSON_IDS) else None


def _back(state: Study) -> None:
    state.place = Place()
    state.asked_stop = len(state.lesson.stops) - 1


def _note(state: Study, key: str) -> None:
    state.quiz[key] = st.session_state[key]


def _one(state: Study, number: int, question: Question, lang: str) -> None:
    options = dict(order(state.id, number, question))
    key = f"quiz_{state.id}_{number}"
    given = state.quiz.get(key)
    if key not in st.session_state and given in options:
        st.session_state[key] = given
    st.radio(
        f"**{number + 1}. {question.question}**", list(options), index=None, key=key,
        format_func=lambda option: options.get(option, ""), on_change=_note, args=(state, key),
        horizontal=all(len(text) < 12 for text in options.values()),
    )  # fmt: skip
    if given in options:
        right = question.is_right(given)
        verdict = t("stage.right" if right else "stage.wrong", lang)
        (st.success if right else st.info)(f"{verdict}{t('lessons.quiz.mark', lang)}{question.because}")
