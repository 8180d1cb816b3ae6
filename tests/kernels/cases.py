"""Batches to try kernels on: a pool full of NaN in which only the tokens of the batch are written."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from kernels import PagedBatch


@dataclass
class Case:
    """A layer's view of a pool, queries and a batch; ``store`` is the whole pool."""

    store: Tensor
    k_cache: Tensor
    v_cache: Tensor
    q: Tensor
    batch: PagedBatch


def make_case(
    q_lens: list[int],
    kv_lens: list[int],
    *,
    block_size: int = 4,
    kv_heads: int = 1,
    group: int = 1,
    dim: int = 16,
    layers: int = 2,
    spare: int = 2,
    seed: int = 0,
    dtype: torch.dtype = torch.float32,
    device: str = "cpu",
) -> Case:
    """Random keys and values in randomly ordered blocks; every other slot of the pool is NaN."""
    rng = torch.Generator().manual_seed(seed)
    need = [-(-n // block_size) for n in kv_lens]
    num_blocks = sum(need) + spare
    order = torch.randperm(num_blocks, generator=rng).tolist()
    tables, used = [], 0
    for n in need:
        tables.append(order[used : used + n])
        used += n
    store = torch.full((num_blocks, layers, 2, block_size, kv_heads, dim), float("nan"))
    layer = layers - 1
    for table, length in zip(tables, kv_lens, strict=True):
        position = torch.arange(length)
        blocks = torch.tensor(table, dtype=torch.int64)[position // block_size] if length else position
        for side in (0, 1):
            new = torch.randn(length, kv_heads, dim, generator=rng)
            store[blocks, layer, side, position % block_size] = new
    store = store.to(device, dtype)
    q = torch.randn(sum(q_lens), kv_heads * group, dim, generator=rng).to(device, dtype)
    batch = PagedBatch.build([-1] * sum(q_lens), tables, q_lens, kv_lens, block_size, device)
    return Case(store, store[:, layer, 0], store[:, layer, 1], q, batch)


def relative_error(got: Tensor, expected: Tensor) -> float:
    """The largest difference, relative to the largest expected one; infinite if one is not finite."""
    if not bool(torch.isfinite(got).all()):
        return float("inf")
    if not expected.numel():
        return 0.0
    scale = expected.abs().max().clamp(min=1e-30)
    return float((got.double() - expected.double()).abs().max() / scale)
