"""The kernel picture: a keyed component; stepping through the turns happens in the browser."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import streamlit as st

from pages.parts.words import LANGUAGES, area

_ASSETS = Path(__file__).resolve().parents[2] / "assets"


def _script() -> str:
    """The picture's script, with the stage's small helpers before it and its words and style put in."""
    words = {lang: area("kernel.view", lang) for lang in LANGUAGES}
    files = (_ASSETS / "stage" / "dom.js", _ASSETS / "kernel.js")
    text = "\n".join(path.read_text(encoding="utf-8") for path in files)
    style = (_ASSETS / "kernel.css").read_text(encoding="utf-8")
    text = text.replace("/*WORDS*/ {}", json.dumps(words, ensure_ascii=True))
    return text.replace('/*STYLE*/ ""', json.dumps(style, ensure_ascii=True))


_PICTURE = st.components.v2.component("paged_kv_kernel", html='<div class="kernel"></div>\n', js=_script())


def show_picture(payload: dict[str, Any]) -> None:
    """Draw ``payload`` (from ``kernel_page_payload.build``)."""
    _PICTURE(data=payload, key="kernel_picture")
