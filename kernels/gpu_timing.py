"""For the GPU check: decode attention's time, against a measured copy and torch's SDPA on contiguous tensors.

Times are medians of CUDA events around single launches. Each launch reads another layer of the pool, so that
its keys come from memory and not from the cache of the launch before. Bandwidth counts keys and values that
must be read, once, over the time: 2 * sum(kv_lens) * Hkv * D * element_size bytes.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from kernels.batch import PagedBatch
from kernels.dispatch import paged_attention

POOL_BYTES = 24 << 30  # of one layer, at most; what does not fit is skipped, and said
ROTATE_BYTES = 512 << 20  # layers are added until the pool is several times the second-level cache
MAX_LAYERS = 64

LONG = 4096  # keys from which on a context counts as long
COPY_SHARE, GENERATE_TIMES = 0.85, 5.0  # the aims: of the copy's bandwidth, and times transformers' generate


@dataclass(frozen=True, slots=True)
class DecodeTime:
    """One shape: microseconds, and gigabytes of keys and values a second."""

    batch: int
    context: int
    group: int
    paged_us: float
    sdpa_us: float
    gigabytes: float  # a second, paged


def median_us(calls: list[Callable[[], object]], rounds: int = 30) -> float:
    """Median time of the calls in turn, in microseconds."""
    for call in calls:
        call()
    pairs = [
        (torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(rounds)
    ]
    torch.cuda.synchronize()
    for i, (begin, end) in enumerate(pairs):
        begin.record()
        calls[i % len(calls)]()
        end.record()
    torch.cuda.synchronize()
    return statistics.median(begin.elapsed_time(end) for begin, end in pairs) * 1e3


def copy_bandwidth(size: int = 4 << 30) -> float:
    """Gigabytes a second, read plus written, of a device-to-device copy: the ceiling here."""
    source = torch.empty(size, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    return 2 * size / median_us([lambda: target.copy_(source)], 10) / 1e3


def graphed(call: Callable[[], object]) -> Callable[[], object]:
    """The call as a CUDA graph: its launches without the time that Python takes to make them."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        call(), call()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph.replay


def decode_time(batch: int, context: int, group: int, kv_heads: int = 8, dim: int = 128) -> DecodeTime | None:
    """Time one shape in bf16, blocks of 16 in random order; None where the pool would be too large."""
    each = 2 * batch * context * kv_heads * dim * 2  # bytes of one layer
    if each > POOL_BYTES:
        return None
    layers = max(1, min(MAX_LAYERS, -(-ROTATE_BYTES // each)))
    q = torch.randn(batch, kv_heads * group, dim, dtype=torch.bfloat16, device="cuda")
    paged = _paged_us(q, context, kv_heads, layers)
    sdpa = _sdpa_us(q, context, kv_heads, layers)
    return DecodeTime(batch, context, group, paged, sdpa, each / paged / 1e3)


def _paged_us(q: Tensor, context: int, kv_heads: int, layers: int, block_size: int = 16) -> float:
    batch, _, dim = q.shape
    per = -(-context // block_size)
    order = torch.randperm(batch * per).tolist()
    tables = [order[i * per : (i + 1) * per] for i in range(batch)]
    shape = (batch * per, layers, 2, block_size, kv_heads, dim)
    store = torch.empty(shape, dtype=q.dtype, device="cuda").normal_()
    plan = PagedBatch.build([-1] * batch, tables, [1] * batch, [context] * batch, block_size, "cuda")

    def call(i: int) -> Callable[[], object]:
        return lambda: paged_attention(q, store[:, i, 0], store[:, i, 1], plan, scale=dim**-0.5)

    return median_us([graphed(call(i)) for i in range(layers)])


def _sdpa_us(q: Tensor, context: int, kv_heads: int, layers: int) -> float:
    """torch's own attention on contiguous keys and values; the heads of a group stand as query rows."""
    batch, heads, dim = q.shape
    shape = (layers, 2, batch, kv_heads, context, dim)
    flat = torch.empty(shape, dtype=q.dtype, device="cuda").normal_()
    rows = q.view(batch, kv_heads, heads // kv_heads, dim)

    def call(i: int) -> Callable[[], object]:
        return lambda: F.scaled_dot_product_attention(rows, flat[i, 0], flat[i, 1])

    return median_us([graphed(call(i)) for i in range(layers)])


def verdicts(copy: float, times: list[DecodeTime], rates: dict[str, float]) -> list[tuple[bool, str]]:
    """Whether each aim was reached, and a line that says so with its worst shape.

    ``copy``: GB/s; ``rates``: tokens a second at batch 1 of "ours" (CUDA graphs) and of "generate". What was
    not measured has not been reached. A single short context cannot fill a card: batch 1 at 4096 keys is
    16 MB, which is over before a copy is at full speed, so shapes of less than 256 MB are left out.
    """
    long = [t for t in times if t.context >= LONG and t.gigabytes * t.paged_us * 1e3 >= 256 << 20]
    found = [(False, "* bandwidth at long contexts: nothing was measured")]
    if long:
        worst = min(long, key=lambda t: t.gigabytes)
        share = worst.gigabytes / copy
        slow = max(long, key=lambda t: t.paged_us / t.sdpa_us)
        ratio = slow.paged_us / slow.sdpa_us
        found = [
            _verdict(share >= COPY_SHARE, f"at least {COPY_SHARE:.0%} of the copy at long contexts",
                     f"{share:.0%} {_shape(worst)}"),
            _verdict(ratio <= 1.0, "no slower than SDPA on contiguous tensors",
                     f"{ratio:.2f} times its time {_shape(slow)}"),
        ]  # fmt: skip
    if "ours" in rates and "generate" in rates:
        gain = rates["ours"] / rates["generate"]
        aim = f"{GENERATE_TIMES:.0f} times transformers generate at batch 1"
        return [*found, _verdict(gain >= GENERATE_TIMES, aim, f"{gain:.1f} times")]
    return [*found, (False, "* transformers generate at batch 1: not measured")]


def _shape(t: DecodeTime) -> str:
    return f"(worst: batch {t.batch}, context {t.context}, {t.group} heads a KV head)"


def _verdict(reached: bool, aim: str, found: str) -> tuple[bool, str]:
    return reached, f"* {aim}: {'reached' if reached else 'MISSED'}, {found}"
