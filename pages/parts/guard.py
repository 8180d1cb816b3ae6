"""Two guards: no page without app.py around it, and no traceback on the screen."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import streamlit as st

from pages.parts import navigation
from pages.parts.words import t

_log = logging.getLogger("paged_kv")


def guard() -> None:
    """First line of every page. Sends a run that Streamlit started without app.py back through app.py.

    Until a session has called st.navigation once, Streamlit takes the folder pages/ for its older kind of
    multi-page app and runs a deep link's page alone: no navigation, no language, no style.
    """
    if not st.session_state.pop("via_app", False):
        navigation.register("hidden")
        st.rerun()


@contextmanager
def sentence_on_error() -> Iterator[None]:
    """Show one sentence for whatever goes wrong inside; the details go to the server's log only.

    A ValueError's text is written for the user (a rule of this code base) and is shown as it is. Streamlit's
    own control flow (stop, rerun) is no Exception and passes through.
    """
    try:
        yield
    except ValueError as error:
        _log.warning("refused: %s", error)
        st.error(str(error), icon=":material/error:")
    except Exception:
        _log.exception("page failed")
        lang = st.session_state.get("lang", "en")
        st.error(t("app.failed", lang), icon=":material/error:")
