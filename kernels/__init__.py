"""Paged attention on tensors: kernels, each beside its plain reference. Needs torch; Triton only on a GPU."""

from kernels.batch import PagedBatch
from kernels.dispatch import copy_blocks, paged_attention, store_kv
from kernels.linears import PackReport, pack_linears, unpack

__all__ = ["PackReport", "PagedBatch", "copy_blocks", "pack_linears", "paged_attention", "store_kv", "unpack"]
