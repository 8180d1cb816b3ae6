"""One signature for every device: CUDA tensors go to the Triton kernels, CPU tensors to plain torch.

Each operation is also a `torch.library` operator (``paged_kv::store``, ``paged_kv::attention``), so that
`torch.compile` and graph capture see one opaque step with a known output shape. On a CPU in plain eager mode
the operator is left out: there the plan in the PagedBatch is worth more than the wrapper.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from kernels.batch import PagedBatch
from kernels.checks import check_call
from kernels.cpu import attention_cpu, copy_blocks_cpu, store_kv_cpu
from kernels.pairs import check_pairs


@torch.library.custom_op("paged_kv::store", mutates_args=("k_cache", "v_cache"))
def store_op(k: Tensor, v: Tensor, k_cache: Tensor, v_cache: Tensor, slot_mapping: Tensor) -> None:
    """``store_kv`` as an operator."""
    if k.is_cuda:
        from kernels.store import store_kv_triton

        store_kv_triton(k, v, k_cache, v_cache, slot_mapping)
    else:
        store_kv_cpu(k, v, k_cache, v_cache, slot_mapping)


@torch.library.custom_op("paged_kv::attention", mutates_args=())
def attention_op(
    q: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    block_tables: Tensor,
    cu_q: Tensor,
    kv_lens: Tensor,
    tiles: Tensor,
    splits: int,
    scale: float,
    window: int | None,
    softcap: float | None,
    sinks: Tensor | None,
) -> Tensor:
    """``paged_attention`` as an operator. ``tiles``: prefill's programs; ``splits`` 0: no decode rows."""
    if not q.is_cuda:
        slots = torch.full((q.shape[0],), -1)
        batch = PagedBatch.from_tensors(slots, block_tables, cu_q, kv_lens, k_cache.shape[1])
        return attention_cpu(q, k_cache, v_cache, batch, scale, window, softcap, sinks)
    from kernels.decode import decode_triton
    from kernels.prefill import prefill_triton

    out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    common = (q, k_cache, v_cache, block_tables, cu_q, kv_lens, out)
    if splits:
        decode_triton(*common, splits, scale, window, softcap, sinks)
    prefill_triton(*common, tiles, scale, window, softcap, sinks)
    return out


@attention_op.register_fake
def _(q, k_cache, v_cache, block_tables, cu_q, kv_lens, tiles, splits, scale, window, softcap, sinks):
    return torch.empty(q.shape, dtype=q.dtype, device=q.device)


def store_kv(
    k: Tensor, v: Tensor, k_cache: Tensor, v_cache: Tensor, slot_mapping: Tensor | PagedBatch
) -> None:
    """Write new keys and values into their slots.

    k, v: [T, Hkv, D]; k_cache, v_cache: [num_blocks, block_size, Hkv, D], any strides;
    slot_mapping: [T] int64, -1 skips; or the PagedBatch that has it: a CPU then finds the slots once a step.
    """
    plans = None
    if isinstance(slot_mapping, PagedBatch):
        slot_mapping, plans = slot_mapping.slot_mapping, slot_mapping.plans
    if k.is_cuda or torch.compiler.is_compiling():
        store_op(k, v, k_cache, v_cache, slot_mapping)
    else:
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
    ``softcap`` caps the scores before masking; a sink is one more logit in a head's softmax denominator.
    ValueError, one sentence, where shapes, dtypes, devices or the block tables do not fit.
    """
    check_call(q, k_cache, v_cache, batch, window, softcap, sinks)
    if q.is_cuda or torch.compiler.is_compiling():
        tiles, splits = batch.launch(q.shape[1], k_cache.shape[2], q.shape[2], q.dtype)
        return attention_op(
            q, k_cache, v_cache, batch.block_tables, batch.cu_q, batch.kv_lens, tiles, splits, scale, window,
            softcap, sinks,
        )  # fmt: skip
    return attention_cpu(q, k_cache, v_cache, batch, scale, window, softcap, sinks)


def copy_blocks(store: Tensor, pairs: Sequence[tuple[int, int]]) -> None:
    """Copy blocks (source, target) of the whole store [num_blocks, L, 2, block_size, Hkv, D]: reads first."""
    pairs = check_pairs(pairs, store.shape[0])
    if not pairs:
        return
    if store.is_cuda:
        from kernels.copy import copy_blocks_triton

        copy_blocks_triton(store, pairs)
    else:
        copy_blocks_cpu(store, pairs)
