"""What the kernel page looks into: the recorded step that comes with the app, or the tab's live run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import streamlit as st

from core.trace.step import Trace
from pages.parts import live
from pages.parts.view import view

if TYPE_CHECKING:
    from core.engine.peek import Peek
    from core.engine.peek_file import PeekFile
    from core.engine.session import LiveSession

# Of the recorded heads one whose running maximum rises in many turns; most others look at the first token.
RISING = (0, 3)


@dataclass(frozen=True, slots=True)
class Subject:
    """``layers`` can be asked for, ``first`` is where one begins (layer, query head); ``key`` files what was
    found out; ``peek`` gives the last step's tensors in a layer, None while there is no step yet."""

    trace: Trace
    key: str
    layers: tuple[int, ...]
    first: tuple[int, int]
    peek: Callable[[int], Peek | None]
    recorded: bool = False


def recorded() -> Subject:
    """The recorded step. Raises ValueError, one sentence, when its file is damaged."""
    from core.engine.peek_file import PEEK_FILE

    changed = PEEK_FILE.stat().st_mtime_ns if PEEK_FILE.exists() else 0
    found = _read(str(PEEK_FILE), changed)
    return Subject(found.trace, "recorded", found.layers, RISING, found.peek, recorded=True)


@st.cache_resource(max_entries=2, show_spinner=False)
def _read(path: str, changed: int) -> PeekFile:
    """Once a process, shared by all tabs; nobody writes into it."""
    from core.engine.peek_file import load_peek

    return load_peek(Path(path))


def session() -> LiveSession | None:
    """The tab's live run, if there is one whose pool has not been given back."""
    found = live.run().session
    return None if found is None or found.status.state == "closed" else found


def of_session(found: LiveSession) -> Subject:
    """The live run, any layer."""
    layers = tuple(range(found.trace.meta["model"]["layers"]))
    middle = layers[len(layers) // 2]
    return Subject(found.trace, live.run().key, layers, (middle, 0), lambda layer: _peek_live(found, layer))


def _peek_live(found: LiveSession, layer: int) -> Peek | None:
    """The last step's tensors, looked up once a step and layer; None while the first step is computed."""
    key = (live.run().key, len(found.trace.steps), layer)
    kept = st.session_state.get("kernel_peek")
    if kept is not None and (kept[0] == key or (live.busy() and kept[0][0] == key[0])):
        peek: Peek = kept[1]
        return peek
    if not found.trace.steps:
        return None
    peek = found.peek(layer)
    st.session_state.kernel_peek = (key, peek)
    return peek


def source() -> str:
    """ "recorded" or "live": what was chosen here, else live where the tab looks at a live run already."""
    chosen: str | None = st.session_state.get("kernel_chosen")
    return chosen or ("live" if view().source == "live" and session() is not None else "recorded")


def choose(what: str) -> None:
    """Look at this from now on."""
    st.session_state.kernel_chosen = what
