"""A request at work: its sequences, in which phase they are, and what the next step would compute."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from core.engine.beams import BeamSearch
from core.memory.prefix import Hit
from core.memory.sequence import Sequence, common_prefix
from core.memory.views import RequestView

Phase = Literal["prefill", "decode", "rebuild"]
Chunk = tuple[Sequence, int]  # the sequence computes its next ``int`` tokens


@dataclass(slots=True, eq=False)
class Group:
    """All sequences of one request: admitted, scheduled, preempted and resumed as one.

    ``phase``: "prefill" until the prompt is computed; "rebuild" after a preemption by recompute until every
    sequence has caught up; "decode" otherwise. ``restore[id]`` = (partner, blocks): the sequence waits until
    ``partner`` has written so many full blocks, which it then shares. ``arrival`` orders groups.
    """

    request: RequestView
    arrival: int
    stop_token_ids: frozenset[int]
    beams: BeamSearch | None = None
    live: list[Sequence] = field(default_factory=list)
    phase: Phase = "prefill"
    how: str | None = None  # "recompute" or "swap" while preempted
    born: int = 0  # sequences created so far
    restore: dict[str, tuple[Sequence, int]] = field(default_factory=dict)
    hit: Hit | None = None  # what the prompt found in the prefix cache when it was admitted

    @property
    def over(self) -> bool:
        """Whether it has begun and no sequence lives."""
        return self.born > 0 and not self.live

    @property
    def width(self) -> int:
        """Sequences that run at once at the most, from now on: beams may become more again."""
        return self.request.n if self.phase == "prefill" or self.beams else len(self.live)

    def new_sequence(self, parent: Sequence | None) -> Sequence:
        """A new living sequence named ``<request>.<number>`` with the parent's tokens."""
        request = self.request
        tokens = parent.token_ids if parent else request.prompt_token_ids
        child = Sequence(
            id=f"{request.id}.{self.born}",
            request=request.id,
            parent=parent.id if parent else None,
            limit=request.max_written,
            token_ids=list(tokens),
            logprob=parent.logprob if parent else None if request.mode == "greedy" else 0.0,
        )
        if parent is not None:
            child.state = parent.state
        self.born += 1
        self.live.append(child)
        return child

    def chunks(self, budget: int) -> tuple[list[Chunk], bool]:
        """What to compute with at most ``budget`` tokens, and whether that completes the step.

        Complete: every living sequence computes all its pending tokens, so that each gets a next token. Else
        each of several sequences stops one token short, so that none runs ahead of the others.
        """
        live = self.live
        if not self.restore:
            chunks = [(seq, len(seq.token_ids) - seq.written) for seq in live]
            if sum(count for _, count in chunks) <= budget:
                return chunks, True
        spare, chunks = 0 if len(live) == 1 else 1, []
        for seq in live:
            count = min(seq.pending - spare, budget)
            if count > 0 and seq.id not in self.restore:
                chunks.append((seq, count))
                budget -= count
        return chunks, False

    def plan_restore(self, block_size: int) -> None:
        """Before everything is computed again: who shares how many full blocks with whom.

        Each sequence takes the earlier one of its group with which it has most full blocks in common; one
        token at least is left to compute.
        """
        self.restore = {}
        for i, seq in enumerate(self.live):
            cap = (len(seq.token_ids) - 1) // block_size
            best, partner = 0, None
            for other in self.live[:i]:
                blocks = min(common_prefix(seq.token_ids, other.token_ids) // block_size, cap)
                if blocks > best:
                    best, partner = blocks, other
            if partner is not None:
                self.restore[seq.id] = (partner, best)
