"""Physical blocks: who is free, who is held how often, who is kept for reuse. Pure bookkeeping.

    free ── take ──► used (ref 1) ── share ──► ref 2, 3, … ── release ──► ref 0: free, or
      ▲                 ▲                                                 cached, if it can be found again
      └── evict, when   └── share: found by its content ◄── cached ◄──────────┘
          no plain free block is left ◄────────────────────────┘

Every block is in exactly one of used, cached and free. Nothing here scans the pool: each operation touches
one block, so planning a step costs the same for 64 blocks and for a million.
"""

from __future__ import annotations

import random
from collections import deque

from core.memory.prefix import PrefixIndex
from core.memory.views import BlockView


class PoolError(RuntimeError):
    """A rule of the pool was about to be broken: a fault of the engine, never of the user."""


def initial_order(num_blocks: int, first: tuple[int, ...] | None, seed: int) -> list[int]:
    """The order in which free blocks are handed out at the start.

    ``first``, then the others in ascending order; without it a permutation drawn from ``seed`` that does not
    begin with block 0 nor with two neighbours in order, so that it shows that logical is not physical.
    """
    if first is not None:
        named = set(first)
        return [*first, *(b for b in range(num_blocks) if b not in named)]
    order = list(range(num_blocks))
    rng = random.Random(seed)
    while num_blocks > 1:
        rng.shuffle(order)
        if order[0] != 0 and order[1] != order[0] + 1:
            break
    return order


class BlockPool:
    """``num_blocks`` blocks of ``block_size`` slots with reference counts.

    ``index`` (or None) is told when a block's content is forgotten. ``keep``: full registered blocks stay
    findable when their count reaches 0 (the prefix cache); otherwise they are freed at once.
    """

    def __init__(
        self, num_blocks: int, block_size: int, *, order: list[int], index: PrefixIndex | None, keep: bool
    ) -> None:
        self.num_blocks, self.block_size = num_blocks, block_size
        self.index, self._keep = index, keep
        self.ref = [0] * num_blocks  # ref 0: the block is free or cached
        self._free: deque[int] = deque(order)
        self._cached: dict[int, None] = {}  # oldest first
        self._tokens: dict[int, list[int]] = {}  # of every block that is not free
        self._usable: dict[int, int] = {}  # of used blocks: slots that their sequence can ever fill
        self.live_slots = 0  # written slots of used blocks
        self.reserved_slots = 0  # unwritten slots of used blocks that their sequence may still fill
        self.changed: set[int] = set()  # since the last snapshot

    @property
    def available(self) -> int:
        """Blocks that can be taken: the plain free ones and the cached ones."""
        return len(self._free) + len(self._cached)

    @property
    def num_cached(self) -> int:
        return len(self._cached)

    @property
    def num_used(self) -> int:
        return self.num_blocks - self.available

    @property
    def free_ids(self) -> tuple[int, ...]:
        """The plain free blocks, next one first."""
        return tuple(self._free)

    @property
    def cached_ids(self) -> tuple[int, ...]:
        """The cached blocks, oldest (next to be evicted) first."""
        return tuple(self._cached)

    def filled(self, block: int) -> int:
        """Written slots of a block; 0 when it is free."""
        return len(self._tokens.get(block, ()))

    def tokens(self, block: int) -> tuple[int, ...]:
        """What stands in the written slots of a block."""
        return tuple(self._tokens.get(block, ()))

    def view(self, block: int) -> BlockView | None:
        """A frozen picture of the block, or None when it is free."""
        tokens = self._tokens.get(block)
        if tokens is None:
            return None
        ref = self.ref[block]
        return BlockView(
            id=block,
            state="used" if ref else "cached",
            ref=ref,
            filled=len(tokens),
            token_ids=tuple(tokens),
        )

    def take(self, usable: int) -> tuple[int, bool]:
        """A block with ref 1, and whether it was a cached one, evicted for this. FIFO; cached ones last.

        ``usable``: how many of its slots the taker can ever fill. Raises PoolError when none is left.
        """
        evicted = not self._free
        if self._free:
            block = self._free.popleft()
        elif self._cached:
            block = next(iter(self._cached))
            del self._cached[block]
            self._forget(block)
        else:
            raise PoolError(f"all {self.num_blocks} blocks are held; check `available` before taking one.")
        self.ref[block] = 1
        self._tokens[block] = []
        self._usable[block] = usable
        self.reserved_slots += usable
        self.changed.add(block)
        return block, evicted

    def share(self, block: int) -> int:
        """One more table lists the block; a cached block becomes used again. Returns the count."""
        ref = self.ref[block]
        if not ref:
            if block not in self._cached:
                raise PoolError(f"block {block} is free; a free block holds nothing to share.")
            del self._cached[block]
            self._usable[block] = self.block_size
            self.live_slots += len(self._tokens[block])
            self.reserved_slots += self.block_size - len(self._tokens[block])
        self.ref[block] = ref + 1
        self.changed.add(block)
        return ref + 1

    def release(self, block: int) -> tuple[int, str | None]:
        """One table less lists the block. Returns (count, what became of it at 0: "free", "cache" or None).

        Raises PoolError when nobody holds it: a count below 0 would hand the block out twice.
        """
        ref = self.ref[block] - 1
        if ref < 0:
            raise PoolError(f"block {block} was released once more than it was taken.")
        self.ref[block] = ref
        self.changed.add(block)
        if ref:
            return ref, None
        filled = len(self._tokens[block])
        self.live_slots -= filled
        self.reserved_slots -= self._usable.pop(block) - filled
        if self._keep and self.index is not None and block in self.index:
            self._cached[block] = None
            return 0, "cache"
        self._forget(block)
        self._free.append(block)
        return 0, "free"

    def write(self, block: int, offset: int, token_ids: list[int]) -> None:
        """Keys and values of these tokens now stand at ``offset`` and onwards.

        Raises PoolError for a free or cached block and for a gap before ``offset``.
        """
        tokens = self._tokens.get(block)
        if tokens is None or not self.ref[block]:
            raise PoolError(f"block {block} is not held by any sequence and must not be written.")
        before = len(tokens)
        if offset > before or offset + len(token_ids) > self.block_size:
            raise PoolError(
                f"block {block} has {before} of {self.block_size} slots written; "
                f"{len(token_ids)} tokens at slot {offset} do not fit there."
            )
        tokens[offset : offset + len(token_ids)] = token_ids
        self.live_slots += len(tokens) - before
        self.reserved_slots -= len(tokens) - before
        self.changed.add(block)

    def copy(self, source: int, target: int) -> int:
        """The target now holds what the source holds. Returns the number of tokens copied."""
        self.write(target, 0, self._tokens[source])
        return len(self._tokens[source])

    def _forget(self, block: int) -> None:
        del self._tokens[block]
        if self.index is not None:
            self.index.forget(block)
