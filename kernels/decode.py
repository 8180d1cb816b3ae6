"""decode: one query token a sequence against its blocks; the keys split among programs, then merged.

    q         [T, Hq, D]     row cu_q[s] is sequence s's token; G = Hq / Hkv query heads share a KV head
    k_cache   [num_blocks, block_size, Hkv, D]     position p of s: block tables[s, p // bs], slot p % bs

    program (s, h, i):   keys of sequence s, KV head h, i-th split
         positions   0 ........ | ........ | ....kv_len
         splits          0      |    1     |    2            each a whole number of tiles of TILE_N keys
         tile        [TILE_N, D] of K and V, gathered through the block table; TILE_N is not the block size
         all G query heads at once: [max(16, G), D] x [D, TILE_N], so K and V are read once, not G times

    online softmax over the tiles of a split: running maximum m, sum l, accumulator acc (fp32)
    merge:  m = max m_i,  w_i = exp(m_i - m),  out = sum w_i acc_i / (sum w_i l_i [+ exp(sink - m)])

A split with no keys has m = -inf, l = 0 and weighs nothing. Both K and V are loaded masked: slots beyond the
context may hold NaN, and 0 * NaN is NaN. Memory traffic: 2 * kv_len * Hkv * D * element_size bytes a
sequence, once; the splits' partial results add 2 * 4 * splits * Hq * (D + 2) bytes a sequence.
"""

from __future__ import annotations

import torch
from torch import Tensor

from kernels.checks import check_dense, check_heads
from kernels.lang import check_tensors, jit, pow2, tl
from kernels.reference import paged_attention_reference as decode_reference

__all__ = [
    "choose_splits",
    "decode_config",
    "decode_kernel",
    "decode_reference",
    "decode_triton",
    "merge_kernel",
]

TILE_N = 64  # keys a tile
WAVES = 4  # programs wanted for each multiprocessor
MAX_SPLITS = 64
NO_WINDOW = 1 << 30


@jit("scale", "softcap", "block_size", "table_stride", "window", "q_token", "q_head")
def decode_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, part_ptr, m_ptr, sums_ptr, tables_ptr, cu_q_ptr, lens_ptr, sinks_ptr,
    scale, softcap, block_size, table_stride, window, q_token, q_head,
    k_block, k_slot, k_head, v_block, v_slot, v_head,
    GROUP: tl.constexpr, DIM: tl.constexpr, BLOCK_G: tl.constexpr, BLOCK_D: tl.constexpr, TILE: tl.constexpr,
    SPLIT: tl.constexpr, CAP: tl.constexpr, SINKS: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """One program: one sequence, one KV head, one split. Grid: (S, Hkv, splits)."""
    seq, kv_head, split = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    heads, splits = tl.num_programs(1) * GROUP, tl.num_programs(2)
    token = tl.load(cu_q_ptr + seq).to(tl.int64)
    if tl.load(cu_q_ptr + seq + 1) - token == 1:  # sequences with more new tokens are the prefill kernel's
        kv_len = tl.load(lens_ptr + seq)
        first = tl.maximum(kv_len - window, 0)  # the oldest key in sight: q_pos - k_pos < window
        lead = first // TILE * TILE
        per_split = tl.cdiv(tl.cdiv(kv_len - lead, TILE), splits) * TILE
        start = lead + split * per_split
        stop = tl.minimum(start + per_split, kv_len)

        g, d, n = tl.arange(0, BLOCK_G), tl.arange(0, BLOCK_D), tl.arange(0, TILE)
        head = kv_head * GROUP + g
        row_ok = g < GROUP
        tile_ok = row_ok[:, None] & (d < DIM)[None, :]
        q = tl.load(q_ptr + token * q_token + head[:, None] * q_head + d[None, :], mask=tile_ok, other=0.0)
        m = tl.full([BLOCK_G], float("-inf"), tl.float32)
        sum_p = tl.zeros([BLOCK_G], tl.float32)
        acc = tl.zeros([BLOCK_G, BLOCK_D], tl.float32)
        table = tables_ptr + seq.to(tl.int64) * table_stride

        for base in range(start, stop, TILE):
            pos = base + n
            seen = (pos >= first) & (pos < stop)
            block = tl.load(table + pos // block_size, mask=seen, other=0).to(tl.int64)
            slot = (pos % block_size).to(tl.int64)
            load = seen[:, None] & (d < DIM)[None, :]
            k = tl.load(k_ptr + (block * k_block + slot * k_slot + kv_head * k_head)[:, None] + d[None, :],
                        mask=load, other=0.0)  # fmt: skip
            s = tl.dot(q, tl.trans(k), input_precision=PRECISION) * scale  # [BLOCK_G, TILE]
            if CAP:
                s = softcap * (2 * tl.sigmoid(2 * s / softcap) - 1)  # tanh
            s = tl.where(seen[None, :], s, float("-inf"))
            # A tile of a split has at least one key in sight, so the new maximum is finite.
            m_new = tl.maximum(m, tl.max(s, 1))
            p = tl.exp(s - m_new[:, None])
            shrink = tl.exp(m - m_new)
            v = tl.load(v_ptr + (block * v_block + slot * v_slot + kv_head * v_head)[:, None] + d[None, :],
                        mask=load, other=0.0)  # fmt: skip
            sum_p = sum_p * shrink + tl.sum(p, 1)
            acc = acc * shrink[:, None] + tl.dot(p.to(v.dtype), v, input_precision=PRECISION)
            m = m_new

        if SPLIT:
            part = (seq.to(tl.int64) * heads + head) * splits + split
            tl.store(m_ptr + part, m, mask=row_ok)
            tl.store(sums_ptr + part, sum_p, mask=row_ok)
            tl.store(part_ptr + part[:, None] * DIM + d[None, :], acc, mask=tile_ok)
        else:
            if SINKS:
                sink = tl.load(sinks_ptr + head, mask=row_ok, other=0.0).to(tl.float32)
                m_new = tl.maximum(m, sink)
                shrink = tl.exp(m - m_new)
                sum_p = sum_p * shrink + tl.exp(sink - m_new)
                acc = acc * shrink[:, None]
            out = acc / tl.where(sum_p > 0, sum_p, 1.0)[:, None]  # a padding row reads nothing: zero
            where = out_ptr + (token * heads + head[:, None]) * DIM + d[None, :]
            tl.store(where, out.to(out_ptr.dtype.element_ty), mask=tile_ok)


@jit("splits")
def merge_kernel(
    part_ptr, m_ptr, sums_ptr, out_ptr, cu_q_ptr, sinks_ptr, splits,
    DIM: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_S: tl.constexpr, SINKS: tl.constexpr,
):  # fmt: skip
    """One program: one sequence, one query head; merges its splits. Grid: (S, Hq)."""
    seq, head = tl.program_id(0), tl.program_id(1)
    heads = tl.num_programs(1)
    token = tl.load(cu_q_ptr + seq).to(tl.int64)
    if tl.load(cu_q_ptr + seq + 1) - token == 1:
        i, d = tl.arange(0, BLOCK_S), tl.arange(0, BLOCK_D)
        rows = (seq.to(tl.int64) * heads + head) * splits + i
        m_i = tl.load(m_ptr + rows, mask=i < splits, other=float("-inf"))
        l_i = tl.load(sums_ptr + rows, mask=i < splits, other=0.0)
        m = tl.max(m_i, 0)
        if SINKS:
            sink = tl.load(sinks_ptr + head).to(tl.float32)
            m = tl.maximum(m, sink)
        # -inf minus -inf is NaN: an empty split, or a row that reads nothing at all, weighs 0.
        w = tl.where(m_i == float("-inf"), 0.0, tl.exp(m_i - tl.where(m == float("-inf"), 0.0, m)))
        total = tl.sum(w * l_i, 0)
        if SINKS:
            total += tl.exp(sink - m)
        acc = tl.zeros([BLOCK_D], tl.float32)
        for base in range(0, splits, 16):  # sixteen splits at a time: few enough registers for any width
            j = base + tl.arange(0, 16)
            row = (seq.to(tl.int64) * heads + head) * splits + j
            m_j = tl.load(m_ptr + row, mask=j < splits, other=float("-inf"))
            w_j = tl.where(m_j == float("-inf"), 0.0, tl.exp(m_j - tl.where(m == float("-inf"), 0.0, m)))
            ok = (j < splits)[:, None] & (d < DIM)[None, :]
            part = tl.load(part_ptr + row[:, None] * DIM + d[None, :], mask=ok, other=0.0)
            acc += tl.sum(part * w_j[:, None], 0)
        out = acc / tl.where(total > 0, total, 1.0)
        tl.store(out_ptr + (token * heads + head) * DIM + d, out.to(out_ptr.dtype.element_ty), mask=d < DIM)


def decode_config(group: int, dim: int, dtype: torch.dtype) -> dict[str, object]:
    """Compile-time sizes of ``decode_kernel``, and its launch options."""
    wide = dtype == torch.float32
    block_d = pow2(dim, 16)
    return {
        "GROUP": group,
        "DIM": dim,
        "BLOCK_G": pow2(group, 16),  # tl.dot wants at least 16 rows
        "BLOCK_D": block_d,
        "TILE": (16 if block_d > 64 else 32) if wide else (TILE_N // 2 if block_d > 128 else TILE_N),
        "PRECISION": "ieee" if wide else "tf32",  # only fp32 has a choice: never TF32
        # Plain fp32 products and wide heads need more threads to hold their operands without spilling.
        "num_warps": 8 if block_d > (64 if wide else 128) else 4,
        "num_stages": 2 if wide else 3,
    }


def choose_splits(seqs: int, kv_heads: int, max_kv: int, multiprocessors: int, tile: int = TILE_N) -> int:
    """How many programs share a sequence's keys: enough to fill the card, none without a tile of its own."""
    wanted = -(-WAVES * multiprocessors // max(1, seqs * kv_heads))
    return max(1, min(wanted, -(-max_kv // tile), MAX_SPLITS))


def decode_triton(
    q: Tensor, k_cache: Tensor, v_cache: Tensor, block_tables: Tensor, cu_q: Tensor, kv_lens: Tensor, out:
    Tensor, splits: int, scale: float, window: int | None, softcap: float | None, sinks: Tensor | None,
    tile: int | None = None,
) -> None:  # fmt: skip
    """Write the rows of ``out`` [T, Hq, D] that belong to sequences with one new token.

    ``tile``: keys a tile, a power of two; only somebody who looks into the kernel sets it.
    """
    check_tensors("decode", q, k_cache, v_cache, block_tables, cu_q, kv_lens, out)
    group = check_heads(q, k_cache, v_cache)
    check_dense("decode", k_cache, v_cache)
    q = q if q.stride(2) == 1 else q.contiguous()
    seqs, heads, dim = kv_lens.shape[0], q.shape[1], q.shape[2]
    if not 1 <= splits <= MAX_SPLITS:
        raise ValueError(f"decode: {splits} splits; use 1 to {MAX_SPLITS}.")
    if not seqs or not q.shape[0]:
        return
    config = decode_config(group, dim, q.dtype) | ({"TILE": tile} if tile else {})
    part, m, sums = out, kv_lens, kv_lens  # stand-ins that are never touched
    if splits > 1:
        part = torch.empty(seqs, heads, splits, dim, dtype=torch.float32, device=q.device)
        m, sums = torch.empty(2, seqs, heads, splits, dtype=torch.float32, device=q.device).unbind(0)
    decode_kernel[(seqs, k_cache.shape[2], splits)](
        q, k_cache, v_cache, out, part, m, sums, block_tables, cu_q, kv_lens, out if sinks is None else sinks,
        scale, softcap or 1.0, k_cache.shape[1], block_tables.stride(0), window or NO_WINDOW, *q.stride()[:2],
        *k_cache.stride()[:3], *v_cache.stride()[:3],
        SPLIT=splits > 1, CAP=softcap is not None, SINKS=sinks is not None, **config,
    )  # fmt: skip
    if splits > 1:
        merge_kernel[(seqs, heads)](
            part, m, sums, out, cu_q, out if sinks is None else sinks, splits,
            DIM=dim, BLOCK_D=config["BLOCK_D"], BLOCK_S=MAX_SPLITS, SINKS=sinks is not None, num_warps=4,
        )  # fmt: skip
