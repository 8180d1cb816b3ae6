"""What a caller can get wrong, one sentence each. No Triton needed."""

from __future__ import annotations

from torch import Tensor

from kernels.batch import PagedBatch


def check_heads(q: Tensor, k_cache: Tensor, v_cache: Tensor) -> int:
    """Check queries [T, Hq, D] against caches [num_blocks, block_size, Hkv, D]. Returns Hq / Hkv."""
    if q.dim() != 3 or k_cache.dim() != 4 or k_cache.shape != v_cache.shape:
        raise ValueError(
            f"queries {tuple(q.shape)}, keys {tuple(k_cache.shape)}, values {tuple(v_cache.shape)}; "
            "they must be [T, Hq, D] and twice [num_blocks, block_size, Hkv, D]."
        )
    if q.shape[2] != k_cache.shape[3] or q.shape[1] % k_cache.shape[2]:
        raise ValueError(
            f"{q.shape[1]} query heads of {q.shape[2]} on {k_cache.shape[2]} KV heads of {k_cache.shape[3]}; "
            "the widths must be equal and the query heads a multiple."
        )
    if not q.dtype == k_cache.dtype == v_cache.dtype:
        raise ValueError(
            f"queries in {q.dtype}, cache in {k_cache.dtype} and {v_cache.dtype}; use one dtype."
        )
    return q.shape[1] // k_cache.shape[2]


def check_dense(what: str, *caches: Tensor) -> None:
    """The kernels read whole heads: the caches' last dimension must be dense."""
    for cache in caches:
        if cache.stride(-1) != 1:
            raise ValueError(
                f"{what}: the cache's last dimension has stride {cache.stride(-1)}; it must be dense."
            )


def check_call(
    q: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    batch: PagedBatch,
    window: int | None,
    softcap: float | None,
    sinks: Tensor | None,
) -> None:
    """Raise ValueError, one sentence, for what a caller can get wrong on any device."""
    check_heads(q, k_cache, v_cache)
    if q.shape[0] != batch.num_tokens or k_cache.shape[1] != batch.block_size:
        raise ValueError(
            f"{q.shape[0]} queries and blocks of {k_cache.shape[1]} for a batch of {batch.num_tokens} tokens "
            f"and blocks of {batch.block_size}; build the batch for this step."
        )
    if window is not None and window < 1:
        raise ValueError(f"the window is {window}; it must be at least 1, the query's own token.")
    if softcap is not None and softcap <= 0:
        raise ValueError(f"the softcap is {softcap}; it must be above 0.")
    if sinks is not None and sinks.shape != (q.shape[1],):
        raise ValueError(f"{tuple(sinks.shape)} sinks for {q.shape[1]} query heads; give one for each head.")
