"""Decode steps through CUDA graphs: the launches of a whole model replayed as one.

Prefill and mixed steps, and contexts longer than the model length of the configuration, run as they are. On a
CPU the same padding runs without a recording, which is how all but the recording is tested. The recording
itself (torch.cuda.graph in kernels/graphs.py) has not been run: no GPU was to be had.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from core.config import EngineConfig
from core.engine.batch import PackedBatch
from core.engine.bridge import forward
from core.engine.store import KVStore
from kernels import PagedBatch
from kernels.graphs import DecodeGraphs
from kernels.warm import warm_up

if TYPE_CHECKING:
    from core.models.loaded import LoadedModel


class GraphedForward:
    """``forward`` for one model on one store; the same logits [R, V], by graph where a step only decodes."""

    def __init__(self, model: LoadedModel, store: KVStore, config: EngineConfig) -> None:
        """Compiles the kernels on a GPU; a batch size is recorded when it first occurs."""
        self._model, self._store = model, store
        longest = -(-config.max_model_len // config.block_size)
        self._graphs = DecodeGraphs(self._rows, config.block_size, longest, torch.device(model.device))
        with model.lock:
            warm_up(store.blocks, model.geometry.query_heads)

    @torch.inference_mode()
    def __call__(self, packed: PackedBatch) -> torch.Tensor:
        """Logits [R, V] of the rows that sample. The model's lock is held, while recording too."""
        with self._model.lock:
            if not self._graphs.fits(packed.paged):
                return forward(self._model, self._store, packed)
            logits = self._graphs.run(packed.input_ids[0], packed.position_ids[0], packed.paged)
            return logits[packed.last_rows]  # a copy: the next replay overwrites them

    def _rows(self, ids: torch.Tensor, positions: torch.Tensor, batch: PagedBatch) -> torch.Tensor:
        """ids [N], positions [N] -> logits [N, V]: one forward pass of decode rows, padding among them."""
        every = torch.arange(ids.shape[0], device=ids.device)
        return forward(self._model, self._store, PackedBatch(ids[None], positions[None], every, batch, ()))
