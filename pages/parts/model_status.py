"""A small fragment that says where the model is: it ticks only while one is on its way."""

from __future__ import annotations

import streamlit as st

from pages.parts.models import Arrival, Wanted, store
from pages.parts.settings import DEFAULTS, model_name, values
from pages.parts.words import t


def wanted() -> Wanted:
    """The model that this tab's settings ask for; the default one while their name is empty."""
    chosen = values()
    try:
        name = model_name(chosen)
    except ValueError:
        name = DEFAULTS["model"]
    return Wanted(name, chosen["dtype"], chosen["device"])


def default_model() -> Wanted:
    """The model that every tab begins to load."""
    return Wanted(DEFAULTS["model"], DEFAULTS["dtype"], DEFAULTS["device"])


def _followed() -> Wanted:
    """The model whose progress is shown: the one waited for, else the default."""
    return st.session_state.get("waiting_for") or default_model()


def show(lang: str) -> None:
    """Draw the line; keep it ticking while there is something to wait for."""
    arrival = store().look(_followed())
    moving = arrival.phase in ("absent", "loading")
    with st.container(width="content", key="model_status"):
        st.fragment(_line, run_every=0.5 if moving else None)(lang, st.session_state.setdefault("full_runs", 0))


def _line(lang: str, drawn_in: int) -> None:
    """``drawn_in``: the full run that drew it first. Only a later tick begins to load: importing torch would hold up the
    first picture."""
    followed = _followed()
    arrival = store().look(followed)
    first = st.session_state.get("status_drawn") != drawn_in
    st.session_state.status_drawn = drawn_in
    if arrival.phase == "absent" and not first:
        arrival = store().request(followed)
    _draw(followed, arrival, lang)
    if arrival.phase in ("ready", "failed") and st.session_state.get("status_phase") != (followed, arrival.phase):
        st.session_state.status_phase = (followed, arrival.phase)
        if not first:
            st.rerun()


def _draw(followed: Wanted, arrival: Arrival, lang: str) -> None:
    if arrival.phase == "ready":
        st.caption(t("model.ready", lang, name=followed.name))
    elif arrival.phase == "failed":
        with st.popover(t("model.failed.short", lang), icon=":material/cloud_off:"):
            st.warning(t("model.failed", lang, detail=arrival.detail))
            st.button(t("model.retry", lang), key="retry_model", on_click=store().request, args=(followed,))
    elif arrival.phase == "loading":
        percent = round(100 * arrival.fraction)
        st.progress(
            arrival.fraction, t("model.loading", lang, name=followed.name, percent=percent, detail=arrival.detail)
        )
    else:
        st.caption(t("model.starting", lang))
