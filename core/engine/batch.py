"""A StepPlan as tensors: all sequences' new tokens one after the other, prefill and decode alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from core.engine.plan import Scheduled
from kernels import PagedBatch


@dataclass(frozen=True, slots=True)
class PackedBatch:
    """One forward pass. T: new tokens of all sequences; R: sequences whose last row is wanted.

    input_ids     [1, T] int64
    position_ids  [1, T] int64  each sequence's own positions: no padding, no shift
    last_rows     [R]    int64  index into T of the last token of each sequence in ``rows``
    rows          the R sequences that sample in this step, in the order of the logits
    """

    input_ids: torch.Tensor
    position_ids: torch.Tensor
    last_rows: torch.Tensor
    paged: PagedBatch
    rows: tuple[Scheduled, ...]


def pack(scheduled: Sequence[Scheduled], block_size: int, device: str | torch.device) -> PackedBatch:
    """Pack what has been scheduled (at least one token). Work: O(new tokens + table entries)."""
    ids: list[int] = []
    positions: list[int] = []
    slots: list[int] = []
    last_rows: list[int] = []
    for item in scheduled:
        ids.extend(item.token_ids)
        span = range(item.start, item.kv_len)
        positions.extend(span)
        table = item.block_table
        slots.extend(table[p // block_size] * block_size + p % block_size for p in span)
        if item.num_samples or item.num_candidates:
            last_rows.append(len(ids) - 1)
    paged = PagedBatch.build(
        slots,
        [item.block_table for item in scheduled],
        [len(item.token_ids) for item in scheduled],
        [item.kv_len for item in scheduled],
        block_size,
        device,
    )
    tensors = [torch.tensor(x, dtype=torch.int64, device=device) for x in (ids, positions, last_rows)]
    rows = tuple(item for item in scheduled if item.num_samples or item.num_candidates)
    return PackedBatch(tensors[0][None], tensors[1][None], tensors[2], paged, rows)
