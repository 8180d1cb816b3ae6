"""store: put the keys and values of this step's tokens into their slots.

    k, v      [T, Hkv, D]                       any strides with the last dimension dense
    k_cache   [num_blocks, block_size, Hkv, D]  a layer's view of the block-major pool
    slot s of token t  ->  k_cache[s // block_size, s % block_size] = k[t];  s = -1: the token is skipped

Memory traffic: each of the T * Hkv * D elements of k and of v is read once and written once,
4 * T * Hkv * D * element_size bytes, and 8 bytes a token for the slot.
No autotuning: trying a kernel that writes in place more than once is only harmless by luck.
"""

from __future__ import annotations

from torch import Tensor

from kernels.checks import check_dense
from kernels.lang import check_tensors, jit, pow2, tl

TILE = 2048  # elements that one program moves at a time


def store_kv_reference(k: Tensor, v: Tensor, k_cache: Tensor, v_cache: Tensor, slot_mapping: Tensor) -> None:
    """The specification, token by token."""
    block_size = k_cache.shape[1]
    for t, slot in enumerate(slot_mapping.tolist()):
        if slot >= 0:
            k_cache[slot // block_size, slot % block_size] = k[t]
            v_cache[slot // block_size, slot % block_size] = v[t]


@jit("block_size")
def store_kernel(
    k_ptr, v_ptr, k_cache_ptr, v_cache_ptr, slots_ptr,
    block_size, k_token, k_head, v_token, v_head,
    kc_block, kc_slot, kc_head, vc_block, vc_slot, vc_head,
    HEADS: tl.constexpr, DIM: tl.constexpr, BLOCK_H: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """One program: some heads of one token. Grid: (T, head tiles)."""
    token = tl.program_id(0).to(tl.int64)
    slot = tl.load(slots_ptr + token)  # int64: a slot times a stride may pass 2**31
    head = tl.program_id(1) * BLOCK_H + tl.arange(0, BLOCK_H)[:, None]
    dim = tl.arange(0, BLOCK_D)[None, :]
    # Masked on both padded axes; a skipped token masks everything.
    real = (head < HEADS) & (dim < DIM) & (slot >= 0)
    block, offset = slot // block_size, slot % block_size
    k = tl.load(k_ptr + token * k_token + head * k_head + dim, mask=real, other=0.0)
    tl.store(k_cache_ptr + block * kc_block + offset * kc_slot + head * kc_head + dim, k, mask=real)
    v = tl.load(v_ptr + token * v_token + head * v_head + dim, mask=real, other=0.0)
    tl.store(v_cache_ptr + block * vc_block + offset * vc_slot + head * vc_head + dim, v, mask=real)


def store_config(heads: int, dim: int) -> dict[str, int]:
    """Compile-time sizes of ``store_kernel``."""
    block_d = pow2(dim)
    return {
        "HEADS": heads,
        "DIM": dim,
        "BLOCK_H": min(pow2(heads), max(1, TILE // block_d)),
        "BLOCK_D": block_d,
    }


def store_kv_triton(k: Tensor, v: Tensor, k_cache: Tensor, v_cache: Tensor, slot_mapping: Tensor) -> None:
    """Launch ``store_kernel``. Shapes as above. ValueError where they do not fit each other."""
    check_tensors("store", k, v, k_cache, v_cache, slot_mapping)
    tokens, heads, dim = k.shape
    if k.shape != v.shape or k_cache.shape[2:] != (heads, dim) or v_cache.shape != k_cache.shape:
        raise ValueError(
            f"store: keys {tuple(k.shape)} and values {tuple(v.shape)} do not fit caches "
            f"{tuple(k_cache.shape)} and {tuple(v_cache.shape)}; heads and width must agree."
        )
    if slot_mapping.shape != (tokens,):
        raise ValueError(f"store: {tuple(slot_mapping.shape)} slots for {tokens} tokens; give one each.")
    check_dense("store", k_cache, v_cache)
    if dim % 16 or k.stride(2) != 1 or v.stride(2) != 1:
        k, v = k.contiguous(), v.contiguous()  # strides that stay the same from step to step
    if not tokens:
        return
    config = store_config(heads, dim)
    grid = (tokens, -(-heads // config["BLOCK_H"]))
    store_kernel[grid](
        k, v, k_cache, v_cache, slot_mapping, k_cache.shape[1], *k.stride()[:2], *v.stride()[:2],
        *k_cache.stride()[:3], *v_cache.stride()[:3], **config, num_warps=4,
    )  # fmt: skip
