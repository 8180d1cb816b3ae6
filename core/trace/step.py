"""Step and Trace: what a live engine records and every page draws (trace format, version 1)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from core.memory.events import Event
from core.memory.views import BlockView, RequestView, SequenceView, Usage

StepKind = Literal["prefill", "decode", "mixed", "idle"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """The step's logits against a dense pass without any cache.

    ``by_sequence``: the largest difference of each sequence that was compared; an addition to version 1.
    """

    max_abs_logit_diff: float
    same_argmax: bool
    by_sequence: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeMs:
    """Milliseconds spent in the phases of a step."""

    plan: float = 0.0
    forward: float = 0.0
    sample: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step: the events in the order in which they happened, and the complete picture after them.

    ``sequences`` are all sequences ever created, in order of creation. ``blocks`` are all blocks that are
    not free, in order of id. ``usage`` has one entry a strategy, "paged" first.
    """

    index: int
    kind: StepKind
    events: tuple[Event, ...]
    sequences: tuple[SequenceView, ...]
    blocks: tuple[BlockView, ...]
    usage: tuple[Usage, ...]
    proof: Proof | None = None
    time_ms: TimeMs = TimeMs()
    host_blocks: tuple[BlockView, ...] = ()  # swapped out; an addition to version 1, empty without swap


@dataclass(slots=True, kw_only=True)
class Trace:
    """A run from its first step. ``meta`` and ``requests`` are as the file format says; ``steps`` only grows.

    ``tokens`` maps the token ids that occur to what they stand for: bytes, whose concatenation over a
    sequence is its text in UTF-8 (one token can be half a character). It is an addition to version 1 (the
    key "tokens"), so that a trace can be read without the model; traces without it show ids.
    """

    meta: dict[str, Any]
    requests: list[RequestView] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    tokens: dict[int, bytes] = field(default_factory=dict)
