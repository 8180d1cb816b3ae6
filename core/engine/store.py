"""KVStore: the keys and values of all sequences, one tensor, block after block."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from core.engine.errors import PoolTooLarge
from kernels import copy_blocks

if TYPE_CHECKING:
    from core.config import EngineConfig
    from core.models.loaded import Geometry

MEMORY_SHARE = 0.9  # the most of the memory that is free now that a new pool may take


def blocks_for_bytes(num_bytes: int, geometry: Geometry, block_size: int) -> int:
    """How many whole blocks of ``block_size`` tokens fit into ``num_bytes``.

    Raises ValueError with the numbers when not even one does.
    """
    block_bytes = geometry.bytes_per_token * block_size
    if num_bytes < block_bytes:
        raise ValueError(
            f"A pool of {num_bytes:,} bytes holds no block: one block of {block_size} tokens takes "
            f"{block_bytes:,} bytes; choose a larger pool or smaller blocks."
        )
    return num_bytes // block_bytes


def pool_bytes(config: EngineConfig, geometry: Geometry) -> int:
    """Bytes that an engine with this configuration takes, its host blocks included."""
    return (config.num_blocks + used_host_blocks(config)) * config.block_size * geometry.bytes_per_token


def used_host_blocks(config: EngineConfig) -> int:
    """Host blocks are made only where preemption swaps."""
    return config.host_blocks if config.preempt == "swap" else 0


class KVStore:
    """The pool: one tensor, block-major, so that a block is one contiguous row.

        blocks [num_blocks, L, 2, block_size, Hkv, D]

                    layer 0             layer 1                  layer L-1
                 ┌─────────┬─────────┬─────────┬─────────┬─────┬─────────┬─────────┐
        block 0  │ K slots │ V slots │ K slots │ V slots │  …  │ K slots │ V slots │
                 ├─────────┼─────────┼─────────┼─────────┼─────┼─────────┼─────────┤
        block 1  │ K slots │ V slots │ K slots │ V slots │  …  │ K slots │ V slots │
                 └─────────┴─────────┴─────────┴─────────┴─────┴─────────┴─────────┘
                   each box: [block_size, Hkv, D]; slot s is block s // block_size, offset s % block_size

    Copy-on-write and swapping move one row. A layer sees a column: ``keys(l)`` and ``values(l)`` are
    strided views [num_blocks, block_size, Hkv, D].

    The pool is filled with NaN when it is made. A slot that nothing has been written to must never
    matter; if it ever did, every logit would be NaN instead of slightly wrong. It costs one fill.

    host [host_blocks, L, 2, block_size, Hkv, D] is the place for swapped blocks, in the host's memory
    (pinned where the pool is on a GPU); None without host blocks.
    """

    def __init__(
        self,
        num_blocks: int,
        block_size: int,
        geometry: Geometry,
        *,
        device: str | torch.device = "cpu",
        host_blocks: int = 0,
    ) -> None:
        """Raises PoolTooLarge with the numbers when the pool does not fit in the memory that is free."""
        self.block_size = block_size
        self.bytes_per_token = geometry.bytes_per_token
        dtype = getattr(torch, geometry.dtype)
        row = (geometry.layers, 2, block_size, geometry.kv_heads, geometry.head_dim)
        device = torch.device(device)
        self.blocks = self._make(num_blocks, row, dtype, device, pin=False)
        self.host: torch.Tensor | None = None
        if host_blocks:
            pin = device.type == "cuda"
            self.host = self._make(host_blocks, row, dtype, torch.device("cpu"), pin=pin)
        self.keys = [self.blocks[:, layer, 0] for layer in range(geometry.layers)]
        self.values = [self.blocks[:, layer, 1] for layer in range(geometry.layers)]

    def _make(
        self, count: int, row: tuple[int, ...], dtype: torch.dtype, device: torch.device, *, pin: bool
    ) -> torch.Tensor:
        need = count * self.block_size * self.bytes_per_token
        free = free_bytes(device)
        sentence = f"{count:,} blocks of {self.block_size} tokens take {need / 2**20:,.1f} MiB"
        if free is not None and need > MEMORY_SHARE * free:
            raise PoolTooLarge(
                f"{sentence}, and {free / 2**20:,.1f} MiB of memory are free on {device.type}; choose fewer "
                "or smaller blocks."
            )
        try:
            return torch.full((count, *row), float("nan"), dtype=dtype, device=device, pin_memory=pin)
        except RuntimeError as error:  # torch's out-of-memory errors, on every device
            raise PoolTooLarge(
                f"{sentence}, which {device.type} did not give; choose fewer or smaller blocks."
            ) from error

    @property
    def num_bytes(self) -> int:
        """Bytes of the pool and of the host blocks."""
        return self.blocks.nbytes + (self.host.nbytes if self.host is not None else 0)

    @torch.inference_mode()
    def copy(self, pairs: Sequence[tuple[int, int]]) -> None:
        """Copy whole blocks, pairs of (source, target): every source is read before any target is written."""
        if pairs:
            copy_blocks(self.blocks, list(pairs))

    @torch.inference_mode()
    def swap_out(self, pairs: Sequence[tuple[int, int]]) -> None:
        """Copy blocks to the host, pairs of (block, host block). Returns when the bytes are there."""
        for block, host_block in pairs:
            self._host()[host_block].copy_(self.blocks[block], non_blocking=True)
        self._wait()

    @torch.inference_mode()
    def swap_in(self, pairs: Sequence[tuple[int, int]]) -> None:
        """Copy host blocks back, pairs of (host block, block). Returns when the bytes are there."""
        for host_block, block in pairs:
            self.blocks[block].copy_(self._host()[host_block], non_blocking=True)
        self._wait()

    def _wait(self) -> None:
        if self.blocks.is_cuda:
            torch.cuda.synchronize(self.blocks.device)

    def _host(self) -> torch.Tensor:
        if self.host is None:
            raise ValueError("The store has no host blocks; make it with host_blocks above 0 to swap.")
        return self.host


def free_bytes(device: torch.device) -> int | None:
    """Bytes of memory that are free on the device; None where that cannot be told."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    try:
        import psutil
    except ImportError:
        return None
    return int(psutil.virtual_memory().available)
