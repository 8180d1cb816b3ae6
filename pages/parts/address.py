"""The address bar follows the screen: ``?lesson=…&step=…&lang=…`` opens exactly there.

Writing st.query_params would add an entry to the browser's history for every step, so that its Back button
would need a click a step; this component replaces the entry instead. It costs no extra run.
"""

from __future__ import annotations

import streamlit as st

_SCRIPT = """
// A switch that was clicked with the mouse must not keep the keys that step through the lesson.
function letGo(mouse) {
  const held = document.activeElement;
  const isSwitch = held?.matches("[role=radio], input[type=radio], input[type=checkbox]");
  if (isSwitch && (mouse || !held.matches(":focus-visible"))) held.blur();
}

export default function ({ data }) {
  if (!window.__pagedKvLetGo) {
    window.__pagedKvLetGo = (event) => setTimeout(letGo, 50, event.detail > 0);
    document.addEventListener("click", window.__pagedKvLetGo, true);
  }
  document.documentElement.lang = data.lang;
  const url = new URL(window.location.href);
  for (const [name, value] of Object.entries(data)) {
    if (value === null) url.searchParams.delete(name);
    else url.searchParams.set(name, value);
  }
  if (url.search !== window.location.search) window.history.replaceState(window.history.state, "", url);
}
"""
_ADDRESS = st.components.v2.component("paged_kv_address", html="<span hidden></span>\n", js=_SCRIPT)


def show_address(*, lang: str, lesson: str | None, step: int | None) -> None:
    """Put the place in the address bar; None takes a part out of it."""
    place = {"lang": lang, "lesson": lesson, "step": None if step is None else str(step)}
    _ADDRESS(data=place, key="address")


def asked_lesson() -> str | None:
    """The lesson in the address, if any."""
    return st.query_params.get("lesson")


def asked_step() -> int:
    """The step in the address; 0 when there is none or it is no number."""
    text = st.query_params.get("step", "0")
    return int(text) if text.isdecimal() and len(text) < 9 else 0
