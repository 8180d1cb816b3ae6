"""The course page: lessons in the order of the text, with the ideas that each shows and one line on it."""

from __future__ import annotations

import streamlit as st

from pages.parts.address import show_address
from pages.parts.guard import sentence_on_error
from pages.parts.lessons import LESSON_IDS, lesson
from pages.parts.lessons.lesson import Lesson
from pages.parts.lessons.state import study
from pages.parts.shell import language_switch
from pages.parts.words import t


def show() -> None:
    """One run of the page."""
    lang = st.session_state.lang
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="top_line"):
        st.markdown(f"### {t('page.course', lang)}")
        st.space("stretch")
        language_switch()
    with sentence_on_error():
        st.markdown(t("lessons.path", lang))
        columns = st.columns(2, gap="large")
        half = -(-len(LESSON_IDS) // 2)
        for number, name in enumerate(LESSON_IDS):
            with columns[number // half]:
                _line(number, lesson(name), lang)
    show_address(lang=lang, lesson=None, step=None)


def ideas(one: Lesson, lang: str) -> str:
    """Which ideas of the course text a lesson shows; that it goes beyond where it shows none."""
    if not one.ideas:
        return t("lessons.beyond" if one.id != "parts" else "lessons.first", lang)
    numbers = ", ".join(str(idea) for idea in one.ideas)
    return t("lessons.ideas", lang, n=len(one.ideas), ideas=numbers)


def _line(number: int, one: Lesson, lang: str) -> None:
    with st.container(key=f"path_{one.id}", gap=None):
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            title = f"**{number} · {one.text('title', lang)}**"
            if st.button(title, key=f"open_{one.id}", type="tertiary", width="content"):
                study().open(one.id)
                st.switch_page("pages/lesson.py")
            st.badge(ideas(one, lang), color="gray")
        st.caption(one.text("line", lang))
