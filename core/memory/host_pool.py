"""Blocks on the host that hold what preempted sequences will need again."""

from __future__ import annotations

from collections import deque

from core.memory.block_pool import PoolError
from core.memory.views import BlockView


class HostPool:
    """``num_blocks`` host blocks. ``ref`` counts the swapped-out sequences that will list the block again."""

    def __init__(self, num_blocks: int) -> None:
        self._free: deque[int] = deque(range(num_blocks))
        self._tokens: dict[int, tuple[int, ...]] = {}
        self.ref: dict[int, int] = {}
        self.changed: set[int] = set()  # since the last snapshot

    @property
    def num_free(self) -> int:
        return len(self._free)

    def store(self, token_ids: tuple[int, ...], ref: int) -> int:
        """Take a host block for these tokens, awaited by ``ref`` sequences. Raises PoolError when full."""
        if not self._free:
            raise PoolError("the host pool is full; check `num_free` before swapping out.")
        block = self._free.popleft()
        self._tokens[block] = token_ids
        self.ref[block] = ref
        self.changed.add(block)
        return block

    def tokens(self, block: int) -> tuple[int, ...]:
        return self._tokens[block]

    def release(self, block: int) -> None:
        """One sequence less awaits the block; at 0 it is free. Raises PoolError when nobody awaits it."""
        if not self.ref.get(block):
            raise PoolError(f"host block {block} was released once more than it was taken.")
        self.ref[block] -= 1
        self.changed.add(block)
        if not self.ref[block]:
            del self.ref[block], self._tokens[block]
            self._free.append(block)

    def view(self, block: int) -> BlockView | None:
        """A frozen picture of the host block, or None when it is free."""
        if block not in self.ref:
            return None
        tokens = self._tokens[block]
        return BlockView(id=block, state="used", ref=self.ref[block], filled=len(tokens), token_ids=tokens)
