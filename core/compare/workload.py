"""Requests drawn like those of the PagedAttention paper: Poisson arrivals, lengths like ShareGPT's and
Alpaca's.

The paper (SOSP 2023, Fig. 11) gives the means of the lengths and not their spread. Lengths here are
log-normal, the usual shape for them: many short, a few very long. Prompt + output is at most 2,048 tokens,
OPT's context, and the distributions are centred so that the means after this cut are the paper's. The spread
of the outputs follows from another figure of the paper: under Orca (Max), slots that hold tokens and slots
that will (Fig. 2) stand as 20.4 to 13.3 over 7.00 running requests (Fig. 13). The second is E[new^2] / 2
E[new] a request, as a running request is met in proportion to its length; that gives a coefficient of
variation of 0.87, sigma 0.8 to 0.9 with the cut. The spread of the prompts hardly matters for any figure.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

CONTEXT = 2048  # tokens: OPT's limit on prompt + output
MAX_LINES = 100_000


class Drawn(NamedTuple):
    """One request: when it arrives (in the unit of the rate), tokens of its prompt, tokens that it generates,
    and tokens that it may generate."""

    arrival: float
    prompt: int
    new: int
    max_new: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Lengths:
    """Means (tokens) and spreads (sigma of the logarithm) of prompts and outputs; ``limit`` on their sum."""

    name: str
    mean_prompt: float
    mean_new: float
    sigma_prompt: float
    sigma_new: float
    limit: int = CONTEXT

    def scaled(self, factor: float) -> Lengths:
        """The same shape for a smaller model: all lengths times ``factor``."""
        return replace(
            self, mean_prompt=self.mean_prompt * factor, mean_new=self.mean_new * factor,
            limit=max(2, round(self.limit * factor)),
        )  # fmt: skip


SHAREGPT = Lengths(name="ShareGPT", mean_prompt=161.31, mean_new=337.99, sigma_prompt=1.4, sigma_new=0.8)
ALPACA = Lengths(name="Alpaca", mean_prompt=19.31, mean_new=58.45, sigma_prompt=0.5, sigma_new=0.8)
KINDS = {"sharegpt": SHAREGPT, "alpaca": ALPACA}


def _cut(z: np.ndarray, centre: Sequence[float] | np.ndarray, lengths: Lengths) -> np.ndarray:
    """Standard normals [n, 2] -> integer lengths [m, 2], prompt + new at most the limit; others are
    dropped."""
    sigma = np.array([lengths.sigma_prompt, lengths.sigma_new])
    values: np.ndarray = np.maximum(1, np.rint(np.exp(np.asarray(centre) + sigma * z))).astype(np.int64)
    kept: np.ndarray = values[values.sum(axis=1) <= lengths.limit]
    return kept


def centred(lengths: Lengths) -> tuple[float, float]:
    """Centres of the two log-normals for which the means after the cut are those asked for (to half a
    percent)."""
    z = np.random.default_rng(0).standard_normal((40_000, 2))
    want = np.array([lengths.mean_prompt, lengths.mean_new])
    centre = np.log(want)
    for _ in range(60):
        found = _cut(z, centre, lengths).mean(axis=0)
        if np.all(np.abs(found / want - 1) < 0.002):
            break
        centre = centre + np.log(want / found)
    return float(centre[0]), float(centre[1])


def draw(lengths: Lengths, count: int, rate: float, seed: int = 0, slack: float = 1.0) -> list[Drawn]:
    """``count`` requests, ``rate`` of them a unit of time on average (0: all at once). Same seed, same
    requests.

    ``slack``: a request may generate that many times what it will (its max_new, at most the limit).
    Raises ValueError when a number makes no sense.
    """
    if count < 1 or rate < 0 or slack < 1:
        raise ValueError(
            f"{count} requests at a rate of {rate} with slack {slack} cannot be drawn; "
            "take at least 1 request, a rate of at least 0 and a slack of at least 1."
        )
    rng = np.random.default_rng(seed)
    centre = centred(lengths)
    rows: list[np.ndarray] = []
    while sum(map(len, rows)) < count:
        rows.append(_cut(rng.standard_normal((count, 2)), centre, lengths))
    values = np.concatenate(rows)[:count]
    times = np.cumsum(rng.exponential(1 / rate, count)) if rate else np.zeros(count)
    return [
        Drawn(float(t), int(p), int(n), max(int(n), min(round(n * slack), lengths.limit - int(p))))
        for t, (p, n) in zip(times, values, strict=True)
    ]


def read_requests(path: str | Path, count_tokens: Callable[[str], int] | None = None) -> list[Drawn]:
    """Requests from a file, one JSON object a line, in order of arrival.

    Keys: ``prompt_tokens`` (a number) or ``prompt`` (a text, which ``count_tokens`` measures),
    ``new_tokens``, and optionally ``max_new_tokens`` (the same) and ``arrival`` (0). Raises ValueError with
    the line's number and what is wrong with it.
    """
    found = []
    for number, line in enumerate(Path(path).read_text(encoding="utf-8").splitlines(), 1):
        if number > MAX_LINES:
            raise ValueError(f"{path} has more than {MAX_LINES} lines; split it.")
        if line.strip():
            found.append(_request(line, f"{path}, line {number}", count_tokens))
    if not found:
        raise ValueError(f"{path} holds no request; write one JSON object a line.")
    return sorted(found, key=lambda request: request.arrival)


def _request(line: str, where: str, count_tokens: Callable[[str], int] | None) -> Drawn:
    try:
        data = json.loads(line)
    except ValueError as error:
        raise ValueError(f"{where} is not JSON: {error}.") from error
    if not isinstance(data, dict):
        raise ValueError(f"{where} is not a JSON object.")
    prompt: Any = data.get("prompt_tokens")
    if prompt is None and count_tokens is not None and isinstance(data.get("prompt"), str):
        prompt = count_tokens(data["prompt"])
    new: Any = data.get("new_tokens", data.get("max_new_tokens"))
    most: Any = data.get("max_new_tokens", new)
    arrival: Any = data.get("arrival", data.get("arrival_step", 0))
    for key, value in (("prompt_tokens", prompt), ("new_tokens", new), ("max_new_tokens", most)):
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ValueError(f'{where}: "{key}" is {value!r}; it must be a whole number of at least 1.')
    if not isinstance(arrival, int | float) or isinstance(arrival, bool) or not arrival >= 0:
        raise ValueError(f'{where}: "arrival" is {arrival!r}; it must be a number of at least 0.')
    if most < new:
        raise ValueError(f"{where}: {new} new tokens are more than the {most} allowed.")
    return Drawn(float(arrival), prompt, new, most)
