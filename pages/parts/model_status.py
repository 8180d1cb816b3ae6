"""A small fragment that says where the model is: it ticks only while one is on its way."""

from __future__ import annotations

import streamlit as st

from core.models.registry import MODELS
from pages.parts import models
from pages.parts.live import run
from pages.parts.models import Arrival, Wanted
from pages.parts.settings import DEFAULTS, wanted
from pages.parts.words import t

_TICK = 0.5  # seconds


def _followed() -> Wanted:
    """The model whose progress is shown: the one that this tab waits for or ran last, else the default."""
    return run().waiting_for or wanted(DEFAULTS)


def show(lang: str) -> None:
    """Draw the line; keep it ticking while there is something to wait for."""
    arrival = models.store().look(_followed())
    moving = arrival.phase in ("absent", "loading")
    turn = st.session_state.status_turn = st.session_state.get("status_turn", 0) + 1
    with st.container(width="content", key="model_status"):
        st.fragment(_line, run_every=_TICK if moving else None)(lang, turn, arrival.phase)


def _line(lang: str, turn: int, drawn: str) -> None:
    """``turn``: number of the full run that drew it, ``drawn``: the phase then.

    Only a later tick begins to load, when the first picture is on the screen: importing torch holds the
    interpreter for seconds.
    """
    followed = _followed()
    arrival = models.store().look(followed)
    ticked = st.session_state.get("status_drawn") == turn
    st.session_state.status_drawn = turn
    if ticked and arrival.phase == "absent":
        arrival = models.store().request(followed)
    _draw(followed, arrival, lang)
    if ticked and arrival.phase not in (drawn, "absent", "loading"):
        st.rerun()


def progress_text(name: str, arrival: Arrival, lang: str) -> str:
    """What the loader is doing, with figures: megabytes while bytes move, else steps."""
    stage = t(f"model.stage.{arrival.stage}", lang)
    if arrival.stage in ("download", "unpack") and arrival.total:
        stage = t(
            "model.bytes",
            lang,
            stage=stage,
            done=f"{arrival.done / 1e6:.0f}",
            total=f"{arrival.total / 1e6:.0f}",
        )
    return t("model.loading", lang, name=title(name), stage=stage)


def title(name: str) -> str:
    """A packaged model's title; any other is called what it was asked for by."""
    return MODELS[name].title if name in MODELS else name


def _draw(followed: Wanted, arrival: Arrival, lang: str) -> None:
    if arrival.phase == "ready":
        st.caption(t("model.ready", lang, name=title(followed.name)))
    elif arrival.phase == "failed":
        with st.popover(t("model.failed.short", lang), icon=":material/cloud_off:"):
            st.warning(t("model.failed", lang, detail=arrival.sentence))
            st.button(
                t("model.retry", lang), key="retry_model", on_click=models.store().request, args=(followed,)
            )
    elif arrival.phase == "loading":
        fraction = arrival.done / arrival.total if arrival.total else 0.0
        st.progress(min(max(fraction, 0.0), 1.0), progress_text(followed.name, arrival, lang))
    else:
        st.caption(t("model.starting", lang))
