"""Requests: refused whole, in one sentence, before the scheduler hears of them."""

from typing import Any

import pytest

from core.config import EngineConfig, Sampling
from core.engine.errors import RequestRefused
from core.engine.requests import make_request
from core.memory.views import RequestView
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
}


def make(tiny: Any, prompt: Any, config: EngineConfig | None = None, **changes: Any) -> RequestView:
    return make_request(tiny("llama"), config or EngineConfig(), prompt, **DEFAULTS | changes)


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
    config = EngineConfig(max_model_len=16)
    if fits:
        assert make(tiny, [1] * length, config, max_new_tokens=new).max_written <= 16
    else:
        with pytest.raises(RequestRefused, match="limit is 16"):
            make(tiny, [1] * length, config, max_new_tokens=new)


def test_the_model_has_a_limit_too(tiny: Any) -> None:
    with pytest.raises(RequestRefused, match="limit is 512; ask for at most 503"):
        make(tiny, [1] * 10, EngineConfig(max_model_len=9999, num_blocks=999), max_new_tokens=600)


def test_pool_too_small(tiny: Any) -> None:
    """A5: numbers in the sentence, and what would fit."""
    small = EngineConfig(block_size=4, num_blocks=2)
    with pytest.raises(RequestRefused, match=r"need 3 blocks and the pool has 2; use at most 1 new tokens"):
        make(tiny, [1] * 8, small, max_new_tokens=4)
    with pytest.raises(RequestRefused, match="a shorter prompt"):
        make(tiny, [1] * 9, small, max_new_tokens=1)
    assert make(tiny, [1] * 4, small, max_new_tokens=5).max_written == 8


def test_more_sequences_than_may_run(tiny: Any) -> None:
    with pytest.raises(RequestRefused, match="3 sequences never run at once where 2 may"):
        make(tiny, "hi", EngineConfig(max_running=2), n=3)
