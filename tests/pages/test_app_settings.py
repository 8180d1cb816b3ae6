"""Settings, place and model store without a screen."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from core.config import EngineConfig, Sampling
from core.models.errors import FetchError, TermsNotAccepted
from core.trace.step import Trace
from pages.parts import settings
from pages.parts.models import MAX_MODELS, ModelStore, Wanted
from pages.parts.view import View


def test_defaults_are_those_of_an_engine_that_works() -> None:
    config = settings.engine_config(settings.DEFAULTS)
    assert isinstance(config, EngineConfig)
    assert (config.block_size, config.num_blocks, config.watermark) == (4, 16, 0.0)
    assert config.strategies == settings.STRATEGIES


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("block_size", 65, "block size is 65"),
        ("num_blocks", 0, "number of blocks is 0"),
        ("sharing", "x", "'x'"),
    ],
)
def test_impossible_settings_are_a_sentence(name: str, value: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        settings.engine_config({**settings.DEFAULTS, name: value})


def test_prompts_are_lines_and_keep_their_breaks() -> None:
    assert settings.prompts({"prompts": " one \n\n a\\nb\n"}) == ["one", "a\nb"]
    with pytest.raises(ValueError, match="no prompt"):
        settings.prompts({"prompts": " \n "})


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"mode": "greedy", "temperature": 0.9, "n": 4}, {"sampling": Sampling(), "n": None, "beam": None}),
        (
            {"mode": "sample", "n": 4, "temperature": 0.9, "top_k": 5, "seed": 3},
            {"sampling": Sampling(temperature=0.9, top_k=5, seed=3), "n": 4, "beam": None},
        ),
        ({"mode": "beam", "n": 3}, {"sampling": Sampling(), "n": None, "beam": 3, "length_penalty": 1.0}),
    ],
)
def test_a_mode_hands_over_what_belongs_to_it(changes: dict[str, Any], expected: dict[str, Any]) -> None:
    arguments = settings.submission({**settings.DEFAULTS, **changes})
    for name, value in expected.items():
        assert arguments.get(name) == value


def test_another_model_needs_a_name() -> None:
    chosen = {**settings.DEFAULTS, "model": settings.OTHER_MODEL}
    with pytest.raises(ValueError, match="hub id"):
        settings.wanted(chosen)
    assert settings.wanted({**chosen, "other_model": " a/b "}) == Wanted("a/b", "float32", "cpu")


def test_a_view_keeps_the_step_of_every_trace() -> None:
    trace, place = Trace(meta={}, steps=[None] * 5), View()  # type: ignore[list-item]
    place.show_lesson("a")
    place.go(3)
    place.show_lesson("b")
    assert place.index(trace) == 0
    place.show_lesson("a")
    assert place.index(trace) == 3
    place.go(99)
    assert place.index(trace) == 4
    assert place.index(Trace(meta={})) == 0


def settle(store: ModelStore, wanted: Wanted) -> Any:
    """The arrival once it no longer loads."""
    for _ in range(500):
        arrival = store.look(wanted)
        if arrival.phase != "loading":
            return arrival
        time.sleep(0.01)
    raise AssertionError("still loading")


def test_many_tabs_load_a_model_once() -> None:
    calls, gate = [], threading.Event()

    def loader(wanted: Wanted, progress: Any, accept_terms: bool) -> str:
        calls.append(wanted)
        progress("download", 3, 10)
        gate.wait(5)
        return f"model {wanted.name}"

    store, wanted = ModelStore(loader), Wanted("a")
    assert store.look(wanted).phase == "absent"
    threads = [threading.Thread(target=store.request, args=(wanted,)) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    while not store.look(wanted).total:
        time.sleep(0.005)
    loading = store.look(wanted)
    assert (loading.phase, loading.stage, loading.done, loading.total) == ("loading", "download", 3, 10)
    gate.set()
    assert settle(store, wanted).model == "model a"
    assert store.request(wanted).phase == "ready"
    assert calls == [wanted]


def test_a_failed_model_is_a_sentence_and_is_tried_again() -> None:
    answers: list[Any] = [
        FetchError("No network: connect and try again."),
        TermsNotAccepted("Read them."),
        "here",
    ]

    def loader(wanted: Wanted, progress: Any, accept_terms: bool) -> Any:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return (answer, accept_terms)

    store, wanted = ModelStore(loader), Wanted("a")
    store.request(wanted)
    failed = settle(store, wanted)
    assert (failed.phase, failed.sentence) == ("failed", "No network: connect and try again.")
    store.request(wanted)
    assert settle(store, wanted).phase == "terms"
    store.request(wanted, accept_terms=True)
    assert settle(store, wanted).model == ("here", True)


def test_the_store_keeps_few_models() -> None:
    store = ModelStore(lambda wanted, progress, terms: wanted.name)
    names = [Wanted(name) for name in "abcd"]
    for wanted in names:
        store.request(wanted)
        settle(store, wanted)
    assert [store.look(wanted).phase for wanted in names] == ["absent"] * (4 - MAX_MODELS) + [
        "ready"
    ] * MAX_MODELS
