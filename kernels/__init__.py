"""Paged attention on tensors: kernels, each beside its plain reference. Needs torch; Triton only on a GPU."""

from kernels.batch import PagedBatch
from kernels.dispatch import copy_blocks, paged_attention, store_kv

__all__ = ["PagedBatch", "copy_blocks", "paged_attention", "store_kv"]
