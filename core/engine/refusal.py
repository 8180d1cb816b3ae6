"""What a request needs at its worst, and why some can never be served, in numbers and in a sentence."""

from __future__ import annotations

from core.config import MAX_BEAMS, MAX_SAMPLES, EngineConfig
from core.engine.errors import RequestRefused
from core.memory.views import RequestView


class NeverFits(RequestRefused):
    """A request that no state of the pool can serve; ``need`` and ``have`` are in ``unit``."""

    def __init__(self, sentence: str, *, need: int, have: int, unit: str) -> None:
        super().__init__(sentence)
        self.need, self.have, self.unit = need, have, unit


def worst_case_blocks(request: RequestView, config: EngineConfig) -> int:
    """The most blocks that the request's sequences can hold at once.

    Full blocks of the prompt count once for all of them (unless nothing is shared), the rest once for each.
    With one new token nothing is ever written after the prompt, so its partly filled block stays shared too.
    """
    size, prompt = config.block_size, len(request.prompt_token_ids)
    if request.max_new_tokens == 1:
        return -(-prompt // size)
    total = -(-request.max_written // size)
    shared = prompt // size if config.sharing != "none" else 0
    return shared + request.n * (total - shared)


def check_request(request: RequestView, config: EngineConfig) -> None:
    """Refuse what can never be served.

    The rule at the edge: what counts is the tokens that are written, prompt + max_new_tokens - 1, because the
    last sampled one never is. So a prompt of exactly max_model_len may have one new token.
    Raises ValueError for a malformed request and NeverFits for one that is too large.
    """
    prompt, new, limit = len(request.prompt_token_ids), request.max_new_tokens, config.max_model_len
    most = MAX_BEAMS if request.mode == "beam" else MAX_SAMPLES
    if not prompt:
        raise RequestRefused("The prompt has no tokens; it needs at least one.")
    if new < 1:
        raise RequestRefused(f"The number of new tokens is {new}; it must be at least 1.")
    if not 1 <= request.n <= most:
        what = "beams" if request.mode == "beam" else "answers"
        raise RequestRefused(f"The number of {what} is {request.n}; it must be 1 to {most}.")
    if request.max_written > limit:
        sentence = (
            f"{prompt} prompt tokens and {new} new ones write {request.max_written} slots and a sequence may "
            f"have {limit}; use a shorter prompt or fewer new tokens."
        )
        raise NeverFits(sentence, need=request.max_written, have=limit, unit="tokens")
    _check_width(request, config)
    _check_blocks(request, config)


def _check_width(request: RequestView, config: EngineConfig) -> None:
    limits = ((config.max_running, "run at once"), (config.max_batch_tokens, "be computed in a step"))
    for limit, what in limits:
        if request.n > limit:
            sentence = f"{request.n} sequences go on together and only {limit} may {what}; ask for fewer."
            raise NeverFits(sentence, need=request.n, have=limit, unit="sequences")


def _check_blocks(request: RequestView, config: EngineConfig) -> None:
    need = worst_case_blocks(request, config)
    if need <= config.num_blocks:
        return
    prompt, new = len(request.prompt_token_ids), request.max_new_tokens
    together = f" in {request.n} sequences" if request.n > 1 else ""
    sentence = (
        f"{prompt} prompt tokens and {new} new ones{together} need {need} blocks and the pool has "
        f"{config.num_blocks}; use fewer tokens or a larger pool."
    )
    raise NeverFits(sentence, need=need, have=config.num_blocks, unit="blocks")
