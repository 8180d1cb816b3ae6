"""The path that most students run: paged attention in plain torch on a CPU.

Whatever depends only on the step (which rows of the pool each sequence reads, masks) is worked out once, by
the first layer that asks, and kept in ``batch.plans``; the other layers only read. Rows of the pool are addressed
without copying it: a layer's view [num_blocks, block_size, Hkv, D] is seen as a table of slots

    row(slot) = block * (block_stride / (Hkv * D)) + offset           [rows, Hkv * D]

and the same row numbers serve keys and values of all layers, since only the table's start differs.
Only slots that have been written are ever read, so garbage in the rest of a block cannot reach the output.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from kernels.batch import PagedBatch

GROUP_BYTES = 2 << 20  # keys of one decode group: gathered, then read again while still in the cache
GROUP_RAGGED = 0.75  # a sequence joins a group if it is at least this long relative to the longest


def slot_table(cache: Tensor) -> tuple[Tensor, int] | None:
    """A layer's view as ([rows, Hkv * D], rows a block), or None where its strides do not allow it."""
    num_blocks, block_size, heads, dim = cache.shape
    width, stride = heads * dim, cache.stride()
    if stride[3] != 1 or stride[2] != dim or (block_size > 1 and stride[1] != width) or stride[0] % width:
        return None
    step = stride[0] // width
    rows = (num_blocks - 1) * step + block_size
    return cache.as_strided((rows, width), (width, 1)), step


def store_kv_cpu(k: Tensor, v: Tensor, k_cache: Tensor, v_cache: Tensor, slot_mapping: Tensor) -> None:
    """``store_kv`` on a CPU: one indexed write for the keys, one for the values."""
    keep = slot_mapping >= 0
    if not bool(keep.all()):
        k, v, slot_mapping = k[keep], v[keep], slot_mapping[keep]
    block_size = k_cache.shape[1]
    index = (slot_mapping // block_size, slot_mapping % block_size)
    k_cache[index] = k
    v_cache[index] = v


@dataclass(slots=True)
class DecodeGroup:
    """Sequences of similar length that compute one token: ``n`` keys each, padded with a repeated last key."""

    tokens: Tensor  # [B] rows of the packed queries
    rows: Tensor  # [B * n] rows of the slot table
    n: int
    mask: Tensor | None  # [B, 1, 1, n] bool, False where padded


@dataclass(slots=True)
class Prefill:
    """One sequence that computes several tokens."""

    start: int
    stop: int
    rows: Tensor  # [n] rows of the slot table
    mask: Tensor | None  # [q, n] bool; None: plain causal, nothing before


@dataclass(slots=True)
class Plan:
    """What a step reads, for one window and one layout of the pool."""

    groups: list[DecodeGroup]
    prefills: list[Prefill]
    empty: bool  # some rows read nothing: the output starts as zeros


def make_plan(batch: PagedBatch, step: int, window: int | None, row_bytes: int) -> Plan:
    """Work out the rows that each sequence reads. ``step``: table rows from one block to the next."""
    starts = batch.cu_q.tolist()
    live = [s for s in range(batch.num_seqs) if batch.q_lens[s] and batch.lens[s]]
    decode = [s for s in live if batch.q_lens[s] == 1]
    prefills = [_prefill(batch, s, starts, step, window) for s in live if batch.q_lens[s] > 1]
    groups = [_group(batch, g, starts, step, window) for g in _split(batch, decode, window, row_bytes)]
    return Plan(groups, prefills, len(live) < batch.num_seqs)


def _seen(length: int, window: int | None) -> int:
    return length if window is None else min(length, window)


def _split(batch: PagedBatch, decode: list[int], window: int | None, row_bytes: int) -> list[list[int]]:
    """Longest first, into groups that waste little on padding and fit the processor's cache."""
    groups: list[list[int]] = []
    longest = 0
    for s in sorted(decode, key=lambda s: -_seen(batch.lens[s], window)):
        n = _seen(batch.lens[s], window)
        fits = (
            groups
            and n >= GROUP_RAGGED * longest
            and (len(groups[-1]) + 1) * longest * row_bytes <= GROUP_BYTES
        )
        if not fits:
            groups.append([])
            longest = n
        groups[-1].append(s)
    return groups


def _rows(batch: PagedBatch, seqs: Tensor, positions: Tensor, step: int) -> Tensor:
    """Rows of the slot table of ``positions`` [B, n] of sequences ``seqs`` [B]."""
    blocks = batch.block_tables[seqs].long().gather(1, positions // batch.block_size)
    return blocks * step + positions % batch.block_size


def _group(
    batch: PagedBatch, members: list[int], starts: list[int], step: int, window: int | None
) -> DecodeGroup:
    lens = torch.tensor([batch.lens[s] for s in members])
    seen = lens if window is None else lens.clamp(max=window)
    n = int(seen.max())
    offset = torch.arange(n)
    positions = torch.minimum((lens - seen)[:, None] + offset, lens[:, None] - 1)
    mask = None if bool((seen == n).all()) else (offset < seen[:, None])[:, None, None, :]
    rows = _rows(batch, torch.tensor(members), positions, step)
    return DecodeGroup(torch.tensor([starts[s] for s in members]), rows.reshape(-1), n, mask)


def _prefill(batch: PagedBatch, s: int, starts: list[int], step: int, window: int | None) -> Prefill:
    q_len, n = batch.q_lens[s], batch.lens[s]
    first = 0 if window is None else max(0, n - q_len - window + 1)
    keys = torch.arange(first, n)
    rows = _rows(batch, torch.tensor([s]), keys[None], step).reshape(-1)
    query = torch.arange(n - q_len, n)[:, None]
    mask = keys <= query
    if window is not None:
        mask &= query - keys < window
    plain = q_len == n and (window is None or window >= n)
    return Prefill(starts[s], starts[s + 1], rows, None if plain else mask)


def attention_cpu(
    q: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    batch: PagedBatch,
    scale: float,
    window: int | None,
    softcap: float | None,
    sinks: Tensor | None,
) -> Tensor:
    """``paged_attention`` on a CPU; arguments as there."""
    heads, dim = k_cache.shape[2:]
    table_k, table_v = slot_table(k_cache), slot_table(v_cache)
    if table_k is None or table_v is None or table_k[1] != table_v[1]:
        k_cache, v_cache = k_cache.contiguous(), v_cache.contiguous()
        table_k, table_v = slot_table(k_cache), slot_table(v_cache)
    assert table_k is not None and table_v is not None
    (keys, step), (values, _) = table_k, table_v
    key = ("cpu", step, window, heads * dim * q.element_size())
    plan = batch.plans.get(key)
    if plan is None:
        plan = batch.plans[key] = make_plan(batch, step, window, key[3])
    out = torch.zeros_like(q) if plan.empty else torch.empty_like(q)
    for g in plan.groups:
        k = keys.index_select(0, g.rows).view(-1, g.n, heads, dim).transpose(1, 2)
        v = values.index_select(0, g.rows).view(-1, g.n, heads, dim).transpose(1, 2)
        rows = q.index_select(0, g.tokens).view(k.shape[0], heads, -1, dim)
        result = _attend(
            rows, k, v, g.mask, False, scale, softcap, None if sinks is None else sinks.view(1, heads, -1, 1)
        )
        out.index_copy_(0, g.tokens, result.reshape(-1, *q.shape[1:]))
    for p in plan.prefills:
        k = keys.index_select(0, p.rows).view(-1, heads, 1, dim).permute(1, 2, 0, 3)  # [Hkv, 1, n, D]
        v = values.index_select(0, p.rows).view(-1, heads, 1, dim).permute(1, 2, 0, 3)
        rows = (
            q[p.start : p.stop].view(p.stop - p.start, heads, -1, dim).permute(1, 2, 0, 3)
        )  # [Hkv, G, q, D]
        group = rows.shape[1]
        k, v = k.expand(-1, group, -1, -1), v.expand(-1, group, -1, -1)
        sink = None if sinks is None else sinks.view(heads, group, 1, 1)
        result = _attend(rows, k, v, p.mask, p.mask is None, scale, softcap, sink)
        out[p.start : p.stop] = result.permute(2, 0, 1, 3).reshape(p.stop - p.start, *q.shape[1:])
    return out


def _attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    causal: bool,
    scale: float,
    softcap: float | None,
    sinks: Tensor | None,
) -> Tensor:
    if softcap is None and sinks is None:
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal, scale=scale)
    scores = (q.float() * scale) @ k.float().transpose(-1, -2)
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    if causal:
        mask = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    if sinks is not None:
        scores = torch.cat([scores, sinks.float().expand(*scores.shape[:-1], 1)], -1)
    weights = scores.softmax(-1)[..., : k.shape[-2]]
    return (weights @ v.float()).to(q.dtype)
