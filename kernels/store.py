"""store: put the keys and values of this step's tokens into their slots.

    k, v      [T, Hkv, D]                       any strides with the last dimension dense
    k_cache   [num_blocks, block_size, Hkv, D]  a layer's view of the block-major pool
    slot s of token t  ->  k_cache[s // block_size, s % block_size] = k[t];  s = -1: the token is skipped

Memory traffic: each of the T * Hkv * D elements of k and of v is read once and written once,
4 * T * Hkv * D * element_size bytes, and 8 bytes a token for the slot.
"""

from __future__ import annotations

from torch import Tensor


def store_kv_reference(k: Tensor, v: Tensor, k_cache: Tensor, v_cache: Tensor, slot_mapping: Tensor) -> None:
    """The specification, token by token."""
    block_size = k_cache.shape[1]
    for t, slot in enumerate(slot_mapping.tolist()):
        if slot >= 0:
            k_cache[slot // block_size, slot % block_size] = k[t]
            v_cache[slot // block_size, slot % block_size] = v[t]
