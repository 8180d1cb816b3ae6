"""CUDA graphs for decode: a step's hundreds of launches recorded once, replayed as one.

Small models are bound by launches, not by arithmetic. A graph replays the same kernels on the same addresses,
so its inputs live in fixed buffers, and a batch is padded to one of a few sizes:

    batch of 3, size 4      ids        [a b c 0]        slot_mapping [7 9 2 -1]     -1: writes nowhere
                            kv_lens    [5 3 8 0]        0: reads nothing, its output is zero and thrown away
                            cu_q       [0 1 2 3 4]      block_tables: stale entries lie behind kv_len, never
                            read

On a CPU the same padding runs without recording, which is how it is tested.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from kernels.batch import PagedBatch

SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
Forward = Callable[[Tensor, Tensor, PagedBatch], Tensor]  # ids [N], positions [N], batch -> logits [N, V]


def padded_size(n: int, sizes: Sequence[int] = SIZES) -> int | None:
    """The smallest size that holds ``n`` sequences, or None where none does."""
    return min((size for size in sizes if size >= n), default=None)


@dataclass(slots=True)
class StaticInputs:
    """Fixed buffers for one batch size."""

    ids: Tensor  # [N] int64
    positions: Tensor  # [N] int64
    slot_mapping: Tensor  # [N] int64
    block_tables: Tensor  # [N, max_blocks] int32
    cu_q: Tensor  # [N + 1] int32
    kv_lens: Tensor  # [N] int32

    @classmethod
    def make(cls, size: int, max_blocks: int, device: torch.device | str) -> StaticInputs:
        """Buffers in which every row is padding."""
        whole = {"dtype": torch.int64, "device": device}
        small = {"dtype": torch.int32, "device": device}
        return cls(
            ids=torch.zeros(size, **whole),
            positions=torch.zeros(size, **whole),
            slot_mapping=torch.full((size,), -1, **whole),
            block_tables=torch.zeros(size, max_blocks, **small),
            cu_q=torch.arange(size + 1, **small),
            kv_lens=torch.zeros(size, **small),
        )

    def fill(self, ids: Tensor, positions: Tensor, batch: PagedBatch) -> None:
        """Copy a decode batch in; the rows behind it become padding."""
        n, width = batch.num_seqs, batch.block_tables.shape[1]
        self.ids[:n].copy_(ids)
        self.positions[:n].copy_(positions)
        self.slot_mapping[:n].copy_(batch.slot_mapping)
        self.block_tables[:n, :width].copy_(batch.block_tables)
        self.kv_lens[:n].copy_(batch.kv_lens)
        self.ids[n:].zero_()
        self.positions[n:].zero_()
        self.slot_mapping[n:].fill_(-1)
        self.kv_lens[n:].zero_()


@dataclass(slots=True)
class Recorded:
    """One size's graph: its inputs, its outputs, and the recording (None on a CPU)."""

    inputs: StaticInputs
    graph: Any = None
    logits: Tensor | None = None


@dataclass(slots=True)
class DecodeGraphs:
    """Graphs of one model, recorded when a size is first needed (or by ``record``, ahead of the lesson).

    forward     ids [N], positions [N], batch -> logits [N, V]; it may do nothing that waits for the device
    max_blocks  the widest block table; longer contexts run without a graph
    """

    forward: Forward
    block_size: int
    max_blocks: int
    device: torch.device
    sizes: Sequence[int] = SIZES
    recorded: dict[int, Recorded] = field(default_factory=dict)
    pool: Any = None  # memory that all sizes share: only one of them runs at a time

    def fits(self, batch: PagedBatch) -> bool:
        """Whether this batch can run as a graph: decode rows only, not too many, contexts not too long."""
        return (
            batch.num_seqs > 0
            and all(q == 1 for q in batch.q_lens)
            and batch.block_tables.shape[1] <= self.max_blocks
            and padded_size(batch.num_seqs, self.sizes) is not None
        )

    def run(self, ids: Tensor, positions: Tensor, batch: PagedBatch) -> Tensor:
        """Logits [n, V] of a batch that ``fits``. They are overwritten by the next run of the same size."""
        size = padded_size(batch.num_seqs, self.sizes)
        if size is None or not self.fits(batch):
            raise ValueError(
                f"{batch.num_seqs} sequences with up to {batch.max_q} new tokens do not fit a decode graph "
                f"of at most {max(self.sizes)}; run them without one."
            )
        if size not in self.recorded:
            self.record(size)
        kept = self.recorded[size]
        kept.inputs.fill(ids, positions, batch)
        if kept.graph is None:
            kept.logits = self.forward(kept.inputs.ids, kept.inputs.positions, self._batch(kept.inputs))
        else:
            kept.graph.replay()
        assert kept.logits is not None
        return kept.logits[: batch.num_seqs]

    def record(self, size: int) -> None:
        """Prepare one size; on a GPU, capture it. All rows are padding meanwhile: nothing is written.

        The capture has not been run yet: no GPU was to be had. Nothing may be copied from the host within it,
        so the launch plan is made by the runs before it, on the same batch.
        """
        kept = Recorded(StaticInputs.make(size, self.max_blocks, self.device))
        if self.device.type == "cuda":
            batch = self._batch(kept.inputs)
            stream = torch.cuda.Stream(self.device)
            stream.wait_stream(torch.cuda.current_stream(self.device))
            with torch.cuda.stream(stream):  # lazy set-up (kernels, libraries) must not fall into the capture
                for _ in range(2):
                    self.forward(kept.inputs.ids, kept.inputs.positions, batch)
            torch.cuda.current_stream(self.device).wait_stream(stream)
            kept.graph = torch.cuda.CUDAGraph()
            # Other threads (another tab's pool) may go on allocating meanwhile: "thread_local".
            with torch.cuda.graph(kept.graph, pool=self.pool, capture_error_mode="thread_local"):
                kept.logits = self.forward(kept.inputs.ids, kept.inputs.positions, batch)
            self.pool = kept.graph.pool()
        self.recorded[size] = kept

    def _batch(self, inputs: StaticInputs) -> PagedBatch:
        """A view of the buffers. A GPU's kernels read the lengths themselves; splits assume the longest."""
        tensors = (inputs.slot_mapping, inputs.block_tables, inputs.cu_q, inputs.kv_lens, self.block_size)
        if self.device.type != "cuda":
            return PagedBatch.from_tensors(*tensors)
        size, longest = inputs.ids.shape[0], self.max_blocks * self.block_size
        return PagedBatch(*tensors, 1, longest, [1] * size, [longest] * size)
