"""copy: all of a step's block copies, all layers, keys and values.

    store  [num_blocks, L, 2, block_size, Hkv, D]   block-major: a block is one run of memory
    pairs  [(source, target), ...]                  all reads happen before all writes

So a chain (1->2, 2->3) moves the old contents of 2 into 3, and a cycle (1->2, 2->1) exchanges two blocks.
Two pairs with one target would leave the result to chance: refused.

Memory traffic: each pair reads and writes one block, 2 * block bytes; through the staging area, twice that.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def copy_blocks_reference(store: Tensor, pairs: Sequence[tuple[int, int]]) -> None:
    """The specification: read all sources, then write all targets."""
    read = [store[source].clone() for source, _ in pairs]
    for block, (_, target) in zip(read, pairs, strict=True):
        store[target] = block


def copy_blocks_torch(store: Tensor, pairs: Sequence[tuple[int, int]]) -> None:
    """One gather into a staging tensor, one scatter out of it."""
    source, target = torch.tensor(pairs, dtype=torch.int64, device=store.device).unbind(1)
    store.index_copy_(0, target, store.index_select(0, source))


def check_pairs(pairs: Sequence[tuple[int, int]], num_blocks: int) -> list[tuple[int, int]]:
    """The pairs that change anything. ValueError for a block outside the pool or a target named twice."""
    targets: set[int] = set()
    for source, target in pairs:
        if not (0 <= source < num_blocks and 0 <= target < num_blocks):
            raise ValueError(
                f"a copy from block {source} to block {target} leaves the pool of {num_blocks} blocks; "
                f"use blocks 0 to {num_blocks - 1}."
            )
        if target in targets:
            raise ValueError(f"block {target} is the target of two copies in one step; copy into it once.")
        targets.add(target)
    return [(source, target) for source, target in pairs if source != target]
