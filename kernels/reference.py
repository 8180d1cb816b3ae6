"""Attention over blocks, as the formula has it: the specification that every kernel is held to.

    out[t, h] = sum_j p_j V[j],   p = softmax over the visible keys j of  cap(scale * q . K[j])

A key j is visible to the query at position i when j <= i and, with a window W, i - j < W. ``cap(x)`` is
softcap * tanh(x / softcap), before masking. A sink is one more logit in the denominator
that brings no value. Row t of sequence s stands at position kv_len - q_len + (t - cu_q[s]): with a cache,
causality hangs at the lower right corner. Computed in ``compute``, float64 by default; slow and plain.
"""

from __future__ import annotations

import torch
from torch import Tensor

from kernels.batch import PagedBatch


def paged_attention_reference(
    q: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    batch: PagedBatch,
    *,
    scale: float,
    window: int | None = None,
    softcap: float | None = None,
    sinks: Tensor | None = None,
    compute: torch.dtype = torch.float64,
) -> Tensor:
    """q: [T, Hq, D]; k_cache, v_cache: [num_blocks, block_size, Hkv, D] -> [T, Hq, D] in ``compute``."""
    group = q.shape[1] // k_cache.shape[2]
    out = torch.zeros(q.shape, dtype=compute, device=q.device)
    start = 0
    for s, (q_len, n) in enumerate(zip(batch.q_lens, batch.lens, strict=True)):
        if q_len and n:
            position = torch.arange(n, device=q.device)
            blocks = batch.block_tables[s].long()[position // batch.block_size]
            k = (
                k_cache[blocks, position % batch.block_size].to(compute).repeat_interleave(group, 1)
            )  # [n, Hq, D]
            v = v_cache[blocks, position % batch.block_size].to(compute).repeat_interleave(group, 1)
            scores = torch.einsum("qhd,nhd->hqn", q[start : start + q_len].to(compute), k) * scale
            if softcap is not None:
                scores = softcap * torch.tanh(scores / softcap)
            query = position[n - q_len :, None]
            visible = position <= query
            if window is not None:
                visible &= query - position < window
            scores = scores.masked_fill(~visible, float("-inf"))
            if sinks is not None:
                scores = torch.cat([scores, sinks.to(compute)[:, None, None].expand(-1, q_len, 1)], -1)
            out[start : start + q_len] = torch.einsum("hqn,nhd->qhd", scores.softmax(-1)[..., :n], v)
        start += q_len
    return out
