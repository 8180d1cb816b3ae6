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

BEYOND = ("kernel", "capacity")


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
        half = -(-(len(LESSON_IDS) + len(BEYOND)) // 2)
        for number, name in enumerate(LESSON_IDS):
            with columns[number // half]:
                _line(number, lesson(name), lang)
        for number, page in enumerate(BEYOND, len(LESSON_IDS)):
            with columns[number // half]:
                _page(number, page, lang)
    show_address(lang=lang, lesson=None, step=None)


def _page(number: int, page: str, lang: str) -> None:
    """A page beyond the text that is no lesson: it computes from what one sets."""
    with st.container(key=f"path_{page}", gap=None):
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            title = f"**{number} · {t(f'page.{page}', lang)}**"
            if st.button(title, key=f"open_{page}", type="tertiary", width="content"):
                st.switch_page(f"pages/{page}.py")
            st.badge(t("lessons.beyond", lang), color="gray")
        st.caption(t(f"lessons.path.{page}", lang))


def ideas(one: Lesson, lang: str) -> str:
    """Which ideas of the course text a lesson shows; that it goes beyond where it shows none."""
    if not one.ideas:
        return t("lessons.beyond" if one.id != "parts" else "lessons.first", lang)
    numbers = ("、" if lang == "zh" else ", ").join(str(idea) for idea in one.ideas)
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
