"""What a decode step moves and computes, and what this machine could at most: the figures of a roofline.

    bytes       2 * sum(kv_lens) * Hkv * D * element_size    keys and values, each read once
    operations  4 * sum(kv_lens) * Hq * D                    a multiplication and an addition for q.k, and p.v
    intensity   operations / bytes = 2 * G / element_size    whatever the length: decode waits for memory

Every number is measured where it is asked for, on the device of the tensors, and says nothing about others.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import torch
from torch import Tensor

from kernels.batch import PagedBatch
from kernels.dispatch import paged_attention

COPY_BYTES = {"cpu": 64 << 20, "cuda": 1 << 30}  # beyond the caches
MATRIX = {"cpu": 1024, "cuda": 8192}
LONG = (8, 1000)  # sequences and keys of the second point


@dataclass(frozen=True, slots=True)
class Work:
    """What one layer's decode attention has to move and to compute."""

    bytes: int
    operations: int

    @property
    def intensity(self) -> float:
        """Operations a byte."""
        return self.operations / self.bytes


@dataclass(frozen=True, slots=True)
class Point:
    """A measured call: ``seqs`` sequences of ``keys`` keys together, microseconds, operations a second."""

    seqs: int
    keys: int
    us: float
    work: Work

    @property
    def gflops(self) -> float:
        """10^9 operations a second."""
        return self.work.operations / self.us / 1e3

    @property
    def gigabytes(self) -> float:
        """10^9 bytes of K and V a second."""
        return self.work.bytes / self.us / 1e3


@dataclass(frozen=True, slots=True)
class Roofline:
    """``copy``: GB/s, read plus written; ``peak``: GFLOP/s of a matrix product in the pool's dtype."""

    device: str  # "cpu" or the card's name
    threads: int
    copy: float
    peak: float
    this: Point
    long: Point

    def roof(self, intensity: float) -> float:
        """GFLOP/s that memory and arithmetic allow at this intensity."""
        return min(self.peak, self.copy * intensity)


def work(kv_lens: list[int], query_heads: int, kv_heads: int, dim: int, element_size: int) -> Work:
    """Bytes and operations of one layer's decode attention."""
    keys = sum(kv_lens)
    return Work(2 * keys * kv_heads * dim * element_size, 4 * keys * query_heads * dim)


@torch.inference_mode()
def measure(
    q: Tensor, k_cache: Tensor, v_cache: Tensor, batch: PagedBatch, options: dict[str, Any]
) -> Roofline:
    """Time a copy, a matrix product, this attention and a longer one of its shape. About two seconds."""
    device, dtype = q.device, q.dtype
    kind = "cuda" if device.type == "cuda" else "cpu"
    source = torch.empty(COPY_BYTES[kind], dtype=torch.uint8, device=device).fill_(1)
    target = torch.empty_like(source)
    copy = 2 * COPY_BYTES[kind] / seconds(lambda: target.copy_(source), device) / 1e9
    n = MATRIX[kind]
    a, b = torch.randn(2, n, n, device=device).to(dtype).unbind(0)
    peak = 2 * n**3 / seconds(lambda: a @ b, device) / 1e9
    this = _point(q, k_cache, v_cache, batch, options)
    return Roofline(
        torch.cuda.get_device_name(device) if kind == "cuda" else "cpu",
        torch.get_num_threads(), copy, peak, this, _long(q, k_cache, options),
    )  # fmt: skip


def seconds(call: Callable[[], object], device: torch.device, rounds: int = 9) -> float:
    """Median seconds of a call, the device waited for; the first call does not count."""

    def once() -> float:
        began = perf_counter()
        call()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        return perf_counter() - began

    once()
    return statistics.median(once() for _ in range(rounds))


def _point(q: Tensor, k_cache: Tensor, v_cache: Tensor, batch: PagedBatch, options: dict[str, Any]) -> Point:
    took = seconds(lambda: paged_attention(q, k_cache, v_cache, batch, **options), q.device, 25)
    window = options.get("window")
    lens = [n if window is None else min(n, window) for n in batch.lens]
    done = work(lens, q.shape[1], k_cache.shape[2], q.shape[2], q.element_size())
    return Point(batch.num_seqs, sum(lens), took * 1e6, done)


def _long(q: Tensor, k_cache: Tensor, options: dict[str, Any]) -> Point:
    """The same heads over longer contexts, in blocks of 16 in random order."""
    seqs, keys = LONG
    per = -(-keys // 16)
    order = torch.randperm(seqs * per).tolist()
    tables = [order[i * per : (i + 1) * per] for i in range(seqs)]
    batch = PagedBatch.build([-1] * seqs, tables, [1] * seqs, [keys] * seqs, 16, q.device)
    shape = (2, seqs * per, 16, *k_cache.shape[2:])
    keys_, values = torch.randn(shape, device=q.device).to(q.dtype).unbind(0)
    many = torch.randn(seqs, *q.shape[1:], device=q.device).to(q.dtype)
    return _point(many, keys_, values, batch, options)
