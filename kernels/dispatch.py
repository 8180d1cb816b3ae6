"""One signature for every device: CUDA tensors go to the Triton kernels, CPU tensors to plain torch."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from kernels.batch import PagedBatch
from kernels.copy import check_pairs, copy_blocks_torch
from kernels.cpu import attention_cpu, store_kv_cpu


def store_kv(
    k: Tensor, v: Tensor, k_cache: Tensor, v_cache: Tensor, slot_mapping: Tensor | PagedBatch
) -> None:
    """Write new keys and values into their slots.

    k, v: [T, Hkv, D]; k_cache, v_cache: [num_blocks, block_size, Hkv, D], any strides;
    slot_mapping: [T] int64, -1 skips; or the PagedBatch that has it: its index is then worked out once a step.
    """
    plans = None
    if isinstance(slot_mapping, PagedBatch):
        slot_mapping, plans = slot_mapping.slot_mapping, slot_mapping.plans
    store_kv_cpu(k, v, k_cache, v_cache, slot_mapping, plans)


def paged_attention(
    q: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    batch: PagedBatch,
    *,
    scale: float,
    window: int | None = None,
    softcap: float | None = None,
    sinks: Tensor | None = None,
) -> Tensor:
    """Causal attention of packed queries over the blocks of their sequences.

    q: [T, Hq, D] -> [T, Hq, D]; k_cache, v_cache: [num_blocks, block_size, Hkv, D]; sinks: [Hq].
    Prefill, chunked prefill and decode rows may be mixed. ``window`` W: keys with q_pos - k_pos < W are seen.
    """
    return attention_cpu(q, k_cache, v_cache, batch, scale, window, softcap, sinks)


def copy_blocks(store: Tensor, pairs: Sequence[tuple[int, int]]) -> None:
    """Copy blocks (source, target) of the whole store [num_blocks, L, 2, block_size, Hkv, D]: reads first."""
    pairs = check_pairs(pairs, store.shape[0])
    if pairs:
        copy_blocks_torch(store, pairs)
