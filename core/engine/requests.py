"""A request is checked whole before the scheduler hears of it. The scheduler says if it has room."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Literal

from core.config import MAX_BEAMS, MAX_SAMPLES, Sampling
from core.engine.beams import BeamOptions
from core.engine.errors import RequestRefused
from core.memory.views import RequestView

if TYPE_CHECKING:
    from core.models.loaded import LoadedModel


def make_request(
    model: LoadedModel,
    prompt: str | Sequence[int],
    *,
    request_id: str,
    arrival_step: int,
    max_new_tokens: int,
    n: int,
    beam: int | None,
    length_penalty: float,
    early_stopping: bool | Literal["never"],
    sampling: Sampling,
    chat: bool,
    ignore_eos: bool,
) -> RequestView:
    """The request as it is recorded. Raises RequestRefused with one sentence that says what to change."""
    ids = _prompt_ids(model, prompt, chat)
    _check_count("new tokens", max_new_tokens, 1, 1 << 20)
    _check_count("answers", n, 1, MAX_SAMPLES)
    settings: dict[str, Any] = asdict(sampling)
    if beam is not None:
        settings = asdict(_beam_options(beam, n, length_penalty, early_stopping, sampling))
    if ignore_eos:
        settings["ignore_eos"] = True
    return RequestView(
        id=request_id,
        prompt_text=prompt if isinstance(prompt, str) else model.tokens.text(ids),
        prompt_token_ids=ids,
        mode="beam" if beam is not None else "sample" if sampling.temperature else "greedy",
        n=beam if beam is not None else n,
        max_new_tokens=max_new_tokens,
        arrival_step=arrival_step,
        sampling=settings,
    )


def _prompt_ids(model: LoadedModel, prompt: str | Sequence[int], chat: bool) -> tuple[int, ...]:
    if isinstance(prompt, str):
        if not prompt:
            raise RequestRefused("The prompt is empty; write at least one character.")
        try:
            ids = model.tokens.encode(prompt, chat=chat)
        except ValueError as error:
            raise RequestRefused(str(error)) from error
    elif chat:
        raise RequestRefused("A chat template applies to text; hand in the prompt as text, not as token ids.")
    else:
        ids = list(prompt)
    if not ids:
        raise RequestRefused("The prompt has no tokens; it needs at least one.")
    size = model.geometry.vocab_size
    for token in ids:
        if isinstance(token, bool) or not isinstance(token, int) or not 0 <= token < size:
            raise RequestRefused(f"The prompt has {token!r}; this model's token ids are 0 to {size - 1}.")
    return tuple(ids)


def _check_count(what: str, value: object, low: int, high: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise RequestRefused(f"The number of {what} is {value!r}; it must be whole, {low} to {high}.")


def _beam_options(
    beam: int, n: int, length_penalty: float, early_stopping: bool | str, sampling: Sampling
) -> BeamOptions:
    _check_count("beams", beam, 2, MAX_BEAMS)
    if n != 1:
        raise RequestRefused(f"{n} answers with {beam} beams; ask for one or the other, not both.")
    if sampling.temperature:
        raise RequestRefused(
            f"Beam search draws nothing, so temperature {sampling.temperature} has no meaning; set it to 0."
        )
    try:
        return BeamOptions(length_penalty=length_penalty, early_stopping=early_stopping)  # type: ignore[arg-type]
    except (TypeError, ValueError) as error:
        raise RequestRefused(f"The beam search cannot be run: {error}") from error
