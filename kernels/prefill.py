"""prefill: sequences that compute several tokens at once; whole prompts, chunks and mixtures of them.

    tile list [tiles, 2]   (sequence, first new token) of each program
    program (tile, h)      BLOCK_M // G query tokens x G query heads of KV head h, a row each

         rows     token 0 head 0, token 0 head 1, ..., token 1 head 0, ...          BLOCK_M rows
         keys     from the oldest that the first token sees to the newest that the last one sees, TILE each
         row      stands at position kv_len - q_len + token, and sees keys up to its own position (causal),
                  all earlier blocks of a chunked prompt included, within the window

Sequences with one new token are left to the decode kernel, which splits their keys.
Memory traffic: a sequence's keys and values once for each BLOCK_Q tokens, mostly from the cache; arithmetic
4 * q_len * kv_len * Hq * D operations, halved by causality.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from kernels.checks import check_dense, check_heads
from kernels.decode import NO_WINDOW
from kernels.lang import check_tensors, jit, pow2, tl
from kernels.reference import paged_attention_reference as prefill_reference

__all__ = ["prefill_config", "prefill_kernel", "prefill_reference", "prefill_triton", "tile_list"]


@jit("scale", "softcap", "block_size", "table_stride", "window", "q_token", "q_head")
def prefill_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, tiles_ptr, tables_ptr, cu_q_ptr, lens_ptr, sinks_ptr,
    scale, softcap, block_size, table_stride, window, q_token, q_head,
    k_block, k_slot, k_head, v_block, v_slot, v_head,
    GROUP: tl.constexpr, DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_D: tl.constexpr, TILE: tl.constexpr,
    CAP: tl.constexpr, SINKS: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """One program: some tokens of one sequence, one KV head. Grid: (tiles, Hkv)."""
    tile, kv_head = tl.program_id(0), tl.program_id(1)
    heads = tl.num_programs(1) * GROUP
    seq = tl.load(tiles_ptr + 2 * tile)
    from_token = tl.load(tiles_ptr + 2 * tile + 1)
    start = tl.load(cu_q_ptr + seq)
    q_len = tl.load(cu_q_ptr + seq + 1) - start
    kv_len = tl.load(lens_ptr + seq)

    r, d, n = tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_D), tl.arange(0, TILE)
    token = from_token + r // GROUP  # counted within the sequence
    head = kv_head * GROUP + r % GROUP
    row_ok = (r < BLOCK_M // GROUP * GROUP) & (token < q_len)
    position = kv_len - q_len + token
    tile_ok = row_ok[:, None] & (d < DIM)[None, :]
    row = (start + token).to(tl.int64)
    q = tl.load(q_ptr + (row * q_token + head * q_head)[:, None] + d[None, :], mask=tile_ok, other=0.0)

    m = tl.full([BLOCK_M], float("-inf"), tl.float32)
    sum_p = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, BLOCK_D], tl.float32)
    first = tl.maximum(kv_len - q_len + from_token - window + 1, 0)
    stop = tl.minimum(kv_len - q_len + from_token + BLOCK_M // GROUP, kv_len)
    table = tables_ptr + seq.to(tl.int64) * table_stride

    for base in range(first // TILE * TILE, stop, TILE):
        pos = base + n
        real = (pos >= first) & (pos < stop)
        block = tl.load(table + pos // block_size, mask=real, other=0).to(tl.int64)
        slot = (pos % block_size).to(tl.int64)
        load = real[:, None] & (d < DIM)[None, :]
        k = tl.load(k_ptr + (block * k_block + slot * k_slot + kv_head * k_head)[:, None] + d[None, :],
                    mask=load, other=0.0)  # fmt: skip
        s = tl.dot(q, tl.trans(k), input_precision=PRECISION) * scale  # [BLOCK_M, TILE]
        if CAP:
            s = softcap * (2 * tl.sigmoid(2 * s / softcap) - 1)  # tanh
        ahead = position[:, None] - pos[None, :]
        s = tl.where((ahead >= 0) & (ahead < window) & real[None, :], s, float("-inf"))
        m_new = tl.maximum(m, tl.max(s, 1))
        # A row may have seen no key yet: its maximum is still -inf, and -inf minus -inf is NaN.
        shift = tl.where(m_new == float("-inf"), 0.0, m_new)
        p = tl.exp(s - shift[:, None])
        shrink = tl.exp(m - shift)
        v = tl.load(v_ptr + (block * v_block + slot * v_slot + kv_head * v_head)[:, None] + d[None, :],
                    mask=load, other=0.0)  # fmt: skip
        sum_p = sum_p * shrink + tl.sum(p, 1)
        acc = acc * shrink[:, None] + tl.dot(p.to(v.dtype), v, input_precision=PRECISION)
        m = m_new

    if SINKS:
        sink = tl.load(sinks_ptr + head, mask=row_ok, other=0.0).to(tl.float32)
        m_new = tl.maximum(m, sink)
        shrink = tl.exp(m - m_new)
        sum_p = sum_p * shrink + tl.exp(sink - m_new)
        acc = acc * shrink[:, None]
    out = acc / tl.where(sum_p > 0, sum_p, 1.0)[:, None]
    where = out_ptr + (row * heads + head)[:, None] * DIM + d[None, :]
    tl.store(where, out.to(out_ptr.dtype.element_ty), mask=tile_ok)


def prefill_config(group: int, dim: int, dtype: torch.dtype) -> dict[str, object]:
    """Compile-time sizes of ``prefill_kernel``, and its launch options."""
    wide, block_d = dtype == torch.float32, pow2(dim, 16)
    # Dividing rows by a group of 3, 5, 6, 7 … takes registers: wide heads then spill with tiles of 64 keys.
    # In fp32 so does a group of 16 and more with two tokens a program.
    rows = (16 if block_d > 64 and group >= 16 else 32) if wide or block_d > 128 else 64
    uneven = block_d > 64 and group & (group - 1) != 0
    return {
        "GROUP": group,
        "DIM": dim,
        "BLOCK_M": pow2(group, rows),
        "BLOCK_D": block_d,
        "TILE": (16 if block_d > 64 else 32) if wide else (32 if uneven or block_d > 128 else 64),
        "PRECISION": "ieee" if wide else "tf32",  # only fp32 has a choice: never TF32
        "num_warps": 8 if wide and block_d > 64 else 4,
        "num_stages": 1 if wide else 2,
    }


def tile_list(q_lens: Sequence[int], kv_lens: Sequence[int], block_q: int) -> list[tuple[int, int]]:
    """(sequence, first token) of every program: ``block_q`` tokens of one sequence.

    Padding rows and single tokens belong to the decode kernel. Longest contexts first: their programs run
    longest.
    """
    order = sorted(range(len(q_lens)), key=lambda s: -kv_lens[s])
    return [(s, t) for s in order if q_lens[s] > 1 for t in range(0, q_lens[s], block_q)]


def prefill_triton(
    q: Tensor, k_cache: Tensor, v_cache: Tensor, block_tables: Tensor, cu_q: Tensor, kv_lens: Tensor, out:
    Tensor, tiles: Tensor, scale: float, window: int | None, softcap: float | None, sinks: Tensor | None,
) -> None:  # fmt: skip
    """Write the rows of ``out`` [T, Hq, D] that belong to the sequences in ``tiles`` [tiles, 2] int32."""
    check_tensors("prefill", q, k_cache, v_cache, block_tables, cu_q, kv_lens, out, tiles)
    group = check_heads(q, k_cache, v_cache)
    check_dense("prefill", k_cache, v_cache)
    q = q if q.stride(2) == 1 else q.contiguous()
    if not tiles.shape[0]:
        return
    prefill_kernel[(tiles.shape[0], k_cache.shape[2])](
        q, k_cache, v_cache, out, tiles, block_tables, cu_q, kv_lens, out if sinks is None else sinks,
        scale, softcap or 1.0, k_cache.shape[1], block_tables.stride(0), window or NO_WINDOW, *q.stride()[:2],
        *k_cache.stride()[:3], *v_cache.stride()[:3],
        CAP=softcap is not None, SINKS=sinks is not None, **prefill_config(group, q.shape[2], q.dtype),
    )  # fmt: skip
