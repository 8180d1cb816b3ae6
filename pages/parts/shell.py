"""What surrounds every page: language, style, navigation, and the error that is a sentence."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from pages.parts import navigation
from pages.parts.guard import sentence_on_error
from pages.parts.words import t

_ASSETS = Path(__file__).resolve().parents[2] / "assets"
LANGUAGES = ("zh", "en")


def language() -> str:
    """ "zh" or "en": chosen in this tab, else asked for in the address, else the browser's own."""
    if st.session_state.get("lang") not in LANGUAGES:
        wanted = st.query_params.get("lang") or st.context.locale or "en"
        st.session_state.lang = "zh" if wanted.lower().startswith("zh") else "en"
    return st.session_state.lang


def _language_chosen() -> None:
    """Keep the language in a key of our own: a widget's key is gone when its page is."""
    st.session_state.lang = st.session_state.get("language_switch") or st.session_state.lang


def language_switch() -> None:
    """中文 / EN. Pages place it at the end of their top line; it changes words and nothing else."""
    st.session_state.language_switch = st.session_state.lang
    st.segmented_control(
        t("app.language", st.session_state.lang),
        LANGUAGES,
        format_func={"zh": "中文", "en": "EN"}.__getitem__,
        key="language_switch",
        label_visibility="collapsed",
        on_change=_language_chosen,
        width="content",
    )


def show() -> None:
    """One run of the app: called by app.py and by nothing else."""
    with sentence_on_error():
        lang = language()
        page = navigation.register("sidebar", lang)
        # An icon of our own: Streamlit's named ones are fetched from another host.
        st.set_page_config(
            page_title=t("app.title", lang),
            page_icon=_ASSETS / "icon.svg",
            layout="wide",
            initial_sidebar_state="collapsed",
        )
        st.html(_ASSETS / "app.css")
        st.session_state.via_app = True
        page.run()
