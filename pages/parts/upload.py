"""Save the trace on the screen to a file, and open one: an upload is untrusted."""

from __future__ import annotations

import streamlit as st

from core.trace import TraceError, load, to_bytes
from core.trace.step import Trace
from pages.parts.view import view
from pages.parts.words import t

MAX_UPLOAD = 32 << 20  # bytes; the same as server.maxUploadSize


def file_bytes(trace: Trace) -> bytes:
    """The trace as the content of a .kvtrace.json.gz file."""
    return to_bytes(trace, compressed=True)


def file_name(name: str) -> str:
    """A file name from a lesson's name: letters, digits and dashes, with the format's ending."""
    safe = "".join(c if c.isalnum() or c in "-_" else "-" for c in name).strip("-") or "trace"
    return f"{safe}.kvtrace.json.gz"


def open_upload() -> None:
    """Callback of the uploader: show the trace, or keep the sentence that says what is wrong with it."""
    upload = st.session_state.get("upload")
    st.session_state.pop("upload_error", None)
    if upload is None:
        return
    try:
        trace = load(upload.getvalue(), max_bytes=MAX_UPLOAD)
        if not trace.steps:
            raise TraceError("The file holds no step; record at least one and save it again.")
    except TraceError as error:
        st.session_state.upload_error = str(error)
        return
    view().show_opened(upload.name, trace)


def file_controls(trace: Trace | None, name: str, lang: str) -> None:
    """Buttons to save and to open. The file is made when the button is pressed, not before."""
    if trace is not None and trace.steps:
        st.download_button(
            t("live.save", lang),
            lambda: file_bytes(trace),
            file_name(name),
            "application/gzip",
            icon=":material/download:",
            on_click="ignore",
            key="save_trace",
            width="stretch",
        )
    st.file_uploader(t("live.open", lang), key="upload", on_change=open_upload)
    if error := st.session_state.get("upload_error"):
        st.error(error, icon=":material/error:")
