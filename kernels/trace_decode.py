"""One decode step of one sequence and one KV head, tile by tile, in the decode kernel's own order: plain
data.

For looking into: which blocks and slots a tile names, which lanes are masked, how the running maximum and sum
of the online softmax move, how the splits merge. Computed in plain torch from the live pool, fp32 as in the
kernel.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from kernels.batch import PagedBatch
from kernels.checks import check_heads

Floats = tuple[float, ...]  # one for each query head of the group


@dataclass(frozen=True, slots=True)
class TileStep:
    """One turn of the kernel's loop. Lanes: ``positions``, ``blocks``, ``slots``, ``read`` are as long as the
    tile.

    A lane that is not ``read`` is masked: its block and slot are 0 and nothing is loaded for it.
    """

    split: int
    positions: tuple[int, ...]
    blocks: tuple[int, ...]
    slots: tuple[int, ...]
    read: tuple[bool, ...]
    scores: tuple[Floats, ...]  # [G][lanes], -inf where masked
    tile_max: Floats
    max_before: Floats
    max_after: Floats
    sum_before: Floats
    sum_after: Floats
    shrink: Floats  # what the older sum and accumulator are multiplied by
    accumulator_norm: Floats


@dataclass(frozen=True, slots=True)
class SplitPart:
    """What one split hands to the merge; ``weight`` there: exp(m - overall m), 0 for a split without keys."""

    split: int
    start: int
    stop: int
    m: Floats
    sum: Floats
    weight: Floats


@dataclass(frozen=True, slots=True)
class DecodeTrace:
    """The whole of it. ``bytes_read``: keys and values that were loaded; ``output``: [G][D]."""

    seq: int
    kv_head: int
    kv_len: int
    first: int  # the oldest position in sight
    tile: int
    tiles: tuple[TileStep, ...]
    parts: tuple[SplitPart, ...]
    sinks: Floats | None
    maximum: Floats  # over all splits, sink included
    total: Floats  # the softmax's denominator, relative to ``maximum``
    bytes_read: int
    output: tuple[Floats, ...]


def explain_decode(
    q: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    batch: PagedBatch,
    seq: int,
    kv_head: int,
    *,
    scale: float,
    tile: int = 16,
    splits: int = 1,
    window: int | None = None,
    softcap: float | None = None,
    sinks: Tensor | None = None,
) -> DecodeTrace:
    """Follow the newest token of sequence ``seq`` through the decode kernel. Arguments as for
    ``paged_attention``.

    ValueError where there is no such sequence, head, tile or split, or the sequence reads nothing.
    """
    group = check_heads(q, k_cache, v_cache)
    if not 0 <= seq < batch.num_seqs or not 0 <= kv_head < k_cache.shape[2] or tile < 1 or splits < 1:
        raise ValueError(
            f"sequence {seq}, KV head {kv_head}, tile {tile}, splits {splits}: there are {batch.num_seqs} "
            f"sequences and the cache {k_cache.shape[2]} KV heads; tiles and splits start at 1."
        )
    kv_len = batch.lens[seq]
    if not kv_len or not batch.q_lens[seq]:
        raise ValueError(
            f"sequence {seq} computes {batch.q_lens[seq]} tokens over {kv_len}; pick one that runs."
        )
    row = int(batch.cu_q[seq + 1]) - 1
    heads = slice(kv_head * group, (kv_head + 1) * group)
    query = q[row, heads].float()  # [G, D]
    first = 0 if window is None else max(0, kv_len - window)
    lead = first // tile * tile
    in_sight = math.ceil((kv_len - lead) / tile)  # tiles
    per_split = math.ceil(in_sight / splits) * tile
    table = batch.block_tables[seq].tolist()

    tiles: list[TileStep] = []
    ranges, ms, sums, accs = [], [], [], []
    for split in range(splits):
        start = lead + split * per_split
        stop = min(start + per_split, kv_len)
        m, total = torch.full((group,), -math.inf), torch.zeros(group)
        acc = torch.zeros(query.shape)
        for base in range(start, stop, tile):
            step, m, total, acc = _tile(
                split, base, first, stop, tile, table, query, k_cache[:, :, kv_head], v_cache[:, :, kv_head],
                scale, softcap, m, total, acc,
            )  # fmt: skip
            tiles.append(step)
        ranges.append((min(start, stop), stop))
        ms.append(m)
        sums.append(total)
        accs.append(acc)

    m_all, sum_all = torch.stack(ms), torch.stack(sums)  # [splits, G]
    sink = None if sinks is None else sinks[heads].float().cpu()
    top = m_all.amax(0) if sink is None else torch.maximum(m_all.amax(0), sink)
    weight = torch.where(m_all == -math.inf, 0.0, torch.exp(m_all - top))
    denominator = (weight * sum_all).sum(0)
    if sink is not None:
        denominator = denominator + torch.exp(sink - top)
    output = (torch.stack(accs) * weight[..., None]).sum(0) / denominator[:, None]
    parts = tuple(
        SplitPart(i, *ranges[i], _floats(ms[i]), _floats(sums[i]), _floats(weight[i])) for i in range(splits)
    )
    loaded = sum(sum(t.read) for t in tiles)
    return DecodeTrace(
        seq, kv_head, kv_len, first, tile, tuple(tiles), parts, None if sink is None else _floats(sink),
        _floats(top), _floats(denominator), 2 * loaded * q.shape[2] * q.element_size(),
        tuple(_floats(r) for r in output),
    )  # fmt: skip


def _tile(
    split: int, base: int, first: int, stop: int, tile: int, table: list[int], query: Tensor, keys: Tensor,
    values: Tensor, scale: float, softcap: float | None, m: Tensor, total: Tensor, acc: Tensor,
) -> tuple[TileStep, Tensor, Tensor, Tensor]:  # fmt: skip
    """One turn of the loop: load, score, mask, move the maximum, add up."""
    block_size = keys.shape[1]
    positions = tuple(range(base, base + tile))
    read = tuple(first <= p < stop for p in positions)
    blocks = tuple(table[p // block_size] if ok else 0 for p, ok in zip(positions, read, strict=True))
    slots = tuple(p % block_size if ok else 0 for p, ok in zip(positions, read, strict=True))
    lanes = torch.tensor(read)
    where = (torch.tensor(blocks, device=keys.device), torch.tensor(slots, device=keys.device))
    # Masked loads with other = 0: whatever lies in the slot, NaN included, stays there.
    k = torch.where(lanes[:, None], keys[where].float().cpu(), 0.0)  # [lanes, D]
    v = torch.where(lanes[:, None], values[where].float().cpu(), 0.0)
    scores = query.cpu() @ k.T * scale
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    scores = scores.masked_fill(~lanes, -math.inf)  # [G, lanes]
    m_new = torch.maximum(m, scores.amax(1))
    p = torch.exp(scores - m_new[:, None])
    shrink = torch.exp(m - m_new)
    total_new = total * shrink + p.sum(1)
    acc = acc * shrink[:, None] + p.to(values.dtype).float() @ v  # the kernel multiplies in the cache's dtype
    step = TileStep(
        split, positions, blocks, slots, read, tuple(_floats(r) for r in scores), _floats(scores.amax(1)),
        _floats(m), _floats(m_new), _floats(total), _floats(total_new), _floats(shrink),
        _floats(acc.norm(dim=1)),
    )  # fmt: skip
    return step, m_new, total_new, acc


def _floats(values: Tensor) -> Floats:
    return tuple(values.tolist())
