"""Recompute against cache: the same text twice, what each token costs, counted and measured.

Without a cache, step k computes the keys and values of all prompt + k tokens again to get one new token.
With it, only those of the newest. "Operations" are multiplications and additions, counted from the model's
own shapes:

    linear layers   2 x weights, for every token processed (the vocabulary's layer: once a step)
    attention       4 x query heads x head_dim x keys read, for every token processed, in every layer
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple

from core.config import EngineConfig
from core.engine.dense import dense_logits
from core.engine.engine import Engine

if TYPE_CHECKING:
    from core.models.loaded import LoadedModel

BLOCK_SIZE = 16


class TokenCost(NamedTuple):
    """What one new token cost: tokens processed for it, operations, milliseconds."""

    processed: int
    operations: float
    ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """A greedy generation: its tokens and what each cost."""

    token_ids: tuple[int, ...]
    costs: tuple[TokenCost, ...]

    @property
    def processed(self) -> int:
        """Tokens processed for the whole text."""
        return sum(cost.processed for cost in self.costs)

    @property
    def operations(self) -> float:
        """Operations for the whole text."""
        return sum(cost.operations for cost in self.costs)

    @property
    def ms(self) -> float:
        """Milliseconds for the whole text."""
        return sum(cost.ms for cost in self.costs)


def operations(model: LoadedModel, start: int, end: int) -> float:
    """Operations to process the tokens ``start`` ... ``end`` - 1 of a sequence and get the logits of the
    last.

    Reads the shapes of the model's linear layers (also transformers' Conv1D), the last of which makes the
    logits.
    """
    g = model.geometry
    head = model.model.get_output_embeddings().weight
    weights = 0
    for module in model.model.modules():
        weight = getattr(module, "weight", None)
        kind = type(module).__name__
        if weight is not None and weight.dim() == 2 and "Embedding" not in kind and weight is not head:
            weights += weight.numel()
    linear = 2.0 * (weights * (end - start) + head.numel())
    attention = 0.0
    for window in g.windows:
        keys = sum(min(p + 1, window or p + 1) for p in range(start, end))
        attention += 4.0 * g.query_heads * g.head_dim * keys
    return linear + attention


def recompute(model: LoadedModel, prompt: Sequence[int], new: int) -> Generation:
    """Greedy, no cache: the whole sequence goes through the model for every token."""
    ids, costs = list(prompt), []
    for _ in range(new):
        began = perf_counter()
        token = int(dense_logits(model, ids)[0].argmax())
        ms = (perf_counter() - began) * 1e3
        costs.append(TokenCost(len(ids), operations(model, 0, len(ids)), ms))
        ids.append(token)
    return Generation(token_ids=tuple(ids[len(prompt) :]), costs=tuple(costs))


def with_cache(model: LoadedModel, prompt: Sequence[int], new: int) -> Generation:
    """The same through the paged engine: the prompt once, then one token a step."""
    length = len(prompt) + new
    config = EngineConfig(
        block_size=BLOCK_SIZE, num_blocks=-(-length // BLOCK_SIZE), max_model_len=length, strategies=(),
        max_batch_tokens=max(2048, length),
    )  # fmt: skip
    engine = Engine(model, config)
    engine.submit(prompt, max_new_tokens=new, ignore_eos=True)
    costs, start = [], 0
    try:
        while engine.has_work:
            plan = engine.plan()
            engine.commit(plan, engine.run(plan))
            time, end = engine.trace.steps[-1].time_ms, plan.scheduled[0].kv_len
            ms = time.plan + time.forward + time.sample
            costs.append(TokenCost(end - start, operations(model, start, end), ms))
            start = end
        token_ids = engine.trace.steps[-1].sequences[0].token_ids[len(prompt) :]
    finally:
        engine.close()
    return Generation(token_ids=token_ids, costs=tuple(costs))
