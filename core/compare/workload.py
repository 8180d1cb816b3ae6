"""Requests drawn like those of the PagedAttention paper: Poisson arrivals, lengths like ShareGPT's and Alpaca's.

The paper (SOSP 2023, Fig. 11) gives the means of the lengths and not their spread. Lengths here are log-normal,
the usual shape for them: many short, a few very long. Prompt + output is at most 2,048 tokens, OPT's context, and
the distributions are centred so that the means after this cut are the paper's.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

CONTEXT = 2048  # tokens: OPT's limit on prompt + output
MAX_LINES = 100_000


class Drawn(NamedTuple):
    """One request: when it arrives (seconds), tokens of its prompt, tokens that it will generate, and may."""

    arrival: float
    prompt: int
    new: int
    max_new: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Lengths:
    """Means (tokens, Fig. 11) and spreads (sigma of the logarithm) of prompts and outputs."""

    name: str
    mean_prompt: float
    mean_new: float
    sigma_prompt: float
    sigma_new: float


SHAREGPT = Lengths(name="ShareGPT", mean_prompt=161.31, mean_new=337.99, sigma_prompt=1.4, sigma_new=0.9)
ALPACA = Lengths(name="Alpaca", mean_prompt=19.31, mean_new=58.45, sigma_prompt=0.5, sigma_new=0.8)
KINDS = {"sharegpt": SHAREGPT, "alpaca": ALPACA}


def _cut(z: np.ndarray, centre: Sequence[float], lengths: Lengths, limit: int) -> np.ndarray:
    """Standard normals [n, 2] -> integer lengths [m, 2] with prompt + new at most ``limit``; the rest is dropped."""
    sigma = np.array([lengths.sigma_prompt, lengths.sigma_new])
    values = np.maximum(1, np.rint(np.exp(np.asarray(centre) + sigma * z))).astype(np.int64)
    return values[values.sum(axis=1) <= limit]


def centred(lengths: Lengths, limit: int = CONTEXT) -> tuple[float, float]:
    """Centres of the two log-normals for which the means after the cut are those asked for (to a percent)."""
    z = np.random.default_rng(0).standard_normal((40_000, 2))
    want = np.array([lengths.mean_prompt, lengths.mean_new])
    sigma = np.array([lengths.sigma_prompt, lengths.sigma_new])
    centre = np.log(want) - sigma**2 / 2
    for _ in range(40):
        found = _cut(z, centre, lengths, limit).mean(axis=0)
        if np.all(np.abs(found / want - 1) < 0.002):
            break
        centre = centre + np.log(want / found)
    return float(centre[0]), float(centre[1])


def draw(lengths: Lengths, count: int, rate: float, seed: int = 0, limit: int = CONTEXT) -> list[Drawn]:
    """``count`` requests, ``rate`` of them a second on average (0: all at once). Same seed, same requests.

    Raises ValueError when a number makes no sense.
    """
    if count < 1 or rate < 0 or limit < 2:
        raise ValueError(f"{count} requests at {rate} a second up to {limit} tokens cannot be drawn.")
    rng = np.random.default_rng(seed)
    centre = centred(lengths, limit)
    rows: list[np.ndarray] = []
    while sum(map(len, rows)) < count:
        rows.append(_cut(rng.standard_normal((count, 2)), centre, lengths, limit))
    values = np.concatenate(rows)[:count]
    times = np.cumsum(rng.exponential(1 / rate, count)) if rate else np.zeros(count)
    return [
        Drawn(float(t), int(p), int(n), int(n)) for t, (p, n) in zip(times, values, strict=True)
    ]
