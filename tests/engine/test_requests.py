"""Requests: refused whole, in one sentence, before the scheduler hears of them."""

from typing import Any

import pytest

from core.config import EngineConfig, Sampling
from core.engine.engine import Engine
from core.engine.errors import RequestRefused
from core.engine.requests import make_request
from core.memory.views import RequestView
from tests.engine.helpers import generated, run
from tests.tiny import VOCAB_SIZE

DEFAULTS: dict[str, Any] = {
    "request_id": "r0",
    "arrival_step": 0,
    "max_new_tokens": 4,
    "n": 1,
    "beam": None,
    "length_penalty": 1.0,
    "early_stopping": False,
    "sampling": Sampling(),
    "chat": False,
    "ignore_eos": False,
}


def make(tiny: Any, prompt: Any, **changes: Any) -> RequestView:
    return make_request(tiny("llama"), prompt, **DEFAULTS | changes)


def test_what_is_recorded(tiny: Any) -> None:
    view = make(tiny, "héllo", sampling=Sampling(temperature=0.5, seed=9), n=3)
    assert view.prompt_text == "héllo" and view.prompt_token_ids == tuple("héllo".encode())
    assert (view.mode, view.n, view.sampling["seed"], view.sampling["temperature"]) == ("sample", 3, 9, 0.5)
    assert make(tiny, [104, 105]).prompt_text == "hi" and make(tiny, "hi").mode == "greedy"
    beam = make(tiny, "hi", beam=3, length_penalty=0.5, early_stopping=True)
    assert (beam.mode, beam.n) == ("beam", 3)
    assert beam.sampling["length_penalty"] == 0.5 and beam.sampling["early_stopping"] is True


@pytest.mark.parametrize(
    ("prompt", "changes", "sentence"),
    [
        ("", {}, "prompt is empty"),
        ([], {}, "no tokens"),
        ([VOCAB_SIZE], {}, rf"{VOCAB_SIZE}.*0 to {VOCAB_SIZE - 1}"),
        ([-1], {}, "-1"),
        ([1.5], {}, r"1\.5"),
        ([True], {}, "True"),
        ([1], {"chat": True}, "as text"),
        ("hi", {"chat": True}, "no chat template"),
        ("hi", {"max_new_tokens": 0}, "new tokens is 0"),
        ("hi", {"max_new_tokens": 2.0}, r"new tokens is 2\.0"),
        ("hi", {"n": 0}, "answers is 0"),
        ("hi", {"n": 17}, "1 to 16"),
        ("hi", {"beam": 1}, "2 to 8"),
        ("hi", {"beam": 9}, "2 to 8"),
        ("hi", {"beam": 2, "n": 2}, "not both"),
        ("hi", {"beam": 2, "sampling": Sampling(temperature=0.7)}, r"temperature 0\.7"),
        ("hi", {"beam": 2, "length_penalty": float("nan")}, "nan"),
        ("hi", {"beam": 2, "early_stopping": "perhaps"}, "perhaps"),
    ],
)
def test_refused_in_one_sentence(tiny: Any, prompt: Any, changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(RequestRefused, match=sentence) as caught:
        make(tiny, prompt, **changes)
    text = str(caught.value)
    assert text.endswith(".") and "\n" not in text


@pytest.mark.parametrize(
    ("length", "new", "fits"),
    [(15, 1, True), (16, 1, True), (17, 1, False), (10, 7, True), (10, 8, False), (1, 16, True)],
)
def test_the_limit_counts_written_tokens(tiny: Any, length: int, new: int, fits: bool) -> None:
    """A18, limit 16: the last sampled token is never written, so P + G - 1 slots must fit."""
    engine = Engine(tiny("llama"), EngineConfig(max_model_len=16))
    if fits:
        assert engine.submit([1] * length, max_new_tokens=new).max_written <= 16
    else:
        with pytest.raises(RequestRefused, match="may have 16"):
            engine.submit([1] * length, max_new_tokens=new)


def test_the_model_has_a_limit_too(tiny: Any) -> None:
    with pytest.raises(ValueError, match="max model length is 9999 and tiny-llama reads at most 512"):
        Engine(tiny("llama"), EngineConfig(max_model_len=9999))


def test_pool_too_small_is_refused_and_told(tiny: Any) -> None:
    """A5: a sentence with the numbers; what comes after it still runs; the trace says what happened."""
    engine = Engine(tiny("llama"), EngineConfig(block_size=4, num_blocks=2))
    with pytest.raises(RequestRefused, match="need 3 blocks and the pool has 2"):
        engine.submit([1] * 8, max_new_tokens=4)
    with pytest.raises(RequestRefused):
        engine.submit([1] * 9, max_new_tokens=1)
    small = engine.submit([1] * 4, max_new_tokens=5, ignore_eos=True)
    assert small.id == "r2"
    run(engine)
    assert [e.name for e in engine.trace.steps[0].events][:4] == ["arrive", "reject", "arrive", "reject"]
    assert generated(engine, "r2.0") and len(generated(engine, "r2.0")) == 5
    assert [r.id for r in engine.trace.requests] == ["r0", "r1", "r2"]


def test_ids_are_unique(tiny: Any) -> None:
    engine = Engine(tiny("llama"), EngineConfig())
    engine.submit("a", request_id="mine")
    for taken in ("mine", ""):
        with pytest.raises(RequestRefused, match="choose another"):
            engine.submit("b", request_id=taken)
