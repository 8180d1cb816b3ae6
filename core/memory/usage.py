"""Where every slot of the paged pool stands, from running totals: nothing is scanned."""

from __future__ import annotations

from core.memory.block_pool import BlockPool
from core.memory.views import Usage


def paged_usage(pool: BlockPool, *, copied: int, running: int, waiting: int) -> Usage:
    """live, reserved, internal, cached, free of the pool, in token slots; a shared slot counts once.

    ``reserved``: unwritten slots of a last block that its sequence may still fill, up to prompt +
    max_new_tokens - 1. ``internal``: unwritten and beyond that. ``external`` is 0: any free block will do.
    """
    size = pool.block_size
    held = pool.num_used * size
    cached = pool.num_cached * size
    return Usage(
        strategy="paged",
        capacity=pool.num_blocks * size,
        live=pool.live_slots,
        reserved=pool.reserved_slots,
        internal=held - pool.live_slots - pool.reserved_slots,
        cached=cached,
        free=pool.num_blocks * size - held - cached,
        copied=copied,
        running=running,
        waiting=waiting,
    )
