"""The live run of this tab: begun, fed and stepped here, computed by a worker thread.

Nothing in here imports torch before somebody goes live.
"""

from __future__ import annotations

import uuid
import weakref
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import streamlit as st

from core.config import EngineConfig
from core.memory.views import RequestView
from core.scenarios import SCENARIOS
from core.trace.step import Trace
from pages.parts import models, settings
from pages.parts.models import Wanted
from pages.parts.view import view
from pages.parts.words import t

if TYPE_CHECKING:
    from core.engine.session import LiveSession, SessionRegistry

MAX_POOL_BYTES = 2 << 30  # all tabs together
FAST_ANSWER = 0.15  # seconds for which a click waits: most steps of the default model take less


@dataclass(frozen=True, slots=True)
class Wish:
    """A live run that somebody wants. ``requests``: arguments of ``Engine.submit``."""

    wanted: Wanted
    config: EngineConfig
    requests: tuple[Mapping[str, Any], ...]
    scenario: str | None = None


def wish_of(chosen: Mapping[str, Any]) -> Wish:
    """The run that the settings describe. Raises ValueError with a sentence."""
    common = settings.submission(chosen)
    requests = tuple({"prompt": text} | common for text in settings.prompts(chosen))
    return Wish(settings.wanted(chosen), settings.engine_config(chosen), requests)


@dataclass(eq=False)
class Run:
    """What this tab has of a live run. When Streamlit drops the tab's state, the pool goes back."""

    tab: str = field(default_factory=lambda: uuid.uuid4().hex)
    session: LiveSession | None = None
    key: str = ""  # of ``session`` in the registry
    begun: int = 0
    pending: Wish | None = None  # begins when its model is here
    waiting_for: Wanted | None = None  # the model whose arrival this tab follows
    notices: list[str] = field(default_factory=list)
    drawn: int = -1  # revision on the screen
    follow: bool = True  # whether the screen goes along when a new step arrives


@st.cache_resource(show_spinner=False)
def registry() -> SessionRegistry:
    """All live sessions of the process, their pools together under a cap."""
    from core.engine.session import SessionRegistry

    return SessionRegistry(MAX_POOL_BYTES)


def run() -> Run:
    """This tab's run, made on first use."""
    if "run" not in st.session_state:
        st.session_state.run = Run()
    return st.session_state.run


def trace() -> Trace | None:
    """The trace of the live run, also after its pool was given back; None before the first run."""
    session = run().session
    return None if session is None else session.trace


def open_requests() -> list[RequestView]:
    """The requests of the live run that are neither over nor refused, in order of arrival."""
    found = trace()
    if found is None or run().session.status.state == "closed":
        return []
    states: dict[str, set[str]] = {}
    for sequence in found.steps[-1].sequences if found.steps else ():
        states.setdefault(sequence.request, set()).add(sequence.state)
    refused = {e.request for step in found.steps for e in step.events if e.name == "reject"}
    return [r for r in found.requests if states.get(r.id) != {"finished"} and r.id not in refused]


def wanted() -> Wanted:
    """The model that the settings ask for, or the default while the name of another one is still empty."""
    try:
        return settings.wanted(settings.values())
    except ValueError:
        return settings.wanted(settings.DEFAULTS)


def busy() -> bool:
    """Whether the worker has steps to do."""
    session = run().session
    return session is not None and session.status.state == "running"


def can_step() -> bool:
    """Whether another step would do anything."""
    session = run().session
    return session is not None and session.has_work


def news() -> bool:
    """Whether the worker has done something that is not on the screen yet."""
    mine = run()
    return mine.session is not None and mine.session.revision != mine.drawn


def catch_up() -> None:
    """Before drawing: note what is going to be drawn, and go along to a new step if the screen follows."""
    mine = run()
    if mine.session is None:
        return
    mine.drawn = mine.session.revision
    if mine.follow and (steps := mine.session.trace.steps):
        view().steps["live"] = len(steps) - 1


def prove(on: bool) -> None:
    """Compare each further step's logits with a dense pass, or stop it."""
    session = run().session
    if session is not None:
        session.set_prove(on)


def go_live() -> None:
    """Callback: look at the live run; begin one with the settings as they are if there is none yet.

    Until it has begun, what was on the screen stays there.
    """
    mine = run()
    if mine.session is not None:
        view().source = "live"
    elif mine.pending is None:
        start()


def start() -> None:
    """Callback: begin a new run with the settings as they are, now or when the model has arrived."""
    try:
        wish = wish_of(settings.values())
    except ValueError as error:
        run().notices = [str(error)]
        return
    begin(wish)


def start_scenario(name: str) -> None:
    """Callback: run a recorded lesson's requests live, in its own pool."""
    scenario = SCENARIOS[name]
    begin(Wish(Wanted(scenario.model), scenario.config, scenario.requests, name))


def begin(wish: Wish) -> None:
    """Callback: begin this run, now or when its model has arrived."""
    mine = run()
    mine.notices, mine.waiting_for = [], wish.wanted
    arrival = models.store().request(wish.wanted)
    if arrival.phase == "ready":
        _begin(arrival.model, wish)
    else:
        mine.pending = wish


def begin_pending() -> None:
    """Begin the run that waits for its model, if the model is here; drop it if the model cannot come."""
    mine = run()
    if mine.pending is None:
        return
    arrival = models.store().look(mine.pending.wanted)
    if arrival.phase == "ready":
        wish, mine.pending = mine.pending, None
        _begin(arrival.model, wish)
    elif arrival.phase == "failed":
        mine.pending, mine.notices = None, [arrival.sentence]


def drop_pending() -> None:
    """Callback: do not wait for the model any longer."""
    mine = run()
    mine.pending = mine.waiting_for = None


def _begin(model: Any, wish: Wish) -> None:
    """Open a session and hand in the requests. When none is accepted, the run before stays as it was."""
    mine = run()
    mine.begun += 1
    key = f"{mine.tab}.{mine.begun}"
    try:
        session = registry().open(key, model, wish.config, prove=view().proof, scenario=wish.scenario)
    except ValueError as error:
        mine.notices = [str(error)]
        return
    if not _hand_in(session, wish.requests):
        registry().close(key)
        return
    if mine.key:
        registry().close(mine.key)
    weakref.finalize(mine, registry().close, key)
    mine.session, mine.key, mine.drawn = session, key, -1
    view().source = "live"
    view().steps["live"] = 0
    step()


def _hand_in(session: LiveSession, requests: Iterable[Mapping[str, Any]]) -> int:
    """Submit every request; how many were accepted. Each refusal becomes a notice with its numbers."""
    mine, accepted = run(), 0
    mine.notices = []
    for request in requests:
        try:
            session.submit(**request)
            accepted += 1
        except (ValueError, RuntimeError) as error:
            mine.notices.append(str(error))
    return accepted


def add() -> None:
    """Callback: hand the prompts of the side bar in to the run that is going on."""
    mine = run()
    if mine.session is None:
        return
    try:
        requests = wish_of(settings.values()).requests
    except ValueError as error:
        mine.notices = [str(error)]
        return
    _hand_in(mine.session, requests)


def cancel(request_id: str) -> None:
    """Callback: end a request; its blocks go back. The step that shows it follows."""
    session = run().session
    if session is None:
        return
    try:
        session.cancel(request_id)
    except (ValueError, RuntimeError) as error:
        run().notices = [str(error)]
        return
    if session.has_work:
        step()


def step() -> None:
    """Ask the worker for one more step; wait a moment for a fast answer."""
    mine = run()
    if mine.session is None:
        return
    mine.follow, mine.notices = True, [] if mine.drawn >= 0 else mine.notices
    try:
        mine.session.request_step()
    except RuntimeError as error:  # the pool has been given back
        mine.notices = [str(error)]
        return
    mine.session.wait(FAST_ANSWER)


def show_notices(lang: str) -> None:
    """The sentences that the last actions left, and what the worker says."""
    mine = run()
    for sentence in mine.notices:
        st.error(sentence, icon=":material/error:")
    if mine.session is not None and mine.session.status.state in ("failed", "closed"):
        st.warning(mine.session.status.sentence, icon=":material/warning:")
    if mine.pending is not None:
        st.info(t("live.waiting_model", lang), icon=":material/hourglass_top:")
