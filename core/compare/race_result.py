"""What a race finds. Imports no torch: a recorded race is on the screen before anybody races."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field
from typing import NamedTuple


class Progress(NamedTuple):
    """How far a race is: contender ``number`` (from 0) of ``total``, tokens generated of those to be
    generated."""

    strategy: str
    number: int
    total: int
    tokens: int
    all_tokens: int
    running: int


@dataclass(slots=True, kw_only=True)
class RaceResult:
    """One contender. Seconds are measured; everything else depends on the workload and the strategy alone,
    but for ``mean``, which weighs each step with its seconds."""

    strategy: str
    seconds: float = 0.0
    steps: int = 0
    generated: int = 0  # tokens
    peak: int = 0  # requests at once
    mean: float = 0.0  # requests at once, by time
    first_token: list[float] = field(default_factory=list)  # seconds from arrival, by request
    waited: int = 0  # requests waiting, summed over steps
    copied_bytes: int = 0
    preempted: int = 0
    stopped: dict[str, str] = field(default_factory=dict)
    texts: dict[str, tuple[int, ...]] = field(default_factory=dict)  # token ids by sequence
    timeline: list[tuple[float, int]] = field(default_factory=list)  # (seconds, requests running)
    same_texts: bool | None = None  # as the first contender's
    complete: bool = False  # False when the race was stopped in the middle

    @property
    def tokens_per_second(self) -> float:
        """Generated tokens, prompts not counted."""
        return self.generated / self.seconds if self.seconds else 0.0

    @property
    def first_token_mean(self) -> float:
        """Mean seconds from arrival to first token."""
        return statistics.fmean(self.first_token) if self.first_token else 0.0


def compare_texts(results: list[RaceResult]) -> None:
    """Fill ``same_texts`` in: whether a complete contender wrote what the first one did."""
    first = results[0].texts if results else {}
    for result in results:
        result.same_texts = result.texts == first if result.complete else None
