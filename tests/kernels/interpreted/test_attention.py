"""The decode and prefill kernels against a float64 reference, on pools in which every unused slot is NaN."""

from __future__ import annotations

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

from kernels import PagedBatch
from kernels.copy import copy_blocks_triton
from kernels.decode import decode_triton
from kernels.prefill import prefill_triton
from kernels.reference import paged_attention_reference
from kernels.store import store_kv_triton
from tests.kernels.cases import Case, make_case, relative_error

LIMIT = 1e-5  # relative, fp32 against float64


def attend(
    case: Case, splits: int, window=None, softcap=None, sinks=None, scale: float | None = None
) -> Tensor:
    """Both kernels, as the dispatch launches them; rows that neither writes stay NaN."""
    scale = scale or case.q.shape[2] ** -0.5
    b, out = case.batch, torch.full_like(case.q, float("nan"))
    tiles, wanted = b.launch(case.q.shape[1], case.k_cache.shape[2], case.q.shape[2], case.q.dtype)
    common = (case.q, case.k_cache, case.v_cache, b.block_tables, b.cu_q, b.kv_lens, out)
    if wanted:
        decode_triton(*common, splits, scale, window, softcap, sinks)
    prefill_triton(*common, tiles, scale, window, softcap, sinks)
    return out


def check(case: Case, splits: int = 1, window=None, softcap=None, sinks=None) -> None:
    scale = case.q.shape[2] ** -0.5
    expected = paged_attention_reference(
        case.q,
        case.k_cache,
        case.v_cache,
        case.batch,
        scale=scale,
        window=window,
        softcap=softcap,
        sinks=sinks,
    )
    got = attend(case, splits, window, softcap, sinks)
    for head in range(
        got.shape[1]
    ):  # each query head on its own: a wrong KV head must not hide behind another
        assert relative_error(got[:, head], expected[:, head]) < LIMIT


@st.composite
def cases(draw) -> dict:
    sequences = draw(st.lists(st.integers(0, 70), min_size=1, max_size=3))
    q_lens = [draw(st.sampled_from(sorted({1, max(1, n // 2), max(1, n)}))) for n in sequences]
    return {
        "q_lens": q_lens,
        "kv_lens": sequences,
        "block_size": draw(st.sampled_from([1, 2, 3, 4, 12, 16, 48, 64])),
        "kv_heads": draw(st.sampled_from([1, 2])),
        "group": draw(st.sampled_from([1, 3, 7, 8])),
        "dim": draw(st.sampled_from([8, 16, 64, 80])),
        "seed": draw(st.integers(0, 1000)),
    }


def explore(case: dict, splits: int, window, softcap, with_sinks: bool) -> None:
    made = make_case(**case)
    sinks = torch.linspace(-2, 2, made.q.shape[1]) if with_sinks else None
    check(made, splits, window, softcap, sinks)


OPTIONS = {
    "case": cases(),
    "splits": st.sampled_from([1, 2, 4, 8]),
    "window": st.sampled_from([None, 1, 4, 30]),
    "softcap": st.sampled_from([None, 20.0]),
    "with_sinks": st.booleans(),
}
QUIET = {"deadline": None, "suppress_health_check": list(HealthCheck), "derandomize": True}


@given(**OPTIONS)
@settings(max_examples=12, **QUIET)
def test_random_batches(case, splits, window, softcap, with_sinks) -> None:
    explore(case, splits, window, softcap, with_sinks)


@pytest.mark.slow
@given(**OPTIONS)
@settings(max_examples=250, **QUIET)
def test_random_batches_at_length(case, splits, window, softcap, with_sinks) -> None:
    explore(case, splits, window, softcap, with_sinks)


@pytest.mark.parametrize(("heads", "kv_heads"), [(9, 3), (14, 2), (5, 1), (4, 4)])
def test_every_query_head_reads_its_own_kv_head(heads: int, kv_heads: int) -> None:
    """B2: KV heads hold different constants, so a wrongly mapped head shows as a wrong constant."""
    case = make_case([1, 3], [5, 6], kv_heads=kv_heads, group=heads // kv_heads, dim=16)
    for h in range(kv_heads):
        case.v_cache[:, :, h] = torch.where(case.v_cache[:, :, h].isnan(), float("nan"), float(h + 1))
    for splits in (1, 2):
        got = attend(case, splits)
        for head in range(heads):
            expected = head // (heads // kv_heads) + 1
            assert torch.allclose(got[:, head], torch.full_like(got[:, head], expected))


@pytest.mark.parametrize("dim", [8, 72, 80, 96, 120, 256])
def test_widths_that_are_no_power_of_two(dim: int) -> None:
    """B3: every other slot of the pool is NaN, so a wrong mask shows."""
    check(make_case([1, 2], [9, 6], group=2, dim=dim), splits=2)


@pytest.mark.parametrize("context", [1, 15, 16, 17, 31, 32, 33, 64, 65])
def test_contexts_around_every_edge(context: int) -> None:
    """B1: Blocks of 16, tiles of 32: one short of, at and past each edge, and more splits than tiles."""
    case = make_case([1], [context], block_size=16, group=3)
    check(case, splits=1)
    check(case, splits=4)


@pytest.mark.parametrize("block_size", [1, 2, 4, 8, 12, 16, 48])
def test_b5_block_sizes_below_16_and_no_power_of_two(block_size: int) -> None:
    """B5: the tile has its own size; blocks are looked up for each key."""
    check(make_case([1, 2], [19, 7], block_size=block_size, group=3), splits=2)


def test_b12_one_suffix_token_after_a_hit() -> None:
    """B12: a prompt of 9 of which 8 were in the cache computes one token: the decode kernel's work."""
    check(make_case([1], [9], block_size=4, dim=64, group=3))


def test_b1_a_block_used_again_after_nan() -> None:
    """B1: a block that held another context comes back; its slots behind the new one hold NaN."""
    case = make_case([1], [17], block_size=16, group=3)
    expected = attend(case, 2)
    last = case.batch.block_tables[0, 1]
    case.k_cache[last, 1:], case.v_cache[last, 1:] = 1e30, float("inf")
    assert torch.equal(attend(case, 2), expected)


def test_a_context_of_one_returns_the_value() -> None:
    """B12: one key gives exactly its value, with one split and with eight."""
    case = make_case([1], [1], block_size=16, dim=64)
    value = case.v_cache[case.batch.block_tables[0, 0], 0]
    assert torch.allclose(attend(case, 1)[0], value)
    assert torch.allclose(attend(case, 8)[0], value)


def test_one_and_a_thousand_in_one_batch() -> None:
    """B4: seven of eight splits of the short one are empty: they weigh 0 and no NaN comes of it."""
    check(make_case([1, 1], [1, 1000], block_size=16), splits=8)


@pytest.mark.parametrize("context", [3, 4, 5, 6])
def test_a_window_counts_the_token_itself(context: int) -> None:
    """B11: window 4 at context 6 sees exactly the keys 2 to 5: replacing the others changes nothing."""
    decode = make_case([1], [context], block_size=2, dim=16)
    prefill = make_case([context], [context], block_size=2, dim=16)
    for case in (decode, prefill):
        check(case, window=4)
        before = attend(case, 2, window=4)[-1]
        for p in range(max(0, context - 4)):
            block = case.batch.block_tables[0, p // 2]
            case.k_cache[block, p % 2] = float("nan") if case is decode else 1e4
            case.v_cache[block, p % 2] = float("nan") if case is decode else 1e4
        assert torch.equal(attend(case, 2, window=4)[-1], before)


def test_chunked_prefill_is_aligned_to_the_lower_right() -> None:
    """Four cached tokens and two new ones: new token i sees 4 + i + 1 keys."""
    case = make_case([2], [6], block_size=4, dim=16)
    whole = make_case([6], [6], block_size=4, dim=16)
    whole.store.copy_(case.store)
    whole.q[4:] = case.q
    whole.batch.block_tables.copy_(case.batch.block_tables)
    check(case)
    assert torch.allclose(attend(case, 1), attend(whole, 1)[4:], rtol=1e-5, atol=1e-6)


def test_a_padding_row_is_zero_even_with_sinks() -> None:
    """B10: a row that reads nothing."""
    case = make_case([1, 1, 1], [5, 0, 0], group=3)
    for splits in (1, 4):
        for sinks in (None, torch.ones(3)):
            assert torch.equal(attend(case, splits, sinks=sinks)[1:], torch.zeros_like(case.q[1:]))


def test_the_last_blocks_of_a_large_pool() -> None:
    """Their offsets pass 2**31 elements. The pool is address space only: unwritten, it takes no memory."""
    case = make_case([1, 3], [4, 3], block_size=4, dim=16, layers=1, spare=0)
    expected = attend(case, 1)
    far = (1 << 31) // case.store[0].numel()  # the first block that 32 bits do not reach
    try:
        pool = torch.empty(far + 2, *case.store.shape[1:])
    except RuntimeError:
        pytest.skip("8 GB of address space are not to be had")
    for s in (0, 1):
        pool[far + s] = case.store[case.batch.block_tables[s, 0]]
        case.batch.block_tables[s, 0] = far + s
    case.k_cache, case.v_cache = pool[:, 0, 0], pool[:, 0, 1]
    assert torch.equal(attend(case, 1), expected)
    assert relative_error(attend(case, 2), expected.double()) < LIMIT
    k = torch.randn(2, 1, 16)
    store_kv_triton(k, k, case.k_cache, case.v_cache, torch.tensor([far * 4 + 3, far * 4 + 7]))
    assert torch.equal(case.k_cache[[far, far + 1], 3], k)
    copy_blocks_triton(pool, [(far, far + 1)])
    assert torch.equal(case.v_cache[far + 1, 3], k[0])


def test_bfloat16_is_refused() -> None:
    """B6: the interpreter would compute on the raw bits."""
    case = make_case([1], [4], dtype=torch.bfloat16)
    with pytest.raises(ValueError, match="cannot be interpreted in bfloat16"):
        attend(case, 1)


def test_block_tables_may_be_wider_than_a_context_needs() -> None:
    """Entries behind the context are -1 or stale; they are never followed."""
    case = make_case([1, 1], [3, 9], block_size=4)
    b = case.batch
    tables = torch.cat([b.block_tables, torch.full((2, 2), 1 << 30, dtype=torch.int32)], 1)
    tables[0, 1:] = 1 << 30
    wide = PagedBatch(b.slot_mapping, tables, b.cu_q, b.kv_lens, 4, 1, 9, [1, 1], [3, 9])
    expected = attend(case, 2)
    case.batch = wide
    assert torch.equal(attend(case, 2), expected)
