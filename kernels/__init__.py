"""Paged attention on tensors: kernels, each beside its plain reference. Needs torch; Triton only on a GPU."""

from kernels.batch import PagedBatch
from kernels.dispatch import copy_blocks, paged_attention, store_kv
from kernels.linears import PackReport, pack_linears, unpack
from kernels.norms import fuse_norms

__all__ = [
    "PackReport",
    "PagedBatch",
    "copy_blocks",
    "fuse_norms",
    "pack_linears",
    "paged_attention",
    "store_kv",
    "unpack",
]
