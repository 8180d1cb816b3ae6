"""Nothing compiles in the middle of a lesson: run every kernel once, at the start, on a scratch pool.

Lengths, counts, block size, window and table width are run-time arguments of the kernels, so what is compiled
for a model's geometry serves all of its steps.
"""

from __future__ import annotations

import torch

from kernels.batch import PagedBatch
from kernels.dispatch import copy_blocks, paged_attention, store_kv


def compilations() -> int:
    """How many kernel variants this process has compiled (or found in Triton's cache) so far."""
    from kernels import copy, decode, prefill, store

    kernels = (
        store.store_kernel, decode.decode_kernel, decode.merge_kernel, prefill.prefill_kernel,
        copy.copy_kernel,
    )  # fmt: skip
    return sum(len(cache[0]) for k in kernels for cache in getattr(k, "device_caches", {}).values())


def warm_up(
    store: torch.Tensor, query_heads: int, *, softcap: float | None = None, sinks: bool = False
) -> int:
    """Compile what a model with this ``store`` [num_blocks, L, 2, block_size, Hkv, D] will launch.

    Returns how many variants were compiled: 0 on a CPU, and 0 when called again.
    """
    if not store.is_cuda:
        return 0
    before = compilations()
    _, layers, _, block_size, kv_heads, dim = store.shape
    scratch = store.new_zeros(8, *store.shape[1:])
    k_cache, v_cache = scratch[:, layers - 1, 0], scratch[:, layers - 1, 1]
    sink = store.new_zeros(query_heads) if sinks else None
    blocks = list(range(8))
    room = 8 * block_size
    # One token, two tokens (prefill), and one token with its keys split: every branch of the launchers.
    for q_len, kv_len, splits in ((1, 1, 1), (min(2, room), min(2, room), None), (1, room, 2)):
        batch = PagedBatch.build([-1] * q_len, [blocks], [q_len], [kv_len], block_size, store.device)
        batch.splits = splits
        q = store.new_zeros(q_len, query_heads, dim)
        new = store.new_zeros(q_len, kv_heads, dim)
        store_kv(new, new, k_cache, v_cache, batch)
        paged_attention(q, k_cache, v_cache, batch, scale=1.0, softcap=softcap, sinks=sink)
    copy_blocks(scratch, [(0, 1)])
    torch.cuda.synchronize(store.device)
    return compilations() - before
