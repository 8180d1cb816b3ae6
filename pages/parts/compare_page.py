"""The compare page: which trace, which strategies, which rules, and the picture. Draws; callbacks change."""

from __future__ import annotations

from typing import Any

import streamlit as st

from core.trace.step import Trace
from pages.parts import library, live, upload
from pages.parts.address import show_address
from pages.parts.bound import bound
from pages.parts.compare_payload import compare_payload
from pages.parts.compare_picture import show_picture
from pages.parts.compare_run import (
    ALL,
    POLICIES,
    Choices,
    Reports,
    Runs,
    can_compact,
    estimates,
    opening_step,
)
from pages.parts.guard import sentence_on_error
from pages.parts.say import strategy_name
from pages.parts.settings import values
from pages.parts.shell import language_switch
from pages.parts.view import view
from pages.parts.words import t

PICTURE_KEY = "compare_picture"
OPENS_WITH = "lesson:ragged-crowd"  # ragged lengths, memory the limit: the strategies differ


def show() -> None:
    """One run of the page."""
    lang = st.session_state.lang
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="top_line"):
        _top_line(lang)
    st.fragment(_body)()
    show_address(lang=lang, lesson=None, step=None)


def choices() -> Choices:
    """This tab's choices, made on first use. Kept apart from the widgets, whose values go with their page."""
    if "compare" not in st.session_state:
        st.session_state.compare = Choices()
    mine: Choices = st.session_state.compare
    names = traces()
    if mine.trace not in names and names:
        mine.trace = OPENS_WITH if OPENS_WITH in names else names[0]
    return mine


def _runs() -> Runs:
    if "compare_runs" not in st.session_state:
        st.session_state.compare_runs = Runs()
    return st.session_state.compare_runs


def traces() -> list[str]:
    """What can be compared in this tab: the recorded lessons, its live run, the file that it opened."""
    found = [f"lesson:{name}" for name in library.lessons()]
    running = live.trace()
    if running is not None and running.steps:
        found.append("live")
    if view().opened is not None:
        found.append("opened")
    return found


def trace_of(name: str) -> Trace | None:
    """The trace that a choice stands for."""
    if name == "live":
        return live.trace()
    if name == "opened":
        return view().opened
    return library.lesson(name.removeprefix("lesson:")) if name else None


def _title(name: str, lang: str) -> str:
    if name == "live":
        return t("compare.trace.live", lang)
    if name == "opened":
        return t("compare.trace.opened", lang, name=view().opened_name)
    return library.title(name.removeprefix("lesson:"), lang)


def _opened() -> None:
    """Callback of the uploader: compare what was opened; a file that is no trace leaves its sentence."""
    before = view().opened
    upload.open_upload()
    if view().opened is not before:
        choices().trace = "opened"
        choices().steps.pop("opened", None)


def _bind(attribute: str) -> dict[str, Any]:
    return bound("cmp", choices(), attribute)


def _top_line(lang: str) -> None:
    names = traces()
    if choices().trace not in names:
        st.caption(t("compare.no_trace", lang))
    else:
        st.selectbox(
            t("compare.trace", lang), names, format_func=lambda name: _title(name, lang), width=330,
            label_visibility="collapsed", **_bind("trace"),
        )  # fmt: skip
    with st.popover(t("live.file", lang), icon=":material/folder_open:", key="compare_file"):
        st.file_uploader(t("live.open", lang), key="upload", on_change=_opened)
        if error := st.session_state.get("upload_error"):
            st.error(error, icon=":material/error:")
    if trace := trace_of(choices().trace):
        slots = int(trace.meta.get("num_blocks") or 0) * int(trace.meta.get("block_size") or 0)
        st.caption(t("compare.about", lang, slots=slots))
    st.space("stretch")
    language_switch()


def _body() -> None:
    """The fragment that a switch or a step reruns."""
    with sentence_on_error():
        lang, mine = st.session_state.lang, choices()
        trace = trace_of(mine.trace)
        if trace is None:
            st.info(t("compare.no_trace", lang))
            return
        with st.container(horizontal=True, vertical_alignment="center", gap="small", key="compare_ticks"):
            _ticks(lang)
        switches = st.container(
            horizontal=True, vertical_alignment="top", gap="medium", key="compare_switches"
        )
        if not mine.strategies:
            st.info(t("compare.none_ticked", lang))
            return
        reports = _runs().reports(trace, mine)
        index = _index(mine, reports)
        with switches:
            _switches(trace, index, lang)
        payload = compare_payload(trace, reports, index, mine, lang, values()["lecture"])
        show_picture(payload, key=PICTURE_KEY, on_action=_act)


def _index(mine: Choices, reports: Reports) -> int:
    """The step on the screen; a trace is opened where its strategies are far apart."""
    if mine.trace not in mine.steps:
        mine.steps[mine.trace] = opening_step(reports)
    return min(mine.steps[mine.trace], max(len(reports) - 1, 0))


def _ticks(lang: str) -> None:
    st.pills(
        t("compare.ticked", lang), ALL, selection_mode="multi", label_visibility="collapsed",
        format_func=lambda name: strategy_name(name, lang), **_bind("strategies"),
    )  # fmt: skip
    st.space("stretch")
    st.toggle(
        t("compare.hindsight", lang),
        help=t("compare.hindsight.help", lang),
        **_bind("hindsight"),
    )


def _switches(trace: Trace, index: int, lang: str) -> None:
    mine = choices()
    st.segmented_control(
        t("compare.policy", lang), POLICIES, required=True, width="content",
        help=t("compare.policy.help", lang), format_func=lambda name: t(f"compare.policy.{name}", lang),
        **_bind("policy"),
    )  # fmt: skip
    steps = estimates(trace)
    if mine.estimate not in steps:
        mine.estimate = min(steps, key=lambda n: abs(n - mine.estimate))
    st.select_slider(
        t("compare.estimate", lang), steps, help=t("compare.estimate.help", lang), width=280,
        format_func=lambda n: t("compare.estimate.n" if n else "compare.estimate.true", lang, n=n),
        **_bind("estimate"),
    )  # fmt: skip
    st.segmented_control(
        t("compare.overflow", lang), ("stop", "move"), required=True, width="content",
        help=t("compare.overflow.help", lang), disabled=not mine.estimate,
        format_func=lambda name: t(f"compare.overflow.{name}", lang), **_bind("overflow"),
    )  # fmt: skip
    possible = can_compact(mine)
    st.button(
        t("compare.compact.undo" if index in mine.compacted else "compare.compact", lang), key="cmp_compact",
        help=t("compare.compact.help" if possible else "compare.compact.none", lang), disabled=not possible,
        icon=":material/compress:", on_click=_compact, args=(index,),
    )  # fmt: skip


def _compact(index: int) -> None:
    """Callback: compact before this step, or take that back."""
    mine = choices()
    mine.compact_at[mine.trace] = tuple(sorted(set(mine.compacted) ^ {index}))


def _act(action: dict[str, Any]) -> None:
    """What a click or a key in the picture does; what is not understood does nothing."""
    mine = choices()
    trace = trace_of(mine.trace)
    if trace is None:
        return
    reports = _runs().reports(trace, mine)
    mine.steps[mine.trace] = move(action, _index(mine, reports), max(len(reports) - 1, 0))


def move(action: dict[str, Any], index: int, last: int) -> int:
    """Where an action leads from step ``index`` of 0 to ``last``. It comes from a browser: anything goes."""
    do, arg = action.get("do"), action.get("arg")
    if do == "goto" and (not isinstance(arg, int) or isinstance(arg, bool)):
        return index
    goal = {"step": index + 1, "back": index - 1, "start": 0, "end": last, "goto": arg}.get(str(do), index)
    return min(max(int(goal or 0), 0), last)
