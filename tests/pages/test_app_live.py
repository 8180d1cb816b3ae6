"""A live run by AppTest, on a tiny random model: begin, step, feed, cancel, refuse, prove, save."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from streamlit.testing.v1 import AppTest

from core.models.errors import TermsNotAccepted
from core.scenarios import SCENARIOS
from pages.parts import library, live, models, side_bar
from pages.parts.models import ModelStore, Wanted
from tests.pages.test_app import ROOT, clean, component, stage

if TYPE_CHECKING:
    from core.engine.session import SessionRegistry
    from core.models.loaded import LoadedModel


@pytest.fixture
def registry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny: Callable[..., LoadedModel]
) -> SessionRegistry:
    """No lessons, a store that hands out a tiny model, and a registry of the test's own."""
    from core.engine.session import SessionRegistry

    monkeypatch.setattr(library, "LESSONS", tmp_path)
    store = ModelStore(lambda wanted, progress, terms: tiny("llama"))
    monkeypatch.setattr(models, "store", lambda: store)
    own = SessionRegistry(1 << 24)
    monkeypatch.setattr(live, "registry", lambda: own)
    monkeypatch.chdir(ROOT)
    return own


def go_live(**settings: Any) -> AppTest:
    """A tab whose live run has begun with these settings, its first step done."""
    at = AppTest.from_file(str(ROOT / "app.py"), default_timeout=60)
    at.query_params["lang"] = "en"
    at.run().run()  # the side bar comes with a tab's second run
    for name, value in settings.items():
        at.get_by_key(f"set_{name}").set_value(value).run()
    at.get_by_key("source_switch").set_value("live").run()
    settle(at, 1)
    return at


def steps(at: AppTest) -> int:
    """Steps in the live trace of this tab."""
    session = at.session_state.run.session
    return 0 if session is None else len(session.trace.steps)


def settle(at: AppTest, count: int) -> None:
    """Run until the trace has ``count`` steps and the worker rests; then draw it."""
    for _ in range(300):
        at.run()
        session = at.session_state.run.session
        if session is not None and steps(at) >= count and session.status.state != "running":
            at.run()
            return
        time.sleep(0.02)
    raise AssertionError(f"{steps(at)} of {count} steps; {[e.value for e in at.error]}")


def test_live_takes_over_when_asked(registry: SessionRegistry) -> None:
    at = go_live(prompts="Hello there", max_new_tokens=5)
    clean(at)
    drawn = stage(at)
    assert (drawn["mode"], drawn["index"], drawn["can_step"]) == ("live", 0, True)
    assert drawn["all"] == 16
    assert component(at, "paged_kv_address") == {"lang": "en", "lesson": None, "step": None}
    at.session_state.run.session.request_step(9)
    settle(at, 5)
    drawn = stage(at)
    assert (drawn["index"], drawn["last"], drawn["can_step"]) == (4, 4, False)


def test_an_impossible_request_is_a_sentence_and_the_run_before_stays(registry: SessionRegistry) -> None:
    at = go_live(prompts="Hello there", max_new_tokens=5)
    before = at.session_state.run.session
    at.get_by_key("set_num_blocks").set_value(2).run()
    at.get_by_key("start").click().run()
    assert not at.exception
    assert len(at.error) == 1
    assert "need 4 blocks and the pool has 2" in at.error[0].value
    assert at.session_state.run.session is before
    assert stage(at)["all"] == 16
    at.get_by_key("set_num_blocks").set_value(12).run()
    at.get_by_key("start").click().run()
    settle(at, 1)
    clean(at)
    assert at.session_state.run.session is not before
    assert before.status.state == "closed"
    assert stage(at)["all"] == 12


def test_a_request_joins_and_another_is_cancelled(registry: SessionRegistry) -> None:
    at = go_live(prompts="Hello there", max_new_tokens=9)
    at.get_by_key("set_prompts").set_value("Second\nThird").run()
    at.get_by_key("add").click().run()
    at.session_state.run.session.request_step()
    settle(at, 2)
    clean(at)
    assert len(stage(at)["seqs"]) == 3
    at.get_by_key("cancel_r1").click().run()
    settle(at, 3)
    clean(at)
    states = {s.id: s.state for s in at.session_state.run.session.trace.steps[-1].sequences}
    assert states == {"r0.0": "running", "r1.0": "finished", "r2.0": "running"}
    assert "cancel_r1" not in {b.key for b in at.button}


def test_the_proof_is_one_switch_away(registry: SessionRegistry) -> None:
    at = go_live(prompts="Hello there", max_new_tokens=9)
    at.get_by_key("proof_switch").set_value(True).run()
    assert "no proof" in stage(at)["about"][-1]
    at.session_state.run.session.request_step()
    settle(at, 2)
    clean(at)
    assert "logits differ by at most" in stage(at)["about"][-1]
    assert at.session_state.run.session.trace.steps[1].proof.max_abs_logit_diff < 1e-4


def test_two_tabs_share_nothing_but_the_weights(registry: SessionRegistry) -> None:
    one, two = go_live(prompts="First tab"), go_live(prompts="Second tab")
    a, b = (at.session_state.run.session.trace.requests[0].prompt_text for at in (one, two))
    assert (a, b) == ("First tab", "Second tab")
    assert registry.num_bytes == sum(at.session_state.run.session.num_bytes for at in (one, two))


def test_a_closed_tab_gives_its_pool_back(registry: SessionRegistry) -> None:
    at = go_live(prompts="Hello")
    assert registry.num_bytes > 0
    del at
    gc.collect()
    for _ in range(100):
        if registry.num_bytes == 0:
            break
        time.sleep(0.02)
    assert registry.num_bytes == 0


def test_looking_at_a_lesson_while_the_worker_computes_does_not_spin(
    registry: SessionRegistry, tmp_path: Path
) -> None:
    at = go_live(prompts="Hello there", max_new_tokens=9)
    at.session_state.run.session.request_step()
    at.session_state.run.session.wait(5)
    at.get_by_key("source_switch").set_value("recorded").run()
    assert not at.exception
    assert at.session_state.polling is False
    at.get_by_key("source_switch").set_value("live").run()
    assert stage(at)["index"] == 1


def test_terms_are_shown_before_their_model_is_fetched(
    registry: SessionRegistry, monkeypatch: pytest.MonkeyPatch, tiny: Callable[..., LoadedModel]
) -> None:
    accepted: list[bool] = []

    def loader(wanted: Wanted, progress: Any, accept_terms: bool) -> LoadedModel:
        accepted.append(accept_terms)
        if not accept_terms:
            raise TermsNotAccepted("Read the terms first.")
        return tiny("llama")

    store = ModelStore(loader)
    monkeypatch.setattr(models, "store", lambda: store)
    monkeypatch.setattr(side_bar, "_terms_text", lambda name: f"Terms of {name}: be kind.")
    at = AppTest.from_file(str(ROOT / "app.py"), default_timeout=60)
    at.query_params["lang"] = "en"
    at.run().run()
    at.get_by_key("set_prompts").set_value("Hello there").run()
    at.get_by_key("set_model").set_value("gemma-3-270m").run()
    at.get_by_key("start").click().run()
    wanted = at.session_state.run.waiting_for
    while store.look(wanted).phase == "loading":
        time.sleep(0.01)
    at.run()
    clean(at)
    assert "Terms of gemma-3-270m: be kind." in [text.value for text in at.text]
    assert accepted == [False]
    at.get_by_key("accept_terms").click().run()
    settle(at, 1)
    clean(at)
    assert accepted == [False, True]
    assert stage(at)["mode"] == "live"


def test_a_lesson_runs_live_in_its_own_pool(
    registry: SessionRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A prompt of eight bytes: the tiny model has a token a byte, and the lesson's own would not fit.
    crafted = replace(
        SCENARIOS["first-steps"], requests=({"prompt": "The cat.", "max_new_tokens": 4, "n": 2},)
    )
    monkeypatch.setattr(library, "LESSONS", ROOT / "assets" / "lessons")
    monkeypatch.setattr(live, "SCENARIOS", {crafted.name: crafted})
    at = AppTest.from_file(str(ROOT / "app.py"), default_timeout=60)
    at.query_params["lang"] = "en"
    at.query_params["lesson"] = crafted.name
    at.run().run()
    at.get_by_key("start_lesson").click().run()
    settle(at, 1)
    clean(at)
    session = at.session_state.run.session
    assert session.config == crafted.config
    assert session.trace.meta["scenario"] == crafted.name
    assert [view.block_table for view in session.trace.steps[0].sequences] == [(1, 3), (1, 3)]
