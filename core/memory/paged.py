"""Block tables: append, fork, copy-on-write, prefix reuse, swap. Pure bookkeeping that says what to copy.

    logical   0    1    2          table [5, 2, 7]: position p of the sequence stands in
            ┌────┬────┬────┐       block table[p // block_size], slot p % block_size
    physical│ 5  │ 2  │ 7  │
            └────┴────┴────┘

Blocks are taken one by one as tokens need them, so that a table has ceil(written / block_size) entries after
every step. Every change appends its events; copies and swaps are returned as pairs for the tensor layer.
"""

from __future__ import annotations

from collections.abc import Iterable

from core.config import EngineConfig
from core.memory.block_pool import BlockPool, initial_order
from core.memory.events import (
    Allocate,
    Cache,
    Copy,
    Event,
    Evict,
    Fork,
    Free,
    Release,
    Share,
    SwapIn,
    SwapOut,
    Write,
)
from core.memory.host_pool import HostPool
from core.memory.prefix import PrefixIndex
from core.memory.sequence import Sequence


class PagedMemory:
    """The paged strategy: one pool, one optional prefix index, one optional host pool.

    Lists that fill up during a step and are taken by ``take_moves``: ``copies`` (source, target),
    ``swapped_out`` (block, host block), ``swapped_in`` (host block, block).
    """

    def __init__(self, config: EngineConfig) -> None:
        self.config = config
        self.block_size = config.block_size
        indexed = config.prefix_cache or config.sharing == "append-only"
        self.index = PrefixIndex(config.block_size) if indexed else None
        order = initial_order(config.num_blocks, config.free_order, config.seed)
        self.pool = BlockPool(
            config.num_blocks, config.block_size, order=order, index=self.index, keep=config.prefix_cache
        )
        self.host = HostPool(config.host_blocks)
        self.copies: list[tuple[int, int]] = []
        self.swapped_out: list[tuple[int, int]] = []
        self.swapped_in: list[tuple[int, int]] = []
        self.copied_tokens = 0
        self.touched: dict[str, Sequence] = {}  # sequences changed since the last snapshot

    def touch(self, seq: Sequence) -> None:
        """Remember that the picture of this sequence has to be drawn anew."""
        self.touched[seq.id] = seq

    def blocks_for(self, tokens: int) -> int:
        """Blocks that hold this many tokens: rounded up, 0 for 0."""
        return -(-tokens // self.block_size)

    # -- growing -----------------------------------------------------------------------------------------

    def blocks_needed(self, chunks: Iterable[tuple[Sequence, int]]) -> int:
        """How many blocks must be taken so that each sequence can write its next ``count`` tokens.

        New blocks plus copies: of k tables that write into a shared, partly filled block, all but the last
        holder copy.
        """
        need, writers = 0, dict[int, int]()
        for seq, count in chunks:
            need += self.blocks_for(seq.written + count) - len(seq.table)
            if seq.written % self.block_size and self.pool.ref[seq.table[-1]] > 1:
                writers[seq.table[-1]] = writers.get(seq.table[-1], 0) + 1
        if not self.config.copy_on_write_disabled:
            need += sum(min(k, self.pool.ref[block] - 1) for block, k in writers.items())
        return need

    def extend(self, seq: Sequence, count: int, events: list[Event]) -> None:
        """Make room for the next ``count`` tokens: copy a shared last block, then take new blocks.

        Raises PoolError when the pool runs out; ask ``blocks_needed`` first.
        """
        table, size = seq.table, self.block_size
        if seq.written % size and self.pool.ref[table[-1]] > 1 and not self.config.copy_on_write_disabled:
            self._copy_last(seq, events)
        for logical in range(len(table), self.blocks_for(seq.written + count)):
            block = self._take(seq, logical, events)
            table.append(block)
            seq.table_view = None
            events.append(Allocate(block, seq.id, logical))
        self.touched[seq.id] = seq

    def write(self, seq: Sequence, count: int, events: list[Event]) -> None:
        """The forward pass has written the next ``count`` tokens; full blocks are offered for reuse."""
        size, end = self.block_size, seq.written + count
        while seq.written < end:
            position = seq.written
            logical, offset = divmod(position, size)
            step = min(size - offset, end - position)
            block = seq.table[logical]
            self.pool.write(block, offset, seq.token_ids[position : position + step])
            events.append(Write(seq.id, position, block, offset, step))
            seq.written += step
        self.register(seq)
        self.touched[seq.id] = seq

    def register(self, seq: Sequence) -> None:
        """Offer the sequence's full blocks, whose keys and values now exist, to the prefix index."""
        if self.index is None:
            return
        for logical in range(seq.registered, seq.written // self.block_size):
            before = seq.table[logical - 1] if logical else None
            self.index.register(seq.table[logical], before, self.pool.tokens(seq.table[logical]))
            seq.registered = logical + 1

    # -- sharing -----------------------------------------------------------------------------------------

    def fork(self, parent: Sequence, child: Sequence, events: list[Event]) -> None:
        """The child begins with the parent's tokens and, as the sharing rule allows, with its blocks.

        copy-on-write: all blocks, the partly filled one too. append-only: full blocks, found by content (so
        it may get a twin of the parent's block). none: nothing. What is not shared the child computes again.
        """
        events.append(Fork(parent.id, child.id))
        if self.config.sharing == "copy-on-write":
            self.share(child, parent.table, "fork", events)
        elif self.config.sharing == "append-only":
            full = parent.written // self.block_size
            self.share(child, self.find(parent.token_ids, full), "prefix", events)
        self.touched[child.id] = child

    def find(self, token_ids: list[int], max_blocks: int) -> list[int]:
        """Full blocks that hold the start of this text, by content."""
        return self.index.lookup(token_ids, max_blocks) if self.index is not None else []

    def share(self, seq: Sequence, blocks: list[int], cause: str, events: list[Event]) -> None:
        """List ``blocks``, which hold the sequence's next tokens, at the end of its table of full blocks."""
        for block in blocks:
            ref = self.pool.share(block)
            events.append(Share(block, seq.id, len(seq.table), ref, cause))
            seq.table.append(block)
            seq.written += self.pool.filled(block)
        seq.registered = seq.written // self.block_size  # whoever wrote them has offered them
        seq.table_view = None
        self.touched[seq.id] = seq

    # -- giving back -------------------------------------------------------------------------------------

    def release(self, seq: Sequence, events: list[Event]) -> None:
        """Give all blocks back, the end of the table first, so that tails are evicted before heads."""
        for block in reversed(seq.table):
            ref, then = self.pool.release(block)
            events.append(Release(block, seq.id, ref))
            if then is not None:
                events.append(Cache(block) if then == "cache" else Free(block))
        seq.table.clear()
        seq.table_view, seq.registered = None, 0
        self.touched[seq.id] = seq

    # -- host --------------------------------------------------------------------------------------------

    def swap_out(self, group: list[Sequence], events: list[Event]) -> None:
        """Move the group's blocks to the host: each physical block once, however many share it."""
        holders: dict[int, int] = {}
        for seq in group:
            for block in seq.table:
                holders[block] = holders.get(block, 0) + 1
        home: dict[int, int] = {}
        for block, count in holders.items():
            home[block] = self.host.store(self.pool.tokens(block), count)
            self.swapped_out.append((block, home[block]))
            events.append(SwapOut(block, home[block]))
        for seq in group:
            seq.host_table = [home[block] for block in seq.table]
            self.release(seq, events)

    def swap_in(self, group: list[Sequence], events: list[Event]) -> None:
        """Bring the group's blocks back; the first that lists a block swaps it in, the others share it."""
        home: dict[int, int] = {}
        for seq in group:
            for logical, source in enumerate(seq.host_table):
                if source in home:
                    ref = self.pool.share(home[source])
                    events.append(Share(home[source], seq.id, logical, ref, "swap"))
                else:
                    block = home[source] = self._take(seq, logical, events)
                    self.pool.write(block, 0, list(self.host.tokens(source)))
                    self.swapped_in.append((source, block))
                    events.append(SwapIn(block, source, seq.id, logical))
                seq.table.append(home[source])
            self.drop_host(seq)
            seq.table_view = None

    def drop_host(self, seq: Sequence) -> None:
        """The sequence awaits its host blocks no longer."""
        for block in seq.host_table:
            self.host.release(block)
        seq.host_table = []
        self.touched[seq.id] = seq

    def take_moves(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        """(swap out, swap in, copies) since the last call: to be carried out in this order."""
        moves = (tuple(self.swapped_out), tuple(self.swapped_in), tuple(self.copies))
        self.swapped_out, self.swapped_in, self.copies = [], [], []
        return moves

    # -- inside ------------------------------------------------------------------------------------------

    def _usable(self, seq: Sequence, logical: int) -> int:
        """Slots of its logical block that the sequence can ever fill."""
        return min(self.block_size, seq.limit - logical * self.block_size)

    def _take(self, seq: Sequence, logical: int, events: list[Event]) -> int:
        block, evicted = self.pool.take(self._usable(seq, logical))
        if evicted:
            events.append(Evict(block))
        return block

    def _copy_last(self, seq: Sequence, events: list[Event]) -> None:
        """Copy-on-write of the last block: the writer leaves the shared one to the others."""
        logical = len(seq.table) - 1
        source = seq.table[logical]
        target = self._take(seq, logical, events)
        tokens = self.pool.copy(source, target)
        self.pool.release(source)
        seq.table[logical] = target
        seq.table_view = None
        self.copies.append((source, target))
        self.copied_tokens += tokens
        events.append(Copy(source, target, seq.id, logical, tokens))
