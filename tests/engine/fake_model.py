"""A model without tensors whose next token depends on what it reads through the block tables, and on nothing
else. Its store begins empty, so that a slot that was never written, or holds another position, is noticed."""

from __future__ import annotations

from core.config import EngineConfig
from core.engine.plan import Candidate, Outcome, Scheduled, StepPlan

Slot = tuple[int, int]  # (position, token) whose keys and values stand in a slot


class WrongRead(AssertionError):
    """Attention would have read something else than the sequence's own past."""


class FakeModel:
    """Carries out plans on a store of slots. ``vocab`` tokens; deterministic in (seed, text, answer)."""

    def __init__(self, config: EngineConfig, *, vocab: int = 6, seed: int = 0) -> None:
        self.size, self.vocab, self.seed = config.block_size, vocab, seed
        self.store: list[list[Slot | None]] = [[None] * self.size for _ in range(config.num_blocks)]
        self.host: list[list[Slot | None]] = [[None] * self.size for _ in range(config.host_blocks)]
        self.tokens_computed = 0
        self.copies: list[tuple[int, int]] = []

    def run(self, plan: StepPlan, *, check_reads: bool = True) -> Outcome:
        """Moves, then writes, then reads, as the engine does."""
        self._move(plan)
        for row in plan.scheduled:
            for i, token in enumerate(row.token_ids):
                logical, offset = divmod(row.start + i, self.size)
                self.store[row.block_table[logical]][offset] = (row.start + i, token)
        self.tokens_computed += plan.num_tokens
        samples, candidates = {}, {}
        for row in plan.scheduled:
            text = self.read(row, check_reads)
            number = int(row.sequence.rsplit(".", 1)[1])
            if row.num_samples:
                samples[row.sequence] = tuple(self.draw(text, number + i) for i in range(row.num_samples))
            if row.num_candidates:
                candidates[row.sequence] = self.best(text, row.num_candidates)
        return Outcome(samples=samples, candidates=candidates)

    def _move(self, plan: StepPlan) -> None:
        for block, home in plan.swap_out:
            self.host[home] = list(self.store[block])
        for home, block in plan.swap_in:
            self.store[block] = list(self.host[home])
        sources = [list(self.store[source]) for source, _ in plan.copies]  # all reads before all writes
        for slots, (_, target) in zip(sources, plan.copies, strict=True):
            self.store[target] = slots
        self.copies += plan.copies

    def read(self, row: Scheduled, check: bool = True) -> tuple[int, ...]:
        """The text that the sequence's block table spells, every position at its place."""
        text = []
        for position in range(row.kv_len):
            logical, offset = divmod(position, self.size)
            slot = self.store[row.block_table[logical]][offset]
            if slot is None or slot[0] != position:
                raise WrongRead(f"{row.sequence} reads {slot} at position {position}")
            text.append(slot[1])
        if check and tuple(text[row.start :]) != row.token_ids:
            raise WrongRead(f"{row.sequence} wrote {row.token_ids} and reads {text[row.start :]}")
        return tuple(text)

    def draw(self, text: tuple[int, ...], answer: int) -> Candidate:
        """The sampled token of answer number ``answer``, a function of its text alone."""
        value = hash((self.seed, answer, text))
        return Candidate(value % self.vocab, -((value >> 8) % 1000 + 1) / 250.0)

    def best(self, text: tuple[int, ...], count: int) -> tuple[Candidate, ...]:
        """The ``count`` best next tokens (all, if the vocabulary is smaller), best first."""
        scored = [(-((hash((self.seed, text, t)) >> 8) % 1000 + 1) / 250.0, t) for t in range(self.vocab)]
        scored.sort(key=lambda pair: (-pair[0], pair[1]))
        return tuple(Candidate(token, logprob) for logprob, token in scored[:count])
