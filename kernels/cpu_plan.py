"""What a step reads, worked out once for all layers: the CPU path's plan.

Decode rows (sequences that compute one token) of similar length form groups. A group of B sequences takes n
keys from each; a shorter one repeats its own last key, which is real and finite, and a bias of -inf takes it
out. The groups lie behind one another, so one call scores every key of a step and one sums every value:

    group 0: B0 * Hq rows of n0 keys | group 1: B1 * Hq rows of n1 keys | ...          (flat, head_rows)

Only slots that were written are ever named, so whatever lies in the rest of a block stays out of the sums.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import torch
from torch import Tensor

from kernels.batch import PagedBatch

GROUP_RAGGED = 0.75  # a sequence joins a group when at least this long, relative to the group's longest
GROUP_SPARE = 16  # ... or when it is at most this many keys shorter
GATHER_SEQS, GATHER_KEYS = 8, 1024  # up to so many sequences and keys in all are copied together: measured
GROUP_BYTES = 4 << 20  # gathered fp32 keys of one group: small enough to be read again from the cache


@dataclass(slots=True)
class Group:
    """Sequences of similar length, one new token each: B sequences, n keys, padding included."""

    tokens: slice  # rows of the sorted decode queries
    n: int
    span: slice  # in the flat arrays: B * Hq * n
    rows: Tensor  # [B * Hkv * n] head rows, once a KV head, for the path that gathers


@dataclass(slots=True)
class Decode:
    """All decode rows of a step; flat arrays hold sum(B * Hq * n) entries."""

    tokens: Tensor  # [B] rows of the packed queries, longest context first
    whole: bool  # tokens is 0, 1, 2, ...: no reordering needed
    groups: list[Group]
    head_rows: Tensor  # flat: row of the head table that each (query head, key) reads
    offsets: Tensor  # [B * Hq + 1] where each query head's keys start in the flat arrays
    bias: Tensor | None  # flat: 0 or -inf; None where nothing is padded
    scores: Tensor  # flat
    weights: Tensor  # flat
    sampled: Tensor | None = None  # the scores as a sparse [B * Hq, head table] matrix


@dataclass(slots=True)
class Prefill:
    """One sequence that computes several tokens: rows start..stop of the queries, n keys."""

    start: int
    stop: int
    rows: Tensor  # [n] rows of the slot table
    mask: Tensor | None  # [q, n] bool; None: plain causal with nothing before


@dataclass(slots=True)
class Gathered:
    """A step of B sequences that decode over short contexts, in the order of their tokens."""

    rows: Tensor  # [B, Hkv, n] head rows: int64, which are selected in half the time
    bias: Tensor | None  # [B, 1, 1, n]: 0 or -inf; None where nothing is padded


@dataclass(slots=True)
class Plan:
    """One step, for one window and one layout of the pool."""

    decode: Decode | None
    prefills: list[Prefill]
    idle: bool  # some rows read nothing: the output starts as zeros
    gathered: Gathered | None = None  # in place of ``decode``, where calls cost more than copies


def make_plan(
    batch: PagedBatch, step: int, window: int | None, query_heads: int, kv_heads: int, dim: int, size: int
) -> Plan:
    """``step``: slot rows from one block to the next; ``size``: rows of the head table."""
    starts = batch.cu_q.tolist()
    live = [s for s in range(batch.num_seqs) if batch.q_lens[s] and batch.lens[s]]
    decode = [s for s in live if batch.q_lens[s] == 1]
    prefills = [_prefill(batch, s, starts, step, window) for s in live if batch.q_lens[s] > 1]
    plan = Plan(None, prefills, len(live) < batch.num_seqs)
    if decode:
        plan.decode = _decode(batch, decode, starts, step, window, query_heads, kv_heads, dim, size)
        if len(plan.decode.groups) == 1 and len(decode) == batch.num_seqs:
            plan.gathered = _gathered(plan.decode, kv_heads, query_heads)
    return plan


def _gathered(d: Decode, kv_heads: int, query_heads: int) -> Gathered | None:
    """The only group of a step in which every sequence decodes, in the order of its tokens."""
    n, order = d.groups[0].n, torch.argsort(d.tokens)
    if order.numel() > GATHER_SEQS or order.numel() * n > GATHER_KEYS:
        return None
    bias = None if d.bias is None else d.bias.view(-1, query_heads, 1, n)[order, :1]
    return Gathered(d.groups[0].rows.view(-1, kv_heads, n)[order].long(), bias)


def seen(length: int, window: int | None) -> int:
    """Keys that the newest token of a context sees."""
    return length if window is None else min(length, window)


def split_groups(lengths: list[int], limit: int) -> list[list[int]]:
    """Indices of ``lengths`` in groups of similar length, longest first, at most ``limit`` keys in each."""
    groups: list[list[int]] = []
    longest = 0
    for i in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        similar = lengths[i] >= GROUP_RAGGED * longest or lengths[i] >= longest - GROUP_SPARE
        if not (groups and similar and (len(groups[-1]) + 1) * longest <= limit):
            groups.append([])
            longest = lengths[i]
        groups[-1].append(i)
    return groups


def _rows(batch: PagedBatch, seqs: Tensor, positions: Tensor, step: int) -> Tensor:
    """Slot rows of ``positions`` [B, n] of the sequences ``seqs`` [B]."""
    blocks = batch.block_tables[seqs].long().gather(1, positions // batch.block_size)
    return blocks * step + positions % batch.block_size


def _decode(
    batch: PagedBatch,
    members: list[int],
    starts: list[int],
    step: int,
    window: int | None,
    query_heads: int,
    kv_heads: int,
    dim: int,
    size: int,
) -> Decode:
    lengths = [seen(batch.lens[s], window) for s in members]
    order: list[int] = []
    groups, flats, biases, counts = [], [], [], []
    done = flat = 0
    index = torch.int32 if size < 1 << 31 else torch.int64
    for chosen in split_groups(lengths, max(1, GROUP_BYTES // (4 * kv_heads * dim))):
        seqs = torch.tensor([members[i] for i in chosen])
        lens = torch.tensor([batch.lens[members[i]] for i in chosen])
        own = torch.tensor([lengths[i] for i in chosen])
        n, b = lengths[chosen[0]], len(chosen)
        offset = torch.arange(n)
        positions = torch.minimum((lens - own)[:, None] + offset, lens[:, None] - 1)  # [B, n]
        rows = _rows(batch, seqs, positions, step)[:, None, :] * kv_heads + torch.arange(kv_heads)[:, None]
        rows = rows.to(index)  # [B, Hkv, n]
        flats.append(rows[:, :, None].expand(b, kv_heads, query_heads // kv_heads, n).reshape(-1))
        biases.append((offset >= own[:, None])[:, None].expand(b, query_heads, n).reshape(-1))
        counts.append(torch.full((b * query_heads,), n, dtype=index))
        groups.append(
            Group(slice(done, done + b), n, slice(flat, flat + b * query_heads * n), rows.reshape(-1))
        )
        order += [starts[members[i]] for i in chosen]
        done, flat = done + b, flat + b * query_heads * n
    padded = torch.cat(biases)
    offsets = torch.zeros(done * query_heads + 1, dtype=index)
    torch.cumsum(torch.cat(counts), 0, out=offsets[1:])
    return Decode(
        tokens=torch.tensor(order),
        whole=order == list(range(batch.num_tokens)),
        groups=groups,
        head_rows=torch.cat(flats),
        offsets=offsets,
        bias=torch.zeros(flat).masked_fill_(padded, float("-inf")) if bool(padded.any()) else None,
        scores=torch.zeros(flat),
        weights=torch.empty(flat),
    )


def sparse_matrix(offsets: Tensor, columns: Tensor, values: Tensor, width: int) -> Tensor:
    """A sparse matrix [len(offsets) - 1, width] over these very ``values``; indices are taken on trust."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse")  # "beta state", "checks are implicitly disabled"
        shape = (offsets.shape[0] - 1, width)
        return torch.sparse_csr_tensor(offsets, columns, values, size=shape, check_invariants=False)


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
