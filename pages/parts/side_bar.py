"""The main page's side bar: settings, buttons that begin or feed a live run, requests, a model's terms."""

from __future__ import annotations

import streamlit as st

from core.models.errors import FetchError
from core.models.registry import MODELS
from core.scenarios import SCENARIOS
from pages.parts import controls, live, models, settings
from pages.parts.model_status import title
from pages.parts.models import Wanted
from pages.parts.view import view
from pages.parts.words import t

MAX_LISTED = 12  # requests with a cancel button


def show(lang: str) -> None:
    """Draw it. Everything that changes something is a callback."""
    st.subheader(t("live.heading", lang))
    controls.first_controls(lang)
    _size(lang)
    st.button(
        t("live.start", lang),
        key="start",
        on_click=live.start,
        type="primary",
        icon=":material/play_arrow:",
        width="stretch",
    )
    # Always there, so that the buttons under it never move while a run begins.
    lesson = view().lesson if view().source == "recorded" else None
    st.button(
        t("live.start_lesson", lang),
        key="start_lesson",
        on_click=live.start_scenario,
        args=(lesson,),
        icon=":material/school:",
        width="stretch",
        disabled=lesson not in SCENARIOS,
    )
    st.button(
        t("live.add", lang),
        key="add",
        on_click=live.add,
        icon=":material/add:",
        width="stretch",
        disabled=live.trace() is None,
        help=t("live.add.help", lang),
    )
    _requests(lang)
    controls.advanced_controls(lang, list(MODELS), models.store().devices())
    st.toggle(t("live.lecture", lang), **settings.bind("lecture"))
    if (wanted := live.run().waiting_for) and models.store().look(wanted).phase == "terms":
        _terms(lang, wanted)


def _size(lang: str) -> None:
    chosen = settings.values()
    blocks, size = chosen["num_blocks"], chosen["block_size"]
    numbers = {"blocks": blocks, "size": size, "slots": f"{blocks * size:,}"}
    arrival = models.store().look(live.wanted())
    if arrival.phase != "ready":
        st.caption(t("live.slots", lang, **numbers))
        return
    mib = blocks * size * arrival.model.geometry.bytes_per_token / 2**20
    st.caption(t("live.slots.bytes", lang, bytes=f"{mib:,.1f} MiB", **numbers))


def _requests(lang: str) -> None:
    """The requests that are not over, each with a button that cancels it."""
    open_requests = live.open_requests()
    if not open_requests:
        return
    st.caption(t("live.requests", lang))
    for request in open_requests[:MAX_LISTED]:
        text = " ".join(request.prompt_text.split())
        st.button(
            t("live.cancel", lang, request=text if len(text) <= 24 else text[:23] + "…"),
            icon=":material/close:",
            key=f"cancel_{request.id}",
            on_click=live.cancel,
            args=(request.id,),
            width="stretch",
        )
    if (more := len(open_requests) - MAX_LISTED) > 0:
        st.caption(t("live.requests.more", lang, n=more))


@st.cache_data(show_spinner=False, max_entries=4)
def _terms_text(name: str) -> str | None:
    from core.models.fetch import terms

    return terms(name)


def _accept(wanted: Wanted) -> None:
    models.store().request(wanted, accept_terms=True)


def _terms(lang: str, wanted: Wanted) -> None:
    """A dialog with the model's own terms; only its button goes on."""

    @st.dialog(t("terms.title", lang), width="large", on_dismiss=live.drop_pending)
    def body() -> None:
        st.write(t("terms.ask", lang, name=title(wanted.name)))
        try:
            with st.spinner(t("terms.fetching", lang)):
                text = _terms_text(wanted.name)
        except FetchError as error:
            st.error(str(error), icon=":material/error:")
            return
        with st.container(height=380):
            st.text(text or "")
        with st.container(horizontal=True):
            accept = t("terms.accept", lang)
            chosen = st.button(accept, key="accept_terms", type="primary", on_click=_accept, args=(wanted,))
            decline = t("terms.decline", lang)
            if st.button(decline, key="decline_terms", on_click=live.drop_pending) or chosen:
                st.rerun()  # the whole app, which closes the dialog

    body()
