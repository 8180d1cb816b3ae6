"""A store of single slots for strategies that hold contiguous runs: the same tensors' worth of bytes, the
same attention path, with blocks of one slot."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import torch

from core.memory.holders import Copied

if TYPE_CHECKING:
    from core.models.loaded import Geometry


class SlotStore:
    """Keys and values by slot, layer by layer: a run is contiguous memory in every layer.

        data [L, 2, num_slots, 1, Hkv, D]    ``keys[l]``, ``values[l]``: [num_slots, 1, Hkv, D]

    Filled with NaN, as the paged store is: a slot that nothing has written to must never matter.
    """

    def __init__(self, num_slots: int, geometry: Geometry, device: str | torch.device = "cpu") -> None:
        self.bytes_per_token = geometry.bytes_per_token
        shape = (geometry.layers, 2, num_slots, 1, geometry.kv_heads, geometry.head_dim)
        self.data = torch.full(shape, float("nan"), dtype=getattr(torch, geometry.dtype), device=device)
        self.keys = [self.data[layer, 0] for layer in range(geometry.layers)]
        self.values = [self.data[layer, 1] for layer in range(geometry.layers)]

    @torch.inference_mode()
    def copy(self, copies: Iterable[Copied]) -> int:
        """Carry out copies one after the other, each reading all before it writes. Returns the bytes
        copied."""
        tokens = 0
        for source, target, count in copies:
            run = self.data[:, :, source : source + count]
            if abs(source - target) < count:
                run = run.clone()
            self.data[:, :, target : target + count] = run
            tokens += count
        return tokens * self.bytes_per_token
