"""Sessions: clicks return at once, steps run one by one in a thread, pools stay under a cap."""

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from core.config import EngineConfig
from core.engine.engine import Engine
from core.engine.errors import PoolTooLarge, RequestRefused, SessionClosed
from core.engine.plan import Outcome, StepPlan
from core.engine.session import LiveSession, SessionRegistry
from core.engine.store import pool_bytes


class SlowEngine(Engine):
    """Holds every run until it is let go, and can be told to fail."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.go = threading.Semaphore(0)
        self.entered = threading.Semaphore(0)
        self.failures: list[Exception] = []
        self.at_once, self.most_at_once, self.runs = 0, 0, 0

    def run(self, plan: StepPlan) -> Outcome:
        self.at_once += 1
        self.runs += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        self.entered.release()
        assert self.go.acquire(timeout=20)
        self.at_once -= 1
        if self.failures:
            raise self.failures.pop()
        return super().run(plan)


@pytest.fixture
def slow(tiny: Any) -> Any:
    engine = SlowEngine(tiny("llama"), EngineConfig(num_blocks=16))
    session = LiveSession(engine)
    yield engine, session
    engine.go.release(100)
    session.close()


def eventually(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_five_fast_clicks_are_five_steps(slow: Any) -> None:
    """D1: a click returns at once and is at most one step."""
    engine, session = slow
    session.submit("hello", max_new_tokens=12, ignore_eos=True)
    start = time.monotonic()
    for _ in range(5):
        assert session.request_step() == 1
    assert time.monotonic() - start < 0.5, "no click waits for a step"
    assert session.status.state == "running" and not session.wait(0.05)
    engine.go.release(100)
    assert session.wait(20)
    assert len(session.trace.steps) == 5 and engine.most_at_once == 1
    assert session.status.state == "idle" and session.has_work


def test_stepping_ends_with_the_work(slow: Any) -> None:
    engine, session = slow
    session.submit("hi", max_new_tokens=3, ignore_eos=True)
    engine.go.release(100)
    assert session.request_step(5000) == 1024, "those waiting are limited"
    assert session.wait(20)
    assert len(session.trace.steps) == 3 and not session.has_work and session.status.state == "idle"


def test_submit_cancel_and_plan_during_a_step(slow: Any) -> None:
    """A slider or a new prompt in the middle of a step loses nothing."""
    engine, session = slow
    first = session.submit("hello", max_new_tokens=6, ignore_eos=True)
    session.request_step()
    assert engine.entered.acquire(timeout=20)
    before = session.revision
    second = session.submit("world", max_new_tokens=2, ignore_eos=True)
    plan = session.plan()
    assert plan is not None and plan.index == 0, "the plan of the step in hand"
    session.cancel(first.id)
    assert session.revision > before
    engine.go.release(100)
    assert session.wait(20)
    session.request_step(50)
    assert session.wait(20)
    last = {s.request: s for s in session.trace.steps[-1].sequences}
    assert last[first.id].state == last[second.id].state == "finished"
    assert len(last[second.id].token_ids) == 5 + 2 and len(last[first.id].token_ids) <= 5 + 2


def test_a_failed_step_is_told_and_repeated(slow: Any) -> None:
    engine, session = slow
    session.submit("hello", max_new_tokens=3, ignore_eos=True)
    engine.failures = [RuntimeError("the card fell off the bus")]
    engine.go.release(100)
    session.request_step(3)
    assert session.wait(20)
    status = session.status
    assert status.state == "failed" and "the card fell off the bus" in status.sentence
    assert session.trace.steps == [], "nothing half done"
    session.request_step(3)
    assert session.wait(20) and session.status.state == "idle" and len(session.trace.steps) == 3


def test_pause_drops_what_has_not_begun(slow: Any) -> None:
    engine, session = slow
    session.submit("hello", max_new_tokens=12, ignore_eos=True)
    session.request_step(10)
    assert engine.entered.acquire(timeout=20)
    session.pause()
    engine.go.release(100)
    assert session.wait(20) and len(session.trace.steps) == 1


def test_close_in_the_middle_of_a_step(slow: Any) -> None:
    engine, session = slow
    session.submit("hello", max_new_tokens=12, ignore_eos=True)
    session.request_step(10)
    assert engine.entered.acquire(timeout=20)
    session.close()
    assert session.num_bytes > 0 and session.status.state == "closed", "the step still uses the pool"
    engine.go.release(100)
    eventually(lambda: session.num_bytes == 0)
    assert engine.runs == 1 and len(session.trace.steps) <= 1
    for action in (session.request_step, lambda: session.submit("x"), session.plan):
        with pytest.raises(SessionClosed):
            action()
    session.close()
    with pytest.raises(SessionClosed):
        _ = engine.store


def test_a_refusal_reaches_the_caller(slow: Any) -> None:
    _, session = slow
    with pytest.raises(RequestRefused):
        session.submit("")
    assert session.status.state == "idle" and session.trace.requests == []


def test_two_sessions_share_weights_and_nothing_else(tiny: Any) -> None:
    """D2: both step at once on one model; each gives what it gives alone."""
    model, config = tiny("llama"), EngineConfig(num_blocks=16)
    prompts = ("hello there", "quite another")

    def alone(prompt: str) -> tuple[int, ...]:
        engine = Engine(model, config)
        engine.submit(prompt, max_new_tokens=20, ignore_eos=True)
        while engine.step():
            pass
        return engine.trace.steps[-1].sequences[0].token_ids

    expected = [alone(p) for p in prompts]
    registry = SessionRegistry(1 << 30)
    sessions = [registry.open(str(i), model, config) for i in range(2)]
    for session, prompt in zip(sessions, prompts, strict=True):
        session.submit(prompt, max_new_tokens=20, ignore_eos=True)
        session.request_step(100)
    assert all(s.wait(60) for s in sessions)
    assert [s.trace.steps[-1].sequences[0].token_ids for s in sessions] == expected
    assert [len(s.trace.requests) for s in sessions] == [1, 1]
    for i in range(2):
        registry.close(str(i))
    assert registry.num_bytes == 0 and registry.get("0") is None


def test_thirty_tabs_stay_under_the_cap(tiny: Any) -> None:
    """D3: the least recently used idle session gives its pool back first."""
    model, config = tiny("llama"), EngineConfig(num_blocks=64)
    size = pool_bytes(config, model.geometry)
    registry = SessionRegistry(4 * size + 100)
    opened = [registry.open(f"tab{i}", model, config) for i in range(4)]
    registry.get("tab0")
    opened += [registry.open(f"tab{i}", model, config) for i in range(4, 7)]
    assert [s.status.state for s in opened] == ["idle", "closed", "closed", "closed", "idle", "idle", "idle"]
    for i in range(7, 30):
        registry.open(f"tab{i}", model, config)
        assert registry.num_bytes <= registry.max_bytes
    for i in range(30):
        registry.close(f"tab{i}")
    assert registry.num_bytes == 0
    eventually(lambda: not any(s._worker.is_alive() for s in opened))


def test_refusals_of_the_registry(tiny: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    model, config = tiny("llama"), EngineConfig(num_blocks=64)
    size = pool_bytes(config, model.geometry)
    registry = SessionRegistry(size + size // 2)
    with pytest.raises(PoolTooLarge, match="all sessions together may take"):
        registry.open("big", model, EngineConfig(num_blocks=128))
    monkeypatch.setattr("core.engine.session.Engine", SlowEngine)
    busy = registry.open("busy", model, config)
    busy.submit("hello", ignore_eos=True)
    busy.request_step(100)
    with pytest.raises(PoolTooLarge, match="sessions at work hold"):
        registry.open("other", model, config)
    assert busy.status.state == "running", "a session at work is never taken away"
    busy._engine.go.release(1000)
    assert busy.wait(20)
    registry.open("other", model, config)
    assert busy.status.state == "closed"
    registry.close("other")
