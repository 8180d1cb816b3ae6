"""copy: all of a step's block copies, all layers, keys and values, in one launch.

    store  [num_blocks, L, 2, block_size, Hkv, D]   block-major: a block is one run of memory
    pairs  [(source, target), ...]                  all reads happen before all writes

Element e of a block only ever meets element e of other blocks. So a program takes one stretch of elements
through a whole chain or cycle of copies, in an order in which nothing is overwritten before it has been read
(pairs.py); a cycle is opened by holding one stretch in registers. That needs neither a second launch nor a
staging area, which "first read everything, then write everything" would need across programs.

    grid (stretches of a block, independent chains)     ops [n, 2] int64, -1: the registers' stretch
                                                        spans [chains + 1]: where each chain's ops start

Memory traffic: each pair reads one block and writes one, 2 * block bytes; a cycle adds nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from kernels.lang import check_tensors, jit, tl
from kernels.pairs import check_pairs, copy_orders

STRETCH = 2048  # elements that one program carries
WARPS = 8


def copy_blocks_reference(store: Tensor, pairs: Sequence[tuple[int, int]]) -> None:
    """The specification: read all sources, then write all targets."""
    read = [store[source].clone() for source, _ in pairs]
    for block, (_, target) in zip(read, pairs, strict=True):
        store[target] = block


@jit("elements")
def copy_kernel(store_ptr, ops_ptr, spans_ptr, elements, block_stride, STRETCH: tl.constexpr):
    """One program: one stretch of every block of one chain. Grid: (stretches, chains)."""
    e = tl.program_id(0).to(tl.int64) * STRETCH + tl.arange(0, STRETCH)
    real = e < elements
    saved = tl.load(store_ptr + e, mask=real & (e < 0), other=0)  # zeros of the store's type
    for i in range(tl.load(spans_ptr + tl.program_id(1)), tl.load(spans_ptr + tl.program_id(1) + 1)):
        source, target = tl.load(ops_ptr + 2 * i), tl.load(ops_ptr + 2 * i + 1)
        x = tl.load(store_ptr + source * block_stride + e, mask=real & (source >= 0), other=0)
        x = tl.where(source < 0, saved, x)
        tl.store(store_ptr + target * block_stride + e, x, mask=real & (target >= 0))
        saved = tl.where(target < 0, x, saved)
        tl.debug_barrier()  # the next read of a block that was written here sees it, whichever thread reads


def copy_blocks_triton(store: Tensor, pairs: Sequence[tuple[int, int]]) -> None:
    """Launch ``copy_kernel``. ValueError for pairs outside the pool, a target named twice, ragged blocks."""
    pairs = check_pairs(pairs, store.shape[0])
    if not pairs:
        return
    check_tensors(
        "copy", *([] if store.dtype == torch.bfloat16 else [store]), torch.empty(0, device=store.device)
    )
    if not store[0].is_contiguous():
        raise ValueError(f"copy: a block has strides {store[0].stride()}; a block must be one run of memory.")
    orders = copy_orders(pairs)
    spans = [0]
    for order in orders:
        spans.append(spans[-1] + len(order))
    ops = torch.tensor([op for order in orders for op in order], dtype=torch.int64, device=store.device)
    flat = store.as_strided((store.shape[0], store[0].numel()), (store.stride(0), 1))
    integers = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[store.element_size()]
    flat = flat.view(integers)  # bits are carried, not numbers
    copy_kernel[(-(-flat.shape[1] // STRETCH), len(orders))](
        flat, ops, torch.tensor(spans, dtype=torch.int32, device=store.device), flat.shape[1], flat.stride(0),
        STRETCH=STRETCH, num_warps=WARPS,
    )  # fmt: skip
