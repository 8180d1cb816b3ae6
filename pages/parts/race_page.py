"""The race page: what races, a button, progress, and the results. Draws; callbacks change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import streamlit as st

from core.compare.workload import KINDS
from pages.parts import live, model_status, models
from pages.parts.address import show_address
from pages.parts.bound import bound
from pages.parts.guard import sentence_on_error
from pages.parts.race_results import show_recorded, show_results
from pages.parts.race_run import CONTENDERS, Choices, Runner, read_upload, requests_of
from pages.parts.say import strategy_name
from pages.parts.shell import language_switch
from pages.parts.words import t

if TYPE_CHECKING:
    from core.models.loaded import LoadedModel

BLOCK_SIZES = (1, 2, 4, 8, 16, 32)


def choices() -> Choices:
    """This tab's choices, made on first use."""
    if "race" not in st.session_state:
        st.session_state.race = Choices()
    return st.session_state.race


def runner() -> Runner:
    """This tab's race; its results stay when the page is left."""
    if "race_runner" not in st.session_state:
        st.session_state.race_runner = Runner()
    return st.session_state.race_runner


def model() -> LoadedModel | None:
    """The process's model that the settings name, if it is here."""
    arrival = models.store().look(live.wanted())
    return arrival.model if arrival.phase == "ready" else None


def show() -> None:
    """One run of the page."""
    lang = st.session_state.lang
    _begin_pending()
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="top_line"):
        st.markdown(f"**{t('race.title', lang)}**")
        st.space("stretch")
        model_status.show(lang)
        language_switch()
    left, right = st.columns((3, 10), gap="medium")
    with left, sentence_on_error():
        _inputs(lang)
    with right, sentence_on_error():
        _buttons(lang)
        moving = runner().busy or st.session_state.get("race_pending", False)
        st.fragment(_standing, run_every=0.5 if moving else None)(moving, len(runner().results))
        if runner().results:
            show_results(list(runner().results), runner().facts, lang)
        else:
            show_recorded(lang)
    show_address(lang=lang, lesson=None, step=None)


def _inputs(lang: str) -> None:
    mine = choices()
    st.segmented_control(
        t("race.source", lang), ("drawn", "file"), required=True, width="stretch",
        format_func=lambda source: t(f"race.source.{source}", lang), label_visibility="collapsed",
        **bound("race", mine, "source"),
    )  # fmt: skip
    if mine.source == "file":
        _file(mine, lang)
    else:
        _drawn(mine, lang)
    one, two = st.columns(2)
    with one:
        st.number_input(t("race.megabytes", lang), 0.1, 512.0, step=1.0, **bound("race", mine, "megabytes"))
        st.selectbox(t("race.block_size", lang), BLOCK_SIZES, **bound("race", mine, "block_size"))
    with two:
        st.number_input(t("race.max_len", lang), 2, 4096, step=16, help=t("race.max_len.help", lang),
                        **bound("race", mine, "max_len"))  # fmt: skip
        words = "race.system_tokens"
        st.number_input(t(words, lang), 0, 512, step=4, help=t(f"{words}.help", lang),
                        **bound("race", mine, "system_tokens"))  # fmt: skip
    if (loaded := model()) is not None:
        slots = int(mine.megabytes * 1e6) // loaded.geometry.bytes_per_token
        st.caption(t("race.megabytes.slots", lang, slots=f"{slots // mine.block_size * mine.block_size:,}"))


def _drawn(mine: Choices, lang: str) -> None:
    one, two = st.columns(2)
    with one:
        st.selectbox(t("race.workload", lang), list(KINDS), format_func=lambda name: KINDS[name].name,
                     **bound("race", mine, "workload"))  # fmt: skip
        st.number_input(t("race.scale", lang), 1, 100, step=1, **bound("race", mine, "scale"))
    with two:
        st.number_input(t("race.count", lang), 1, 256, step=1, **bound("race", mine, "count"))
        st.number_input(t("race.rate", lang), 0.0, 100.0, step=0.1, help=t("race.rate.help", lang),
                        **bound("race", mine, "rate"))  # fmt: skip
    st.number_input(t("race.seed", lang), 0, 1 << 20, step=1, **bound("race", mine, "seed"))


def _file(mine: Choices, lang: str) -> None:
    st.file_uploader(
        t("race.file", lang), key="race_upload", on_change=_opened, help=t("race.file.help", lang)
    )
    if error := st.session_state.get("race_upload_error"):
        st.error(error, icon=":material/error:")
    elif mine.file:
        st.caption(t("race.file.open", lang, n=len(mine.file), name=mine.file_name))


def _opened() -> None:
    """Callback of the uploader: keep the requests, or the sentence that says what is wrong with them."""
    upload, loaded = st.session_state.get("race_upload"), model()
    st.session_state.pop("race_upload_error", None)
    if upload is None:
        return
    count = (lambda text: len(loaded.tokens.encode(text))) if loaded is not None else None
    try:
        choices().file = read_upload(upload.name, upload.getvalue(), count)
        choices().file_name = upload.name
    except ValueError as error:
        st.session_state.race_upload_error = str(error)


def _buttons(lang: str) -> None:
    mine, race = choices(), runner()
    pending = st.session_state.get("race_pending", False)
    st.pills(
        t("race.contenders", lang), CONTENDERS, selection_mode="multi", label_visibility="collapsed",
        format_func=lambda name: strategy_name(name, lang), **bound("race", mine, "contenders"),
    )  # fmt: skip
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        if race.busy or pending:
            st.button(t("race.stop", lang), key="race_stop", on_click=_stop, icon=":material/stop:")
        else:
            st.button(t("race.start", lang), key="race_start", on_click=_start, type="primary",
                      icon=":material/flag:", disabled=not mine.contenders)  # fmt: skip
        if not mine.contenders:
            st.caption(t("race.none", lang))
        elif race.phase == "idle" and not pending:
            st.markdown(t("race.idle", lang))


def _start() -> None:
    """Callback: start the race, or when the model has arrived."""
    wanted = live.wanted()
    try:
        requests_of(choices())
    except ValueError as error:
        runner().phase, runner().sentence = "failed", str(error)
        return
    arrival = models.store().request(wanted)
    if arrival.phase != "ready":
        live.run().waiting_for = wanted
    st.session_state.race_pending = True
    _begin_pending()


def _begin_pending() -> None:
    """Start the race that waits for its model, if the model is here; drop it if it cannot come."""
    if not st.session_state.get("race_pending", False):
        return
    arrival = models.store().look(live.wanted())
    if arrival.phase == "ready":
        st.session_state.race_pending = False
        runner().start(arrival.model, choices(), requests_of(choices()))
    elif arrival.phase in ("failed", "terms"):
        st.session_state.race_pending = False
        runner().phase = "failed"
        runner().sentence = t("race.no_model", st.session_state.lang, detail=arrival.sentence)


def _stop() -> None:
    """Callback: no further step; what has been found stays."""
    st.session_state.race_pending = False
    runner().stop()


def _standing(moving: bool, drawn: int) -> None:
    """The fragment that ticks while a race goes on. ``moving``: whether it did when the page was drawn;
    ``drawn``: results that the page shows. A change of either needs a full run; the charts do not tick."""
    lang, race = st.session_state.lang, runner()
    pending = st.session_state.get("race_pending", False)
    arrived = pending and models.store().look(live.wanted()).phase in ("ready", "failed", "terms")
    if arrived or (moving and not race.busy and not pending) or len(race.results) != drawn:
        st.rerun()
    if pending:
        st.info(t("race.waiting_model", lang), icon=":material/hourglass_top:")
    elif race.phase == "queued":
        st.info(t("race.queued", lang), icon=":material/hourglass_top:")
    elif race.phase == "running":
        st.progress(*progress_of(race, lang))
    elif race.phase == "failed":
        st.error(race.sentence, icon=":material/error:")
    elif race.phase == "stopped":
        st.warning(t("race.stopped", lang), icon=":material/stop_circle:")


def progress_of(race: Runner, lang: str) -> tuple[float, Any]:
    """The share of all tokens of all contenders that has been generated, and where the race is, in words."""
    now = race.progress
    if now is None:
        return 0.0, ""
    share = (now.number + now.tokens / max(now.all_tokens, 1)) / now.total
    text = t(
        "race.progress", lang, strategy=strategy_name(now.strategy, lang), k=now.number + 1, n=now.total,
        tokens=now.tokens, all=now.all_tokens, running=now.running,
    )  # fmt: skip
    return min(max(share, 0.0), 1.0), text
