"""What passes between the phases of a step: StepPlan (plan -> run) and Outcome (run -> commit). No torch.

plan    the scheduler picks sequences; the allocator says what it takes, shares, copies, evicts, swaps
run     swaps and copies first (all reads before all writes), then one forward pass over a packed batch
commit  sample, append, fork or finish, release, register blocks that have become full
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from core.memory.events import Event
from core.trace.step import StepKind


class Scheduled(NamedTuple):
    """One sequence's share of the packed batch: it computes ``token_ids`` at ``start`` and onwards.

    ``block_table`` already covers these positions. ``kv_len`` = start + len(token_ids): what attention
    reads. ``num_samples`` tokens are drawn from the logits of the last row (0: an unfinished prefill
    chunk; n: the prompt of a request with n answers has just been completed). ``num_candidates`` > 0 asks
    for that many best next tokens with their log-probabilities instead (beam search).
    A named tuple, because a step makes hundreds: it takes a quarter of the time of a frozen dataclass.
    """

    sequence: str
    request: str
    start: int
    token_ids: tuple[int, ...]
    block_table: tuple[int, ...]
    num_samples: int = 1
    num_candidates: int = 0

    @property
    def kv_len(self) -> int:
        return self.start + len(self.token_ids)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepPlan:
    """Everything that a step is going to do. ``events`` are those known before the forward pass, in order."""

    index: int
    kind: StepKind
    events: tuple[Event, ...]
    scheduled: tuple[Scheduled, ...]
    swap_out: tuple[tuple[int, int], ...] = ()  # (block, host block)
    swap_in: tuple[tuple[int, int], ...] = ()  # (host block, block)
    copies: tuple[tuple[int, int], ...] = ()  # (source block, target block)

    @property
    def num_tokens(self) -> int:
        """Tokens computed in this step."""
        return sum(len(s.token_ids) for s in self.scheduled)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A possible next token and the logarithm of its probability."""

    token_id: int
    logprob: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What the forward pass and the sampler gave, by sequence id.

    ``samples[id]``: exactly ``num_samples`` drawn tokens, in the order of the request's answers.
    ``candidates[id]``: the ``num_candidates`` best tokens, best first (ties: lower token id first).
    """

    samples: dict[str, tuple[Candidate, ...]] = field(default_factory=dict)
    candidates: dict[str, tuple[Candidate, ...]] = field(default_factory=dict)
