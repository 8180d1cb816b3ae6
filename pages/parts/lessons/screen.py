"""The lesson page: one quiet line of controls, then the picture with its caption, or the questions."""

from __future__ import annotations

from typing import Any

import streamlit as st

from pages.parts import live, model_status, settings, transport
from pages.parts.address import show_address
from pages.parts.guard import sentence_on_error
from pages.parts.lessons import log, own, quiz, runs
from pages.parts.lessons.frame import Frame, sheet_payload, stage_payload
from pages.parts.lessons.sheet import show_sheet
from pages.parts.lessons.state import SKIPPED, Study, study
from pages.parts.lessons.walk import PACES, Way, back, forward, jump
from pages.parts.shell import language_switch
from pages.parts.stage import show_stage
from pages.parts.words import t


def show() -> None:
    """One run of the page."""
    lang = st.session_state.lang
    live.begin_pending()
    live.catch_up()
    _ready(study())
    st.session_state.lesson_drawn = study().id
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="top_line"):
        _top_line(study(), lang)
    st.fragment(_body)()
    if study().live and (_awaited() or live.news()):
        st.fragment(_wait, run_every=0.3)()


def _awaited() -> bool:
    """A step is being computed, or a run waits for its model (whose arrival its own line tells)."""
    return live.busy() or live.run().pending is not None


def _wait() -> None:
    if live.news() or not _awaited():
        st.rerun()


def _way(state: Study) -> tuple[Way, dict[str, Any]]:
    """The stops as they lie in the runs on the screen, and those runs."""
    trace = live.trace() if state.live else None
    if trace is not None and trace.steps and (found := own.way(state.lesson)):
        return found, {runs.LIVE: trace}
    walks = runs.recorded(state.lesson)
    return runs.way(state.lesson, walks), walks


def _ready(state: Study) -> None:
    """Take the place that was asked for by address, once the runs are known."""
    with sentence_on_error():
        if state.asked_stop is not None:
            state.place = _way(state)[0].at(state.asked_stop)
            state.asked_stop = None


# -- the line of controls ----------------------------------------------------------------------------------


def _choose_stop(stop: int) -> None:
    state = study()
    state.place, state.selected = _way(state)[0].at(stop), None


def _set(name: str, key: str) -> None:
    setattr(study(), name, st.session_state[key])


def _top_line(state: Study, lang: str) -> None:
    if st.button(t("page.course", lang), icon=":material/menu_book:", key="to_course"):
        st.switch_page("pages/course.py")
    lecture = settings.values()["lecture"]
    with st.popover(t("lessons.show", lang), icon=":material/tune:", key="show"):
        st.session_state.pace_switch = state.pace
        st.segmented_control(
            t("lessons.pace", lang), PACES, key="pace_switch", required=True, on_change=_set,
            args=("pace", "pace_switch"), format_func=lambda pace: t(f"lessons.pace.{pace}", lang),
        )  # fmt: skip
        st.session_state.gates_switch = state.gates
        st.toggle(
            t("lessons.gates", lang), key="gates_switch", on_change=_set, args=("gates", "gates_switch"),
            help=t("lessons.gates.help", lang),
        )  # fmt: skip
        st.toggle(t("lessons.lecture", lang), **settings.bind("lecture"))
    with st.popover(t("lessons.note", lang), icon=":material/sticky_note_2:", key="note"):
        for part in ("ask", "answers", "next"):
            st.markdown(f"**{t(f'lessons.note.{part}', lang)}** {state.lesson.text(part, lang)}")
    if not lecture:
        if st.button(t("lessons.log", lang), icon=":material/list:", key="log") and not _at_quiz(state):
            frame = _frame(state, lang)
            log.show(frame.seen(), state, frame.way, lang)
        own.controls(state, lang)
    st.space("stretch")
    if live.run().pending is not None:
        model_status.show(lang)
    language_switch()


def _at_quiz(state: Study) -> bool:
    return state.place.stop >= len(state.lesson.stops)


# -- the picture -------------------------------------------------------------------------------------------


def _stops(state: Study, lang: str) -> None:
    """The stops by number, the questions last: where one is, and a way to any of them. Those that a run of
    one's own does not have, or not yet, cannot be chosen, and say why."""
    way = _way(state)[0]
    with st.container(horizontal=True, gap=None, key="points"):
        for stop in range(len(way.stops) + 1):
            questions = stop == len(way.stops)
            here = stop == state.place.stop
            missing = not questions and not here and way.stops[stop][1] is None
            st.button(
                t("lessons.questions", lang) if questions else str(stop + 1), key=f"point_{stop}",
                type="primary" if here else "secondary", on_click=_choose_stop, args=(stop,),
                disabled=missing,
                help=t(f"lessons.point.{'not_yet' if way.open else 'never'}", lang) if missing else None,
            )  # fmt: skip


def _frame(state: Study, lang: str) -> Frame:
    way, walks = _way(state)
    trace = walks[way.stops[state.place.stop][0]]
    given = state.answers.get(state.key(state.place.stop))
    is_live = runs.LIVE in walks
    return Frame(
        lesson=state.lesson, way=way, place=state.place, trace=trace, lang=lang,
        mode="live" if is_live else "recorded", given=None if given == SKIPPED else given,
        skipped=given == SKIPPED, gates=state.gates, lecture=settings.values()["lecture"],
        asked=own.question(state, lang) if is_live and given is None else None,
        busy=is_live and live.busy(), selected=state.selected,
    )  # fmt: skip


def _act(action: dict[str, Any]) -> None:
    """What a click or a key in the picture does."""
    state, lang = study(), st.session_state.lang
    if _at_quiz(state):
        return
    frame, do, arg = _frame(state, lang), action.get("do"), action.get("arg")
    key = state.key(state.place.stop)
    if do == "predict":
        question = frame.question()
        if question is not None and frame.asking() and question.known(arg):
            _answer(state, frame, arg)
    elif do == "select":
        state.selected = arg
    elif do == "step" and frame.asking():
        _answer(state, frame, SKIPPED)
    elif do == "step":
        if frame.mode == "live":
            own.go_on(state, lang)
        else:
            state.place = forward(frame.way, state.place, state.pace)
    elif do == "back":
        state.place = back(frame.way, state.place, state.pace)
    elif do in ("start", "end"):
        state.place = frame.way.at(0 if do == "start" else len(frame.way.stops) - 1)
        if do == "start":  # once more, questions and all
            state.forget()
    elif do == "goto" and isinstance(arg, int):
        state.place = frame.way.near(state.place, arg)
    elif do == "jump" and isinstance(arg, str):
        found = transport.marks(frame.trace)
        steps = sorted({at for kind, at_ in found.items() if arg in ("any", kind) for at in at_})
        state.place = jump(frame.way, state.place, steps)
    if do != "select" and state.key(state.place.stop) != key:
        state.selected = None


def _answer(state: Study, frame: Frame, given: Any) -> None:
    if frame.asked is not None:
        own.answer(state, given)
    else:
        state.answers[state.key(state.place.stop)] = given


def _body() -> None:
    """The fragment that a click in the picture reruns."""
    state, lang = study(), st.session_state.lang
    if state.id != st.session_state.lesson_drawn:
        st.rerun()  # another lesson: its note and its prompt stand outside of this fragment
    _ready(state)
    with sentence_on_error():
        live.show_notices(lang)
        _stops(state, lang)
        if _at_quiz(state):
            quiz.show(state, lang)
        else:
            frame = _frame(state, lang)
            if frame.stop.picture == "stage":
                show_stage(stage_payload(frame), key="lesson_stage", on_action=_act)
            else:
                show_sheet(sheet_payload(frame), key="lesson_sheet", on_action=_act)
        show_address(lang=lang, lesson=state.id, step=state.place.stop + 1)
