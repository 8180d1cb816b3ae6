"""The main page: one line of controls, the stage, and a side bar for live runs. Draws; callbacks change."""

from __future__ import annotations

from typing import Any

import streamlit as st

from core.trace.step import Trace
from pages.parts import library, live, model_status, side_bar, transport
from pages.parts.address import show_address
from pages.parts.follow import follow
from pages.parts.guard import sentence_on_error
from pages.parts.labels import letter
from pages.parts.payload import build_payload
from pages.parts.settings import values
from pages.parts.shell import language_switch
from pages.parts.stage import show_stage
from pages.parts.upload import file_controls
from pages.parts.view import View, view
from pages.parts.words import t

STAGE_KEY = "stage"
HARM = 0.01  # a logit that differs by this much is wrong; rounding of fp32 sums gives 0.0001 or less


def show() -> None:
    """One run of the page."""
    lang = st.session_state.lang
    live.begin_pending()
    # The picture first: what the controls import and look up takes longer than drawing it.
    top_line = st.container(horizontal=True, vertical_alignment="center", gap="small", key="top_line")
    st.session_state.polling = live.busy()
    st.fragment(_stage)()
    with top_line:
        _top_line(lang)
    if st.session_state.get("drawn"):
        with st.sidebar:
            side_bar.show(lang)
    else:
        st.fragment(_then_the_rest, run_every=0.3)()
    st.session_state.polling = _unsettled()
    if st.session_state.polling:
        st.fragment(_wait_for_step, run_every=0.2)()


def _then_the_rest() -> None:
    """A tab's first run leaves the side bar, which is closed, for a moment later: its thirty controls keep a
    browser from drawing the picture for half a second."""
    if st.session_state.get("drawn"):
        st.rerun()
    st.session_state.drawn = True


def shown_trace(place: View) -> Trace | None:
    """The trace that this tab looks at; None when there is none yet."""
    if place.source == "live":
        return live.trace()
    return library.lesson(place.lesson) if place.lesson else place.opened


def _title(place: View, lang: str) -> str:
    if place.source == "live":
        return t("live.title", lang)
    if place.lesson:
        return library.title(place.lesson, lang)
    return t("live.opened", lang, name=place.opened_name) if place.opened else t("live.lessons", lang)


def _lesson_chosen() -> None:
    if name := st.session_state.get("lessons"):
        view().show_lesson(name)


def _choose_source() -> None:
    chosen = st.session_state.get("source_switch")
    if chosen == "live":
        live.go_live()
    elif chosen == "recorded":
        view().source = "recorded"


def _proof_switched() -> None:
    view().proof = st.session_state.proof_switch
    live.prove(view().proof)


def _top_line(lang: str) -> None:
    place = view()
    if st.button(t("page.course", lang), icon=":material/school:", key="to_course"):
        st.switch_page("pages/course.py")
    if names := list(library.lessons()):
        st.menu_button(
            t("live.lessons", lang),
            names,
            format_func=lambda name: library.title(name, lang),
            key="lessons",
            on_click=_lesson_chosen,
            icon=":material/menu_book:",
        )
    st.session_state.source_switch = place.source
    st.segmented_control(
        t("live.source", lang),
        ("recorded", "live"),
        key="source_switch",
        required=True,
        format_func=lambda source: t(f"live.source.{source}", lang),
        label_visibility="collapsed",
        on_change=_choose_source,
        width="content",
    )
    with st.popover(t("live.file", lang), icon=":material/save:", key="file"):
        file_controls(shown_trace(place), place.lesson or place.key, lang)
    st.session_state.proof_switch = place.proof
    st.toggle(
        t("live.proof", lang), key="proof_switch", on_change=_proof_switched, help=t("live.proof.help", lang)
    )
    st.space("stretch")
    model_status.show(lang)
    language_switch()


def _act(action: dict[str, Any]) -> None:
    """What a click or a key in the stage does."""
    place = view()
    trace = shown_trace(place)
    if trace is None:
        return
    can_step = place.source == "live" and live.can_step()
    move = transport.apply(action, trace, place.index(trace), can_step_live=can_step)
    place.go(move.index)
    live.run().follow = False
    if move.command == "step":
        live.step()
    elif move.command == "select":
        place.selected = move.arg


def _stage() -> None:
    """The fragment that a click in the picture reruns, and nothing else of the page."""
    with sentence_on_error():
        lang, place = st.session_state.lang, view()
        if place.source == "live":
            live.catch_up()
        live.show_notices(lang)
        trace = shown_trace(place)
        if trace is None:
            st.info(t("live.none" if place.source == "live" else "live.no_lessons", lang))
            return
        index = place.index(trace)
        if place.source == "recorded" and place.lesson and (look := library.look(place.lesson, index, lang)):
            st.caption(look, help=library.note(place.lesson, lang) or None)
        if harm := harm_text(trace, index, lang):
            st.caption(harm)
        payload = _payload(trace, index, place, lang)
        near = {"step": index + 1, "back": index - 1}
        payload["near"] = {
            name: _payload(trace, at, place, lang) for name, at in near.items() if 0 <= at < len(trace.steps)
        }
        show_stage(payload, key=STAGE_KEY, on_action=_act)
        lesson = place.lesson if place.source == "recorded" else None
        show_address(lang=lang, lesson=lesson, step=index if lesson else None)
    if _unsettled() and not st.session_state.get("polling"):
        st.rerun()  # a slow step: the next full run places the fragment that waits for it


def _payload(trace: Trace, index: int, place: View, lang: str) -> dict[str, Any]:
    """What the stage draws of this step."""
    is_live = place.source == "live"
    payload = build_payload(
        trace,
        index,
        lang=lang,
        mode=place.source,
        title=_title(place, lang),
        selection=place.selected,
        lecture=values()["lecture"],
        busy=is_live and live.busy(),
        can_step_live=is_live and live.can_step(),
        lockstep=follow(trace, st.session_state.setdefault("_follow", {})),
    )
    if place.proof:
        payload["about"].append(proof_text(trace, index, lang))
    return payload


def proof_text(trace: Trace, index: int, lang: str) -> str:
    """The largest logit difference of a step from the dense pass, in words; or that none was recorded."""
    proof = trace.steps[index].proof if trace.steps else None
    if proof is None:
        return t("live.proof.none", lang)
    same = t("live.proof.same" if proof.same_argmax else "live.proof.other", lang)
    return t("live.proof.value", lang, diff=f"{proof.max_abs_logit_diff:.1e}", same=same)


def harm_text(trace: Trace, index: int, lang: str) -> str:
    """Whose logits are not what a dense pass gives, by how much, and whose are; "" where all are right.

    So it is where a lesson switches copy-on-write off: sequences read what others wrote into their block.
    """
    step = trace.steps[index] if trace.steps else None
    if step is None or step.proof is None or step.proof.max_abs_logit_diff < HARM:
        return ""
    names = {s.id: letter(place) for place, s in enumerate(step.sequences)}
    found = {names.get(s, s): diff for s, diff in step.proof.by_sequence.items()}
    one = {s: t("live.harm.one", lang, s=s, diff=f"{diff:.2g}") for s, diff in found.items()}
    comma = "、" if lang == "zh" else ", "
    harmed = comma.join(one[s] for s, diff in found.items() if diff >= HARM)
    unharmed = comma.join(one[s] for s, diff in found.items() if diff < HARM)
    rest = t("live.harm.unharmed", lang, unharmed=unharmed) if unharmed else t("live.harm.nobody", lang)
    return t("live.harm", lang, harmed=harmed) + rest if harmed else ""


def _unsettled() -> bool:
    """Whether the live run on the screen is going to change, or has changed since it was drawn."""
    return view().source == "live" and (live.busy() or live.news())


def _wait_for_step() -> None:
    """Ticks only while the worker computes; brings each new step to the screen."""
    if live.news() or not live.busy():
        st.rerun()
