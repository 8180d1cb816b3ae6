"""The store and copy kernels: what they write, and what they must leave alone."""

from __future__ import annotations

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kernels.copy import copy_blocks_reference, copy_blocks_triton
from kernels.store import store_kv_reference, store_kv_triton

QUIET = {"deadline": None, "suppress_health_check": list(HealthCheck), "derandomize": True}


def same(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Equal, and NaN in the same places."""
    return torch.equal(a.isnan(), b.isnan()) and torch.equal(a.nan_to_num(), b.nan_to_num())


@given(
    tokens=st.integers(0, 9),
    heads=st.sampled_from([1, 2, 3]),
    dim=st.sampled_from([8, 64, 80, 120]),
    block_size=st.sampled_from([1, 3, 4, 16]),
    seed=st.integers(0, 99),
)
@settings(max_examples=15, **QUIET)
def test_store_equals_the_reference(tokens: int, heads: int, dim: int, block_size: int, seed: int) -> None:
    rng = torch.Generator().manual_seed(seed)
    blocks = -(-tokens // block_size) + 2
    pool = torch.full((blocks, 2, 2, block_size, heads, dim), float("nan"))
    other = pool.clone()
    # As the model hands them over: [heads, T, D] turned round, so neither is contiguous.
    k, v = torch.randn(2, heads, tokens, dim, generator=rng).transpose(1, 2).unbind(0)
    slots = torch.randperm(blocks * block_size, generator=rng)[:tokens]
    slots[torch.rand(tokens, generator=rng) < 0.3] = -1
    store_kv_triton(k, v, pool[:, 1, 0], pool[:, 1, 1], slots)
    store_kv_reference(k, v, other[:, 1, 0], other[:, 1, 1], slots)
    assert same(pool, other)


def test_store_from_slices_of_one_projection() -> None:
    """B6: q, k and v as slices of one tensor: the token stride is the whole width."""
    qkv = torch.randn(5, 5 * 16)
    k, v = qkv[:, 48:64].view(5, 1, 16), qkv[:, 64:].view(5, 1, 16)
    pool = torch.zeros(3, 1, 2, 4, 1, 16)
    store_kv_triton(k, v, pool[:, 0, 0], pool[:, 0, 1], torch.arange(5))
    assert torch.equal(pool[:, 0, 0].flatten(0, 1)[:5], k)
    assert torch.equal(pool[:, 0, 1].flatten(0, 1)[:5], v)


def test_padding_rows_write_nowhere_in_a_full_pool() -> None:
    """B10: slot -1 in a pool in which every slot is in use."""
    pool = torch.randn(2, 1, 2, 4, 1, 16)
    before = pool.clone()
    k = torch.randn(4, 1, 16)
    store_kv_triton(k, k, pool[:, 0, 0], pool[:, 0, 1], torch.full((4,), -1))
    assert torch.equal(pool, before)


def test_b13_no_kernel_is_tuned_and_a_second_call_changes_nothing() -> None:
    """B13: tuning runs a kernel several times, and these work in place; none is wrapped in a tuner."""
    from triton.runtime.autotuner import Autotuner

    from kernels import copy, decode, prefill, store

    tried = (store.store_kernel, decode.decode_kernel, decode.merge_kernel, prefill.prefill_kernel)
    assert not any(isinstance(kernel, Autotuner) for kernel in (*tried, copy.copy_kernel))
    pool, k = torch.full((2, 1, 2, 4, 1, 16), float("nan")), torch.randn(3, 1, 16)
    slots = torch.tensor([6, -1, 1])
    store_kv_triton(k, k, pool[:, 0, 0], pool[:, 0, 1], slots)
    first = pool.clone()
    store_kv_triton(k, k, pool[:, 0, 0], pool[:, 0, 1], slots)
    assert same(pool, first)


def test_store_refuses_what_does_not_fit() -> None:
    pool, k = torch.zeros(2, 1, 2, 4, 1, 16), torch.zeros(3, 1, 16)
    with pytest.raises(ValueError, match="slots for 3 tokens"):
        store_kv_triton(k, k, pool[:, 0, 0], pool[:, 0, 1], torch.zeros(2, dtype=torch.int64))
    with pytest.raises(ValueError, match="heads and width must agree"):
        store_kv_triton(
            k[..., :8], k[..., :8], pool[:, 0, 0], pool[:, 0, 1], torch.zeros(3, dtype=torch.int64)
        )
    with pytest.raises(ValueError, match="bfloat16"):
        low, cache = k.bfloat16(), pool.bfloat16()
        store_kv_triton(low, low, cache[:, 0, 0], cache[:, 0, 1], torch.zeros(3, dtype=torch.int64))


@pytest.mark.parametrize(
    "pairs",
    [
        [(1, 2), (2, 3)],
        [(2, 3), (1, 2)],
        [(1, 2), (2, 1)],
        [(0, 1), (1, 2), (2, 0), (0, 3), (5, 4)],
        [(0, 1), (0, 2), (0, 3)],
        [(1, 1), (2, 0)],
        [],
    ],
    ids=["chain", "chain backwards", "exchange", "cycle with tails", "fan out", "onto itself", "nothing"],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_copies_read_before_they_write(pairs: list, dtype: torch.dtype) -> None:
    """Bits are carried, so 16-bit pools are fine here even under the interpreter."""
    pool = torch.randn(6, 2, 2, 3, 2, 24).to(dtype)
    expected = pool.clone()
    copy_blocks_triton(pool, pairs)
    copy_blocks_reference(expected, pairs)
    assert torch.equal(pool, expected)


@given(data=st.data(), blocks=st.integers(1, 9))
@settings(max_examples=15, **QUIET)
def test_any_copies(data: st.DataObject, blocks: int) -> None:
    targets = data.draw(st.lists(st.integers(0, blocks - 1), unique=True))
    pairs = [(data.draw(st.integers(0, blocks - 1)), t) for t in targets]
    pool = torch.randn(blocks, 1, 2, 2, 1, 8)
    expected = pool.clone()
    copy_blocks_triton(pool, pairs)
    copy_blocks_reference(expected, pairs)
    assert torch.equal(pool, expected)
