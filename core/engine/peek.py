"""Peek: the attention of the last step, in one layer, as tensors: to be looked into, changing nothing.

The last step's forward pass is run once more with every slot -1, so that it writes nowhere: its keys and
values are in the pool already. Between steps the pool stays as the step left it (a finished sequence's blocks
are free, but nothing has been written over them yet), so queries and outputs come out as they did then.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch

from core.engine.batch import pack
from core.engine.plan import Scheduled, StepPlan
from core.engine.store import KVStore
from kernels import PagedBatch

if TYPE_CHECKING:
    from core.models.loaded import Geometry, LoadedModel


@dataclass(frozen=True, slots=True)
class Peek:
    """One layer of one step. Everything is a copy: the engine may go on meanwhile.

    rows              what was computed, in the order of the batch
    q, output         [T, Hq, D]
    k_cache, v_cache  [num_blocks, block_size, Hkv, D]
    options           scale, window, softcap, sinks: as ``paged_attention`` takes them
    """

    step: int
    layer: int
    rows: tuple[Scheduled, ...]
    batch: PagedBatch
    q: torch.Tensor
    output: torch.Tensor
    k_cache: torch.Tensor
    v_cache: torch.Tensor
    options: dict[str, Any]
    geometry: Geometry

    @property
    def decoding(self) -> tuple[int, ...]:
        """Indices of the rows that computed one token: those of the decode kernel."""
        return tuple(i for i, row in enumerate(self.rows) if len(row.token_ids) == 1)


def peek(model: LoadedModel, store: KVStore, plan: StepPlan, layer: int) -> Peek:
    """Look into the step of ``plan``, the last one that was run on this store.

    ValueError when the step computed nothing or the model has no such layer.
    """
    from core.engine.bridge import forward  # transformers: a recorded peek does without

    if not 0 <= layer < model.geometry.layers:
        raise ValueError(f"layer {layer}: the model has the layers 0 to {model.geometry.layers - 1}.")
    if not plan.scheduled:
        raise ValueError(f"step {plan.index} computed nothing; run another step, then look into it.")
    packed = pack(plan.scheduled, store.block_size, model.device)
    nowhere = torch.full_like(packed.paged.slot_mapping, -1)
    packed = replace(packed, paged=replace(packed.paged, slot_mapping=nowhere, plans={}))
    seen: dict[str, Any] = {}

    def tap(at: int, q: torch.Tensor, output: torch.Tensor, options: dict[str, Any]) -> None:
        if at == layer:
            seen.update(q=q.clone(), output=output.clone(), options=dict(options))

    forward(model, store, packed, tap)
    keys, values = store.keys[layer].clone(), store.values[layer].clone()
    return Peek(
        plan.index, layer, plan.scheduled, packed.paged, k_cache=keys, v_cache=values,
        geometry=model.geometry, **seen,
    )  # fmt: skip
