"""Which block copies a step makes, and in which order: bookkeeping, no tensors.

All reads happen before all writes, so a chain (1->2, 2->3) moves the old contents of 2 into 3, and a cycle
(1->2, 2->1) exchanges two blocks. A source may be copied many times; a target only once.
"""

from __future__ import annotations

from collections.abc import Sequence

SAVED = -1  # in an order: "the block set aside" rather than a block of the pool
Pair = tuple[int, int]


def check_pairs(pairs: Sequence[Pair], num_blocks: int) -> list[Pair]:
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


def copy_orders(pairs: Sequence[Pair]) -> list[list[Pair]]:
    """Independent lists of copies; carried out from first to last, none overwrites what is still to be read.

    Copies that touch no common block go into different lists. A block may be written once every copy that
    reads it is done: chains are walked from their end. What remains then is cycles; each is opened by setting
    its first target's contents aside: (target, SAVED), ... , (SAVED, last).
    """
    source_of = {target: source for source, target in pairs}
    readers: dict[int, int] = {}
    for source, _ in pairs:
        readers[source] = readers.get(source, 0) + 1
    ready = [t for t in source_of if not readers.get(t)]
    done: list[Pair] = []
    left = dict(source_of)
    while ready:
        target = ready.pop()
        source = left.pop(target)
        done.append((source, target))
        readers[source] -= 1
        if not readers[source] and source in left:
            ready.append(source)
    for first in list(left):
        if first in left:
            done.append((first, SAVED))
            target = first
            while left[target] != first:
                source = left.pop(target)
                done.append((source, target))
                target = source
            left.pop(target)
            done.append((SAVED, target))
    return _components(done, source_of)


def _components(ordered: Sequence[Pair], source_of: dict[int, int]) -> list[list[Pair]]:
    """Split an order into lists that share no block, keeping the order within each."""
    root: dict[int, int] = {}

    def find(block: int) -> int:
        while root.setdefault(block, block) != block:
            root[block] = root[root[block]]
            block = root[block]
        return block

    for target, source in source_of.items():
        root[find(target)] = find(source)
    lists: dict[int, list[Pair]] = {}
    for source, target in ordered:
        lists.setdefault(find(target if source == SAVED else source), []).append((source, target))
    return list(lists.values())
