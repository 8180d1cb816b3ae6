"""PagedBatch: where each sequence of a packed step lies in the pool, and how many of its tokens are computed.

A step packs the tokens of all its sequences behind one another (T tokens, S sequences):

    token      0 1 2 3 4 | 5 | 6          q_lens  5 1 1     cu_q 0 5 6 7
    sequence   0 0 0 0 0 | 1 | 2          kv_lens 5 9 3     (keys that the sequence can see, itself included)

    block_tables  [[7, 2, -1],            position p of sequence s lies in block block_tables[s, p // bs],
                   [4, 0, 5],             at slot p % bs of that block
                   [1, -1, -1]]

A padding row has kv_len 0 and slot -1: it writes nowhere, and its output is zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor


@dataclass(slots=True)
class PagedBatch:
    """One step's view of the pool. Built once a step, read by every layer.

    slot_mapping  [T] int64       slot (block * block_size + offset) of each token's key and value; -1: none
    block_tables  [S, max_blocks] int32, unused entries -1
    cu_q          [S + 1] int32   where each sequence's tokens start in the packed batch
    kv_lens       [S] int32       keys that each sequence reads, the new ones included; 0: a padding row
    q_lens, lens                  the same as Python lists, so that no device has to be asked
    max_q, max_kv                 longest of each

    splits                        among how many programs a GPU shares a sequence's keys; None: it chooses

    ``plans`` holds what a device's path computes once a step and reuses in every layer.
    """

    slot_mapping: Tensor
    block_tables: Tensor
    cu_q: Tensor
    kv_lens: Tensor
    block_size: int
    max_q: int
    max_kv: int
    q_lens: list[int]
    lens: list[int]
    splits: int | None = None
    plans: dict[Any, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def build(
        cls,
        slot_mapping: Sequence[int],
        block_tables: Sequence[Sequence[int]],
        q_lens: Sequence[int],
        kv_lens: Sequence[int],
        block_size: int,
        device: torch.device | str = "cpu",
    ) -> PagedBatch:
        """Check the Python lists and move them to ``device``. ValueError where they contradict each other."""
        check_lists(slot_mapping, block_tables, q_lens, kv_lens, block_size)
        width = max((len(t) for t in block_tables), default=0) or 1
        padded = [[*t, *(-1 for _ in range(width - len(t)))] for t in block_tables]
        starts = [0]
        for n in q_lens:
            starts.append(starts[-1] + n)
        return cls(
            slot_mapping=torch.tensor(slot_mapping, dtype=torch.int64, device=device),
            block_tables=torch.tensor(padded, dtype=torch.int32, device=device).reshape(-1, width),
            cu_q=torch.tensor(starts, dtype=torch.int32, device=device),
            kv_lens=torch.tensor(kv_lens, dtype=torch.int32, device=device),
            block_size=block_size,
            max_q=max(q_lens, default=0),
            max_kv=max(kv_lens, default=0),
            q_lens=list(q_lens),
            lens=list(kv_lens),
        )

    @classmethod
    def from_tensors(
        cls, slot_mapping: Tensor, block_tables: Tensor, cu_q: Tensor, kv_lens: Tensor, block_size: int
    ) -> PagedBatch:
        """Wrap tensors that exist already (reads the lengths back, so a GPU is waited for)."""
        starts, lens = cu_q.tolist(), kv_lens.tolist()
        q_lens = [b - a for a, b in pairwise(starts)]
        return cls(
            slot_mapping,
            block_tables,
            cu_q,
            kv_lens,
            block_size,
            max(q_lens, default=0),
            max(lens, default=0),
            q_lens,
            lens,
        )

    @property
    def num_tokens(self) -> int:
        """T: tokens in the packed batch."""
        return self.slot_mapping.shape[0]

    @property
    def num_seqs(self) -> int:
        """S: sequences, padding rows included."""
        return self.kv_lens.shape[0]

    @property
    def decode_only(self) -> bool:
        """Whether every sequence computes at most one token."""
        return self.max_q <= 1

    def launch(self, query_heads: int, kv_heads: int, dim: int, dtype: torch.dtype) -> tuple[Tensor, int]:
        """The GPU kernels' plan: prefill's tile list [tiles, 2] int32, decode's splits (0: no such rows)."""
        name = ("launch", query_heads, kv_heads, dim, dtype)
        if name not in self.plans:
            from kernels.decode import choose_splits, decode_config
            from kernels.prefill import prefill_config, tile_list

            group, device = query_heads // kv_heads, self.kv_lens.device
            block_q = prefill_config(group, dim, dtype)["BLOCK_M"] // group
            tiles = torch.tensor(tile_list(self.q_lens, self.lens, block_q), dtype=torch.int32, device=device)
            splits = 0
            if 1 in self.q_lens:
                cores = (
                    torch.cuda.get_device_properties(device).multi_processor_count
                    if self.kv_lens.is_cuda
                    else 1
                )
                tile = decode_config(group, dim, dtype)["TILE"]
                splits = self.splits or choose_splits(
                    self.q_lens.count(1), kv_heads, self.max_kv, cores, tile
                )
            self.plans[name] = tiles.reshape(-1, 2), splits
        return self.plans[name]


def check_blocks(batch: PagedBatch, num_blocks: int) -> None:
    """Raise ValueError where a table names a block that the pool does not have."""
    highest = int(batch.block_tables.max()) if batch.block_tables.numel() else -1
    if highest >= num_blocks:
        raise ValueError(
            f"a block table names block {highest}, but the pool has {num_blocks}; use 0 to {num_blocks - 1}."
        )


def check_lists(
    slot_mapping: Sequence[int],
    block_tables: Sequence[Sequence[int]],
    q_lens: Sequence[int],
    kv_lens: Sequence[int],
    block_size: int,
) -> None:
    """Raise ValueError, one sentence, where the lists of a batch contradict each other."""
    if block_size < 1:
        raise ValueError(f"the block size is {block_size}; it must be at least 1.")
    if not len(block_tables) == len(q_lens) == len(kv_lens):
        raise ValueError(
            f"{len(block_tables)} block tables, {len(q_lens)} query lengths, {len(kv_lens)} context lengths; "
            "give one of each for every sequence."
        )
    if sum(q_lens) != len(slot_mapping):
        raise ValueError(
            f"the query lengths add up to {sum(q_lens)} for {len(slot_mapping)} slots; make them agree."
        )
    for s, (table, q, kv) in enumerate(zip(block_tables, q_lens, kv_lens, strict=True)):
        if q < 0 or kv < 0 or (kv and q > kv):
            raise ValueError(
                f"sequence {s} computes {q} tokens but reads {kv}; it must read at least what it computes."
            )
        if len(table) * block_size < kv:
            raise ValueError(
                f"sequence {s} reads {kv} tokens but its table of {len(table)} blocks of {block_size} holds "
                f"{len(table) * block_size}; give it more blocks."
            )
        if kv and min(table[: -(-kv // block_size)]) < 0:
            raise ValueError(
                f"the block table of sequence {s} has a hole within its first {kv} tokens; fill it."
            )
