"""Block size: what the last block wastes against how long the block tables get."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from core.compare.workload import Drawn

SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
ENTRY_BYTES = 4  # a block id


class BlockSizeRow(NamedTuple):
    """Averages over running requests, each at every length of its life."""

    block_size: int
    wasted_slots: float  # a request
    waste: float  # share of the slots held that hold no token
    entries: float  # of a request's block table
    table_bytes: float


def sweep(requests: Sequence[Drawn], sizes: Iterable[int] = SIZES) -> list[BlockSizeRow]:
    """Exact, from the lengths alone: a request holds ceil(length / size) blocks from its prompt to its last
    token."""
    first = np.array([r.prompt for r in requests])
    last = np.array([r.prompt + r.new - 1 for r in requests])
    steps = int((last - first + 1).sum())
    lengths = np.arange(int(last.max()) + 1)
    rows = []
    for size in sizes:
        blocks = -(-lengths // size)
        # Sums over each request's lengths, by differences of running sums.
        held = np.cumsum(blocks)
        total = np.cumsum(lengths)
        num_blocks = float((held[last] - held[first - 1]).sum())
        tokens = float((total[last] - total[first - 1]).sum())
        slots = num_blocks * size
        rows.append(
            BlockSizeRow(
                size, (slots - tokens) / steps, 1 - tokens / slots, num_blocks / steps,
                ENTRY_BYTES * num_blocks / steps,
            )
        )  # fmt: skip
    return rows
