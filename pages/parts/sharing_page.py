"""The page of the two sharing rules: which pair, one transport, two pictures. Draws; callbacks change."""

from __future__ import annotations

from typing import Any

import streamlit as st

from pages.parts import component, library
from pages.parts.address import asked_step, show_address
from pages.parts.guard import sentence_on_error
from pages.parts.sharing_payload import sharing_payload
from pages.parts.shell import language_switch
from pages.parts.words import t

# The same requests under copy-on-write and under append-only.
PAIRS = {"half-full-block": "answers-append-only", "three-beams": "beams-append-only"}


_PICTURE = st.components.v2.component(
    "paged_kv_sharing",
    html='<div class="two"></div>\n',
    js=component.bundle("sharing", ("sharing/sharing.js",), ("sharing/sharing.css",)),
)


def pairs() -> dict[str, str]:
    """The pairs of which both recordings are there."""
    there = library.lessons()
    return {one: two for one, two in PAIRS.items() if one in there and two in there}


def show() -> None:
    """One run of the page."""
    with sentence_on_error():
        lang = st.session_state.lang
        found = pairs()
        if not found:
            st.info(t("live.no_lessons", lang))
            return
        place = _place(list(found))
        traces = library.lesson(place["pair"]), library.lesson(found[place["pair"]])
        place["last"] = max(len(trace.steps) for trace in traces) - 1
        place["step"] = min(place["step"], place["last"])
        with st.container(horizontal=True, vertical_alignment="center", gap="small", key="top_line"):
            _top_line(list(found), place, lang)
        payload = sharing_payload(traces, place["step"], lang)
        _PICTURE(data=component.in_a_list(payload), key="sharing_picture")
        show_address(lang=lang, lesson=None, step=place["step"])


def _place(names: list[str]) -> dict[str, Any]:
    """This tab's pair and step, kept apart from the widgets, whose values go with their page."""
    place: dict[str, Any] = st.session_state.setdefault(
        "sharing_place", {"pair": names[0], "step": asked_step(), "last": 0}
    )
    if place["pair"] not in names:
        place["pair"] = names[0]
    return place


def _go(place: dict[str, Any], step: int) -> None:
    place["step"] = min(max(step, 0), place["last"])


def _pair_chosen(place: dict[str, Any]) -> None:
    place["pair"], place["step"] = st.session_state.sharing_pair, 0


def _top_line(names: list[str], place: dict[str, Any], lang: str) -> None:
    st.session_state.sharing_pair = place["pair"]
    st.markdown(f"### {t('page.sharing', lang)}")
    st.segmented_control(
        t("sharing_page.pair", lang), names, key="sharing_pair", required=True, width="content",
        format_func=lambda name: t(f"sharing_page.pair.{name}", lang), label_visibility="collapsed",
        on_change=_pair_chosen, args=(place,),
    )  # fmt: skip
    at, last = place["step"], place["last"]
    keys = (
        ("start", 0, None, at > 0), ("back", at - 1, "Left", at > 0), ("step", at + 1, "Right", at < last),
        ("end", last, None, at < last),
    )  # fmt: skip
    for name, to, shortcut, possible in keys:
        st.button(
            t(f"stage.{name}", lang), key=f"sharing_{name}", on_click=_go, args=(place, to),
            shortcut=shortcut, type="primary" if name == "step" else "secondary", disabled=not possible,
        )  # fmt: skip
    st.text(t("stage.at", lang, k=at, n=last))
    st.space("stretch")
    language_switch()
