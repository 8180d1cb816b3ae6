"""Requests from the options and from a file of JSON lines: each checked, errors with their line."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from core.cli.errors import UsageError
from core.config import MAX_BEAMS, MAX_SAMPLES, Sampling

_LARGE = 1 << 20
# key: (types, lowest, highest, as an error says it)
_NUMBERS: dict[str, tuple[tuple[type, ...], float, float, str]] = {
    "arrival_step": ((int,), 0, _LARGE, "a whole number, 0 or more"),
    "n": ((int,), 1, MAX_SAMPLES, f"a whole number from 1 to {MAX_SAMPLES}"),
    "beam": ((int,), 2, MAX_BEAMS, f"a whole number from 2 to {MAX_BEAMS}"),
    "max_new_tokens": ((int,), 1, _LARGE, "a whole number, 1 or more"),
    "temperature": ((int, float), 0, 10, "a number from 0 to 10"),
    "top_k": ((int,), 0, _LARGE, "a whole number, 0 or more"),
    "top_p": ((int, float), 0, 1, "a number above 0 and at most 1"),
    "seed": ((int,), 0, (1 << 63) - 1, "a whole number, 0 or more"),
    "length_penalty": ((int, float), -5, 5, "a number from -5 to 5"),
}
_SAMPLING = ("temperature", "top_k", "top_p", "seed")
_EARLY = (True, False, "never")
_KEYS = ("prompt", "chat", "early_stopping", *_NUMBERS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """One request as it is to be handed to ``Engine.submit``, and where it was asked for."""

    prompt: str
    options: dict[str, Any] = field(default_factory=dict)
    origin: str = ""


def make_wanted(values: dict[str, Any], origin: str) -> Wanted:
    """A request from its values by name; beams and sampling as ``Engine.submit`` takes them.

    Raises UsageError when the settings do not go together.
    """
    _refuse_pairs(values, origin)
    options = {key: value for key, value in values.items() if key not in ("prompt", *_SAMPLING)}
    # Several greedy answers are one answer several times: who asks for many wants to see them differ.
    values = {"temperature": float(options.get("n", 1) > 1 and "beam" not in options), **values}
    try:
        options["sampling"] = Sampling(**{key: values[key] for key in _SAMPLING if key in values})
    except ValueError as error:
        raise UsageError(f"{origin}: {error}" if origin else str(error)) from error
    return Wanted(prompt=values["prompt"], options=options, origin=origin)


def _refuse_pairs(values: dict[str, Any], origin: str) -> None:
    """What beam search does not go together with."""
    if "beam" not in values:
        return
    wrong = ""
    if values.get("n", 1) > 1:
        wrong = f"{values['n']} answers with {values['beam']} beams; ask for one or the other, not both."
    elif values.get("temperature"):
        wrong = (
            f"beam search draws nothing, so temperature {values['temperature']} has no meaning; leave it out."
        )
    if wrong:
        raise UsageError(f"{origin}: {wrong}" if origin else wrong)


def check_options(values: dict[str, Any]) -> None:
    """The same bounds for what the options say: before a model is loaded, with the option's name.

    Raises UsageError with one sentence.
    """
    for key, value in values.items():
        if key in _NUMBERS and not _NUMBERS[key][1] <= value <= _NUMBERS[key][2]:
            option = {"max_new_tokens": "max-tokens"}.get(key, key.replace("_", "-"))
            raise UsageError(f"--{option} is {value}; it must be {_NUMBERS[key][3]}.")


def read_requests(path: Path, defaults: dict[str, Any]) -> list[Wanted]:
    """The requests of a file of JSON lines (empty ones skipped); ``defaults`` fill in what a line leaves out.

    Raises UsageError with the line's number and one sentence.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}.") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is no UTF-8 text (byte {error.start}); save it as UTF-8.") from error
    wanted = list(_lines(path.name, text.split("\n"), defaults))
    if not wanted:
        raise UsageError(f"{path} has no requests; write one JSON object a line, with at least a prompt.")
    return wanted


def _lines(name: str, lines: Iterable[str], defaults: dict[str, Any]) -> Iterable[Wanted]:
    for number, line in enumerate(lines, start=1):
        if line.strip():
            origin = f"{name}, line {number}"
            try:
                values = _checked(json.loads(line))
            except (_Bad, json.JSONDecodeError) as error:
                reason = (
                    f"is no JSON ({error.msg})" if isinstance(error, json.JSONDecodeError) else str(error)
                )
                raise UsageError(f"{origin}: {reason}.") from None
            except (RecursionError, ValueError):
                raise UsageError(f"{origin}: is no JSON object that could be a request.") from None
            yield make_wanted({**_defaults_for(values, defaults), **values}, origin)


class _Bad(Exception):
    pass


def _defaults_for(values: dict[str, Any], defaults: dict[str, Any]) -> dict[str, Any]:
    """Answers and beams exclude each other: a line that asks for one has not the other by default."""
    left_out = {"beam": {"n", *_SAMPLING}, "n": {"beam"}, "temperature": {"beam"}}
    dropped = {key for given in values.keys() & left_out.keys() for key in left_out[given]}
    return {key: value for key, value in defaults.items() if key not in dropped}


def _checked(values: Any) -> dict[str, Any]:
    if not isinstance(values, dict):
        raise _Bad('must be a JSON object such as {"prompt": "…"}')
    unknown = sorted(values.keys() - set(_KEYS))
    if unknown:
        raise _Bad(f'has the unknown key "{unknown[0][:40]}"; there are {", ".join(_KEYS)}')
    if not isinstance(values.get("prompt"), str):
        raise _Bad('needs "prompt" as a text')
    if not isinstance(values.get("chat", False), bool):
        raise _Bad('"chat" must be true or false')
    early = values.get("early_stopping", False)
    if not isinstance(early, (bool, str)) or early not in _EARLY:
        raise _Bad(f'"early_stopping" must be true, false or "never", not {json.dumps(early)[:40]}')
    for key in values.keys() & _NUMBERS.keys():
        types, low, high, says = _NUMBERS[key]
        value = values[key]
        if isinstance(value, bool) or not isinstance(value, types) or not low <= value <= high:
            raise _Bad(f'"{key}" must be {says}, not {json.dumps(value)[:40]}')
    return values
