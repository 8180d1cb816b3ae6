"""The path that most students run: paged attention in plain torch on a CPU.

A pool is read where it lies. Its rows are numbered without copying: a layer's view
[num_blocks, block_size, Hkv, D] becomes a table of slots, [rows, Hkv * D], where slot (block, offset) is row

    block * (block stride / (Hkv * D)) + offset

and, a level finer, a table of heads, [rows * Hkv, D]. The same numbers serve keys and values of all layers,
because only the table's start differs. Decode then needs no gathered copy of either:

    scores   a sampled product: for each (query head, key) pair of the step, one dot product with row `key`
    output   an embedding bag: for each query head, the weighted sum of its value rows

Measured (2 cores, fp32, batch 32, 1000 tokens each): 7 ms a layer; gathering, then torch's SDPA: 12 to 19.
A few keys are gathered all the same: there the number of calls is what counts.
Where torch has no sampled product (16-bit types) the keys of one group at a time are gathered and multiplied.
Memory traffic: keys and values once, 2 * sum(kv_lens) * Hkv * D * element_size bytes a layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor

from kernels.batch import PagedBatch, check_blocks
from kernels.cpu_plan import Decode, Gathered, Plan, Prefill, make_plan, sparse_matrix

QUERY_ROWS = (
    256  # query rows whose scores are held at once where softcap or sinks rule out torch's own kernel
)


def slot_table(cache_view: Tensor) -> tuple[Tensor, int] | None:
    """A layer's view as ([rows, Hkv * D], rows a block), or None where its strides do not allow it.

    Worked out once a view and kept on it: every layer of every step asks four times.
    """
    if not hasattr(cache_view, "_slot_table"):
        cache_view._slot_table = _slot_table(cache_view)  # type: ignore[attr-defined]
    return cache_view._slot_table  # type: ignore[attr-defined]


def _slot_table(cache_view: Tensor) -> tuple[Tensor, int] | None:
    num_blocks, block_size, heads, dim = cache_view.shape
    width, stride = heads * dim, cache_view.stride()
    dense = stride[3] == 1 and stride[2] == dim and (block_size == 1 or stride[1] == width)
    if not dense or stride[0] % width or not num_blocks:
        return None
    step = stride[0] // width
    return cache_view.as_strided(((num_blocks - 1) * step + block_size, width), (width, 1)), step


def store_kv_cpu(
    k: Tensor, v: Tensor, k_cache: Tensor, v_cache: Tensor, slot_mapping: Tensor, plans: dict | None = None
) -> None:
    """``store_kv`` on a CPU: whole rows of the slot tables are written. ``plans``: kept for a step."""
    tables = slot_table(k_cache), slot_table(v_cache)
    block_size, plans = k_cache.shape[1], {} if plans is None else plans
    if "store" not in plans:
        keep = torch.nonzero(slot_mapping >= 0).squeeze(1)
        plans["store"] = slot_mapping[keep], None if keep.numel() == slot_mapping.numel() else keep
    slots, keep = plans["store"]
    for new, table, view in zip((k, v), tables, (k_cache, v_cache), strict=True):
        new = new if keep is None else new[keep]
        if table is None:
            view[slots // block_size, slots % block_size] = new
            continue
        rows, step = table
        if ("rows", step) not in plans:
            plans["rows", step] = slots // block_size * step + slots % block_size
        rows.index_copy_(0, plans["rows", step], new.reshape(-1, rows.shape[1]))


def copy_blocks_cpu(store: Tensor, pairs: Sequence[tuple[int, int]]) -> None:
    """Copy whole blocks: one gather into a staging tensor, then one scatter out of it."""
    source, target = torch.tensor(pairs, dtype=torch.int64).unbind(1)
    store.index_copy_(0, target, store.index_select(0, source))


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
    table_k, table_v = slot_table(k_cache), slot_table(v_cache)
    if table_k is None or table_v is None or table_k[1] != table_v[1]:
        return attention_cpu(
            q, k_cache.contiguous(), v_cache.contiguous(), batch, scale, window, softcap, sinks
        )
    (keys, step), (values, _) = table_k, table_v
    heads, dim = k_cache.shape[2:]
    name = ("cpu", step, window, q.shape[1], heads, dim, keys.shape[0])
    plan: Plan | None = batch.plans.get(name)
    if plan is None:
        check_blocks(batch, k_cache.shape[0])
        plan = make_plan(batch, step, window, q.shape[1], heads, dim, keys.shape[0] * heads)
        batch.plans[name] = plan
    if plan.gathered is not None and softcap is None and sinks is None:
        return _gather(q, keys.view(-1, dim), values.view(-1, dim), plan.gathered, scale)
    out = torch.zeros_like(q) if plan.idle else torch.empty_like(q)
    if plan.decode is not None:
        _decode(q, keys.view(-1, dim), values.view(-1, dim), plan.decode, out, scale, softcap, sinks)
    for p in plan.prefills:
        _prefill(q, keys, values, heads, p, out, scale, softcap, sinks)
    return out


@cache
def can_sample(dtype: torch.dtype) -> bool:
    """Whether this torch multiplies only where asked (sampled product) in ``dtype`` on a CPU."""
    try:
        one, zero = torch.ones(1, 1, dtype=dtype), torch.zeros(1, dtype=dtype)
        matrix = sparse_matrix(torch.tensor([0, 1]), torch.tensor([0]), zero, 1)
        torch.sparse.sampled_addmm(matrix, one, one, beta=0.0, out=matrix)
        return matrix.values().item() == 1.0
    except (RuntimeError, AttributeError):
        return False


def _decode(
    q: Tensor,
    keys: Tensor,
    values: Tensor,
    d: Decode,
    out: Tensor,
    scale: float,
    softcap: float | None,
    sinks: Tensor | None,
) -> None:
    rows = q if d.whole else q.index_select(0, d.tokens)  # [B, Hq, D]
    _score(rows, keys, d, scale)
    if softcap is not None:
        d.scores.div_(softcap).tanh_().mul_(softcap)
    biased = d.scores if d.bias is None else torch.add(d.scores, d.bias, out=d.weights)
    _softmax(biased, d, rows.shape[1], sinks)
    weights = d.weights.to(values.dtype)
    result = F.embedding_bag(d.head_rows, values, d.offsets[:-1], mode="sum", per_sample_weights=weights)
    out.index_copy_(0, d.tokens, result.view(rows.shape))


def _gather(q: Tensor, keys: Tensor, values: Tensor, g: Gathered, scale: float) -> Tensor:
    """Short contexts: copy the keys and values together, for torch's own attention. q: [B, Hq, D]."""
    flat, shape = g.rows.view(-1), (*g.rows.shape, q.shape[2])
    k, v = keys.index_select(0, flat).view(shape), values.index_select(0, flat).view(shape)
    # A group's query heads are the rows of one query: keys and values are not repeated for them.
    grouped = q.reshape(*shape[:2], -1, q.shape[2])
    if g.bias is not None and g.bias.dtype != q.dtype:
        g.bias = g.bias.to(q.dtype)  # once a step
    return F.scaled_dot_product_attention(grouped, k, v, attn_mask=g.bias, scale=scale).reshape(q.shape)


def _score(rows: Tensor, keys: Tensor, d: Decode, scale: float) -> None:
    """Fill ``d.scores`` with scale * q . k for every (query head, key) pair."""
    if can_sample(keys.dtype):
        if d.sampled is None or d.scores.dtype != keys.dtype:
            d.scores, d.weights = d.scores.to(keys.dtype), d.weights.to(keys.dtype)
            d.sampled = sparse_matrix(d.offsets, d.head_rows, d.scores, keys.shape[0])
            d.scores = d.sampled.values()
        d.scores.zero_()  # beta * what was there: 0 * inf would be NaN
        flat = rows.reshape(-1, rows.shape[2])
        torch.sparse.sampled_addmm(d.sampled, flat, keys.t(), beta=0.0, alpha=scale, out=d.sampled)
        return
    rows = rows.float() * scale
    for g in d.groups:
        k = keys.index_select(0, g.rows).view(-1, g.n, rows.shape[2]).float()  # [B * Hkv, n, D]
        scores = d.scores[g.span].view(k.shape[0], -1, g.n)
        torch.bmm(rows[g.tokens].reshape(k.shape[0], -1, rows.shape[2]), k.transpose(1, 2), out=scores)


def _softmax(scores: Tensor, d: Decode, query_heads: int, sinks: Tensor | None) -> None:
    """Softmax over each row's keys into ``d.weights``, group by group."""
    for g in d.groups:
        row = scores[g.span].view(-1, query_heads, g.n)
        weights = d.weights[g.span].view(row.shape)
        if sinks is None:
            torch.softmax(row, -1, out=weights)
        else:
            extra = sinks.to(row.dtype)[:, None].expand(row.shape[0], -1, 1)
            weights.copy_(torch.cat([row, extra], -1).softmax(-1)[..., : g.n])


def _prefill(
    q: Tensor,
    keys: Tensor,
    values: Tensor,
    heads: int,
    p: Prefill,
    out: Tensor,
    scale: float,
    softcap: float | None,
    sinks: Tensor | None,
) -> None:
    """One sequence of several new tokens: KV heads as the batch, so grouped heads need no copied keys."""
    query_heads, dim = q.shape[1:]
    group = query_heads // heads
    k = keys.index_select(0, p.rows).view(-1, heads, 1, dim).permute(1, 2, 0, 3)  # [Hkv, 1, n, D]
    v = values.index_select(0, p.rows).view(-1, heads, 1, dim).permute(1, 2, 0, 3)
    rows = q[p.start : p.stop].view(-1, heads, group, dim).permute(1, 2, 0, 3)  # [Hkv, G, q, D]
    if softcap is None and sinks is None:
        k, v = k.expand(-1, group, -1, -1), v.expand(-1, group, -1, -1)
        causal = p.mask is None
        result = F.scaled_dot_product_attention(rows, k, v, attn_mask=p.mask, is_causal=causal, scale=scale)
    else:
        result = _plain(rows, k, v, p.mask, scale, softcap, sinks)
    out[p.start : p.stop] = result.permute(2, 0, 1, 3).reshape(-1, query_heads, dim)


def _plain(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    scale: float,
    softcap: float | None,
    sinks: Tensor | None,
) -> Tensor:
    """Softmax written out, in fp32, some query rows at a time: torch's own has neither softcap nor sinks."""
    if mask is None:
        mask = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool).tril()
    compute = torch.promote_types(q.dtype, torch.float32)
    parts = []
    for i in range(0, q.shape[2], QUERY_ROWS):
        scores = (q[:, :, i : i + QUERY_ROWS].to(compute) * scale) @ k.to(compute).transpose(-1, -2)
        if softcap is not None:
            scores = softcap * torch.tanh(scores / softcap)
        scores = scores.masked_fill(~mask[i : i + QUERY_ROWS], float("-inf"))
        if sinks is not None:
            extra = sinks.to(compute).view(q.shape[0], q.shape[1], 1, 1).expand(-1, -1, scores.shape[2], 1)
            scores = torch.cat([scores, extra], -1)
        parts.append(scores.softmax(-1)[..., : k.shape[2]] @ v.to(compute))
    return torch.cat(parts, 2).to(q.dtype)
