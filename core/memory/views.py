"""Frozen pictures of who holds what after a step: no tensors, tuples only, shared where unchanged."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

SequenceState = Literal["waiting", "running", "preempted", "swapped", "finished"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestView:
    """One request as it was handed in; its sequences are named ``<id>.0``, ``<id>.1``, ..."""

    id: str
    prompt_text: str
    prompt_token_ids: tuple[int, ...]
    mode: Literal["greedy", "sample", "beam"] = "greedy"
    n: int = 1
    max_new_tokens: int = 16
    arrival_step: int = 0
    sampling: dict[str, Any] = field(default_factory=dict)

    @property
    def max_written(self) -> int:
        """The most slots that one of its sequences can fill: the last sampled token is never written."""
        return len(self.prompt_token_ids) + self.max_new_tokens - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SequenceView:
    """One sequence after a step. ``token_ids`` (prompt and all sampled) and ``written`` (tokens whose keys
    and values are in the store) differ by one while a sequence decodes."""

    id: str
    request: str
    parent: str | None
    state: SequenceState
    token_ids: tuple[int, ...]
    written: int
    block_table: tuple[int, ...]
    logprob: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockView:
    """One physical block that is not free. ``token_ids`` are those of its ``filled`` slots."""

    id: int
    state: Literal["used", "cached"]
    ref: int
    filled: int
    token_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Where every slot stands under one strategy; in token slots, but for the last two.

    live + reserved + internal + external + cached + free = capacity. A slot that several sequences share
    counts once. Definitions: PagedAttention paper (SOSP 2023), section 3.1, as known at this step.
    """

    strategy: str
    capacity: int
    live: int = 0  # holds a written token
    reserved: int = 0  # held, and its own sequence may still use it
    internal: int = 0  # held, and its own sequence can never use it
    external: int = 0  # free, but in no run long enough for the request at the head of the queue
    cached: int = 0  # holds tokens of nobody, reusable at once
    free: int = 0
    copied: int = 0  # tokens copied since the first step
    running: int = 0  # sequences
    waiting: int = 0  # requests

    def __post_init__(self) -> None:
        parts = self.live + self.reserved + self.internal + self.external + self.cached + self.free
        if parts != self.capacity:
            raise ValueError(f"{self.strategy}: parts sum to {parts} slots, capacity is {self.capacity}")
