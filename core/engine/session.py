"""LiveSession: an engine and the thread that steps it, so that a page's script only asks and draws.

A click asks for steps and returns at once. The thread plans and commits under the session's lock and runs the
forward pass under the model's, so a script that is killed in the middle of a click loses nothing. Sessions
belong to a SessionRegistry, which keeps all pools together under a cap.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from core.config import EngineConfig
from core.engine.engine import Engine
from core.engine.errors import PoolTooLarge, SessionClosed
from core.engine.plan import StepPlan
from core.engine.store import pool_bytes
from core.memory.views import RequestView
from core.trace.step import Step, Trace

if TYPE_CHECKING:
    from core.engine.peek import Peek
    from core.models.loaded import LoadedModel

MAX_WAITING_STEPS = 1024  # steps asked for and not yet begun; more clicks than that are dropped


@dataclass(frozen=True, slots=True)
class Status:
    """What a session is doing; ``sentence`` says why it failed, and is empty otherwise."""

    state: Literal["idle", "running", "failed", "closed"]
    sentence: str = ""


class LiveSession:
    """One engine, owned by a browser tab or by a class room. Every method may be called from any thread."""

    def __init__(self, engine: Engine) -> None:
        """Takes the engine over: nobody else may step it."""
        self._engine = engine
        self._state = threading.Condition()  # guards the fields below and every use of the engine but run()
        self._wanted = 0  # steps asked for, the one in hand included
        self._in_hand = False
        self._failure = ""
        self._closed = False
        self._revision = 0
        self._worker = threading.Thread(target=self._work, name="live-session", daemon=True)
        self._worker.start()

    @property
    def trace(self) -> Trace:
        """The engine's trace: it only grows, so it may be read at any moment."""
        return self._engine.trace

    @property
    def config(self) -> EngineConfig:
        """The engine's configuration."""
        return self._engine.config

    @property
    def revision(self) -> int:
        """Goes up by one whenever there is something new to draw."""
        return self._revision

    @property
    def status(self) -> Status:
        """What the session is doing now."""
        with self._state:
            if self._closed:
                return Status("closed", "This session has given its pool back; start again to go on.")
            if self._wanted:
                return Status("running")
            return Status("failed", self._failure) if self._failure else Status("idle")

    @property
    def has_work(self) -> bool:
        """Whether another step would do anything."""
        with self._state:
            return not self._closed and self._engine.has_work

    @property
    def num_bytes(self) -> int:
        """Bytes that its pools hold; 0 once they have been given back."""
        with self._state:
            return 0 if self._closed and not self._in_hand else self._engine.store.num_bytes

    def submit(self, *args: Any, **kwargs: Any) -> RequestView:
        """``Engine.submit``, also in the middle of a step. Raises RequestRefused, SessionClosed."""
        with self._state:
            self._check_open()
            request = self._engine.submit(*args, **kwargs)
            self._revision += 1
            return request

    def cancel(self, request_id: str) -> None:
        """``Engine.cancel``, also in the middle of a step: the next one ends the request."""
        with self._state:
            self._check_open()
            self._engine.cancel(request_id)
            self._revision += 1

    def set_prove(self, on: bool) -> None:
        """Compare the logits of every further step with a dense pass, or stop it."""
        self._engine.prove = on

    def plan(self) -> StepPlan | None:
        """What the next step is going to do, for a class that predicts it; None when there is no work.

        It stays the plan of the next step. In the middle of a step: that step's plan.
        """
        with self._state:
            self._check_open()
            return self._engine.plan() if self._engine.has_work else None

    def peek(self, layer: int) -> Peek:
        """``Engine.peek``, between two steps: waits for the one in hand. The next one waits for this."""
        with self._state:
            self._state.wait_for(lambda: not self._in_hand)
            self._check_open()
            return self._engine.peek(layer)

    def request_step(self, n: int = 1) -> int:
        """Ask for ``n`` more steps and return at once: how many were taken (those waiting are limited).

        Five fast clicks make at most five steps. After a failure the step that failed is tried again.
        """
        with self._state:
            self._check_open()
            taken = max(0, min(n, MAX_WAITING_STEPS - self._wanted))
            self._wanted += taken
            self._failure = "" if taken else self._failure
            self._state.notify_all()
            return taken

    def pause(self) -> None:
        """Drop the steps that have not begun."""
        with self._state:
            self._wanted = min(self._wanted, int(self._in_hand))
            self._state.notify_all()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until no step is asked for; False when ``timeout`` seconds were not enough."""
        with self._state:
            return self._state.wait_for(lambda: not self._wanted, timeout)

    def close(self) -> None:
        """Give the pool back, once the step in hand is done; may be called twice."""
        with self._state:
            self._closed = True
            self._wanted = int(self._in_hand)
            if not self._in_hand:
                self._engine.close()
            self._state.notify_all()

    def _check_open(self) -> None:
        if self._closed:
            raise SessionClosed("This session has given its pool back; start again to go on.")

    def _work(self) -> None:
        """The worker's life: one step after the other, as long as some are wanted."""
        while True:
            with self._state:
                self._state.wait_for(lambda: self._closed or self._wanted)
                if self._closed:
                    return
                self._in_hand = True
            failure, step = "", None
            try:
                step = self._step()
            except Exception as error:  # whatever it was: the page must be told, and the thread must live
                failure = _sentence(error)
            with self._state:
                self._finish(failure, more=step is not None)

    def _step(self) -> Step | None:
        with self._state:
            if not self._engine.has_work:
                return None
            plan = self._engine.plan()
        outcome = self._engine.run(plan)
        with self._state:
            return self._engine.commit(plan, outcome)

    def _finish(self, failure: str, *, more: bool) -> None:
        """A step is over. The rest of the wanted ones are dropped when there is no work or one has failed."""
        self._in_hand = False
        self._failure = failure
        self._wanted = max(0, self._wanted - 1) if more else 0
        self._revision += 1
        if self._closed:
            self._wanted = 0
            self._engine.close()
        self._state.notify_all()


def _sentence(error: Exception) -> str:
    """What a page shows when a step has failed."""
    if isinstance(error, MemoryError) or "out of memory" in str(error).lower():
        return "The step ran out of memory; close other programs or choose a smaller pool, then step again."
    return f"The step failed ({type(error).__name__}: {error}); step again to repeat it."


class SessionRegistry:
    """All sessions of a process, by key, least recently used first, their pools together under a cap."""

    def __init__(self, max_bytes: int) -> None:
        """``max_bytes``: the most that all pools together may hold."""
        self.max_bytes = max_bytes
        self._lock = threading.Lock()
        self._sessions: OrderedDict[str, LiveSession] = OrderedDict()
        self._leaving: deque[str] = deque()  # keys of sessions to be closed
        self._closing: list[LiveSession] = []  # closed in the middle of a step: they still hold their pool

    def open(self, key: str, model: LoadedModel, config: EngineConfig, **options: Any) -> LiveSession:
        """A new session under ``key`` (an old one there is closed); ``options`` go to Engine.

        Idle sessions are closed, least recently used first, until the new pool fits under the cap.
        Raises PoolTooLarge with the numbers when it cannot.
        """
        self.close(key)
        try:
            with self._lock:
                self._close_leaving()
                self._make_room(pool_bytes(config, model.geometry))
                session = self._sessions[key] = LiveSession(Engine(model, config, **options))
                return session
        finally:
            self._tidy()

    def get(self, key: str) -> LiveSession | None:
        """The open session under ``key``, which thereby counts as used."""
        try:
            with self._lock:
                session = self._sessions.get(key)
                if session is not None:
                    self._sessions.move_to_end(key)
                return session
        finally:
            self._tidy()

    def close(self, key: str) -> None:
        """Close the session under ``key``, if there is one.

        Never waits for the registry, so a finaliser may call it at any moment, even from within one of the
        other methods: whoever holds the registry then closes the session on leaving.
        """
        self._leaving.append(key)
        self._tidy()

    @property
    def num_bytes(self) -> int:
        """Bytes of all pools together."""
        try:
            with self._lock:
                return self._held()
        finally:
            self._tidy()

    def _tidy(self) -> None:
        while self._leaving and self._lock.acquire(blocking=False):
            try:
                self._close_leaving()
            finally:
                self._lock.release()

    def _close_leaving(self) -> None:
        while self._leaving:
            self._retire(self._leaving.popleft())

    def _held(self) -> int:
        self._closing = [s for s in self._closing if s.num_bytes]
        return sum(s.num_bytes for s in (*self._sessions.values(), *self._closing))

    def _retire(self, key: str) -> None:
        session = self._sessions.pop(key, None)
        if session is not None:
            session.close()
            self._closing.append(session)

    def _make_room(self, need: int) -> None:
        mib = 2**20
        if need > self.max_bytes:
            raise PoolTooLarge(
                f"This pool takes {need / mib:,.1f} MiB and all sessions together may take "
                f"{self.max_bytes / mib:,.1f} MiB; choose fewer or smaller blocks."
            )
        idle = [key for key, session in self._sessions.items() if session.status.state != "running"]
        for key in idle:
            if self._held() + need <= self.max_bytes:
                return
            self._retire(key)
        held = self._held()
        if held + need > self.max_bytes:
            raise PoolTooLarge(
                f"This pool takes {need / mib:,.1f} MiB, sessions at work hold {held / mib:,.1f} MiB and all "
                f"together may take {self.max_bytes / mib:,.1f} MiB; try again soon or choose a smaller pool."
            )
