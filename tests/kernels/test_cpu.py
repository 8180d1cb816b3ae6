"""The torch path against a float64 reference, on pools in which every unused slot is NaN."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels import PagedBatch, copy_blocks, cpu, cpu_plan, paged_attention, store_kv
from kernels.copy import copy_blocks_reference
from kernels.cpu_plan import GROUP_BYTES, split_groups
from kernels.reference import paged_attention_reference
from kernels.store import store_kv_reference
from tests.kernels.cases import Case, make_case, relative_error

LIMITS = {torch.float32: 1e-5, torch.float64: 1e-12, torch.bfloat16: 2e-2, torch.float16: 3e-3}


@pytest.fixture(autouse=True, scope="module", params=["short contexts gathered", "all in place"])
def both_ways(request: pytest.FixtureRequest) -> Iterator[None]:
    """Everything here holds on both paths of a decode step."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "all in place":
            patch.setattr(cpu_plan, "GATHER_SEQS", 0)
        yield


def check(case: Case, **options: object) -> None:
    scale = case.q.shape[2] ** -0.5
    got = paged_attention(case.q, case.k_cache, case.v_cache, case.batch, scale=scale, **options)
    expected = paged_attention_reference(
        case.q, case.k_cache, case.v_cache, case.batch, scale=scale, **options
    )
    assert got.dtype == case.q.dtype
    for head in range(got.shape[1]):
        assert relative_error(got[:, head], expected[:, head]) < LIMITS[case.q.dtype]


@st.composite
def cases(draw: st.DrawFn) -> dict:
    kv_lens = draw(st.lists(st.integers(0, 150), min_size=1, max_size=6))
    return {
        "kv_lens": kv_lens,
        "q_lens": [draw(st.sampled_from(sorted({1, max(1, n // 2), max(1, n)}))) for n in kv_lens],
        "block_size": draw(st.sampled_from([1, 2, 3, 4, 12, 16, 48, 64])),
        "kv_heads": draw(st.integers(1, 3)),
        "group": draw(st.sampled_from([1, 3, 7, 8])),
        "dim": draw(st.sampled_from([8, 64, 80, 96, 120])),
        "seed": draw(st.integers(0, 1000)),
        "dtype": draw(st.sampled_from(list(LIMITS))),
    }


@given(
    case=cases(),
    window=st.sampled_from([None, 1, 4, 30]),
    softcap=st.sampled_from([None, 20.0]),
    with_sinks=st.booleans(),
)
@settings(max_examples=150, deadline=None, derandomize=True)
def test_random_batches(case: dict, window: int | None, softcap: float | None, with_sinks: bool) -> None:
    made = make_case(**case)
    sinks = torch.linspace(-2, 2, made.q.shape[1], dtype=made.q.dtype) if with_sinks else None
    check(made, window=window, softcap=softcap, sinks=sinks)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_all_layers_share_one_plan(dtype: torch.dtype) -> None:
    case = make_case([1, 1, 3], [5, 40, 7], layers=2, kv_heads=2, group=3, dtype=dtype)
    case.store[:, 0] = case.store[:, 1].flip(-1)  # layer 0 holds other numbers in the same slots
    for layer in (0, 1):
        k, v = case.store[:, layer, 0], case.store[:, layer, 1]
        check(Case(case.store, k, v, case.q, case.batch))
    assert len([name for name in case.batch.plans if name[0] == "cpu"]) == 1


def test_without_the_sampled_product_the_answers_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "can_sample", lambda dtype: False)
    check(make_case([1] * 5, [1, 16, 17, 90, 200], kv_heads=3, group=3, dim=64))


def test_this_torch_has_the_sampled_product() -> None:
    assert cpu.can_sample(torch.float32)
    assert not cpu.can_sample(torch.bfloat16)


def test_scores_that_overflow_do_not_poison_the_next_layer() -> None:
    """The sampled product multiplies what was there by 0, and 0 * inf is NaN."""
    case = make_case([1, 1], [5, 9], layers=2)
    case.store[:, 0] = 1e38
    q = torch.full_like(case.q, 1e38)
    paged_attention(q, case.store[:, 0, 0], case.store[:, 0, 1], case.batch, scale=1.0)
    check(case)


@pytest.mark.parametrize("dim", [64, 80])
def test_a_context_of_one_returns_the_value(dim: int) -> None:
    case = make_case([1], [1], block_size=16, dim=dim)
    out = paged_attention(case.q, case.k_cache, case.v_cache, case.batch, scale=1.0)
    assert torch.equal(out[0], case.v_cache[case.batch.block_tables[0, 0], 0])


@pytest.mark.parametrize("context", [3, 4, 5, 6])
def test_a_window_counts_the_token_itself(context: int) -> None:
    """Window 4 at context 6 sees exactly the keys 2 to 5, in decode and in prefill."""
    for q_len in (1, context):
        case = make_case([q_len], [context], block_size=2)
        check(case, window=4)
        call = {"scale": 0.25, "window": 4}
        before = paged_attention(case.q, case.k_cache, case.v_cache, case.batch, **call)[-1]
        for p in range(max(0, context - 4)):
            block = case.batch.block_tables[0, p // 2]
            case.v_cache[block, p % 2] = 1e4
            case.k_cache[block, p % 2] = 1e4
        assert torch.equal(
            paged_attention(case.q, case.k_cache, case.v_cache, case.batch, **call)[-1], before
        )


def test_chunked_prefill_is_aligned_to_the_lower_right() -> None:
    """Four cached tokens and two new ones equal the last two rows of all six at once; so does one alone."""
    whole = make_case([6], [6])
    tables = whole.batch.block_tables.tolist()
    expected = paged_attention(whole.q, whole.k_cache, whole.v_cache, whole.batch, scale=0.25)
    for new in (1, 2, 5):
        batch = PagedBatch.build([-1] * new, tables, [new], [6], 4)
        got = paged_attention(whole.q[-new:], whole.k_cache, whole.v_cache, batch, scale=0.25)
        assert torch.allclose(got, expected[-new:], rtol=1e-5, atol=1e-6)


def test_a_strange_layout_is_read_all_the_same() -> None:
    """Caches whose heads come before their slots cannot be numbered as rows; they are copied first."""
    case = make_case([1, 4], [9, 6], kv_heads=2, group=3)
    case.k_cache = case.k_cache.transpose(1, 2).contiguous().transpose(1, 2)
    check(case)


def test_two_sequences_may_share_blocks() -> None:
    case = make_case([1, 1], [8, 8])
    case.batch.block_tables[1] = case.batch.block_tables[0]
    case.q[1] = case.q[0]
    out = paged_attention(case.q, case.k_cache, case.v_cache, case.batch, scale=0.25)
    assert same(out[0], out[1])


def same(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Bit for bit; but nearly so where torch's own attention computes gathered keys."""
    return torch.allclose(a, b, rtol=0, atol=1e-6) if cpu_plan.GATHER_SEQS else torch.equal(a, b)


def test_a_sequence_does_not_depend_on_its_neighbours() -> None:
    """In crowds where nothing is padded: short ones, and long ones that are never gathered."""
    for length in (64, 640):
        neighbours(length)


def neighbours(length: int) -> None:
    case = make_case([1] * 4, [length] * 4, kv_heads=3, group=3, dim=64)
    together = paged_attention(case.q, case.k_cache, case.v_cache, case.batch, scale=0.125)
    for s in range(4):
        alone = PagedBatch.build([-1], [case.batch.block_tables[s].tolist()], [1], [length], 4)
        got = paged_attention(case.q[s : s + 1], case.k_cache, case.v_cache, alone, scale=0.125)
        assert torch.allclose(got[0], together[s], rtol=0, atol=1e-6)
        other = (s + 1) % 4
        tables = [case.batch.block_tables[i].tolist() for i in (s, other)]
        pair = PagedBatch.build([-1, -1], tables, [1, 1], [length, length], 4)
        got = paged_attention(case.q[[s, other]], case.k_cache, case.v_cache, pair, scale=0.125)
        assert torch.equal(got[0], together[s]) if length > 512 else same(got[0], together[s])


def test_groups_hold_similar_lengths_and_every_sequence_once() -> None:
    lengths = [16, 1000, 990, 17, 1, 500, 15, 760]
    groups = split_groups(lengths, 4096)
    assert sorted(i for g in groups for i in g) == list(range(len(lengths)))
    for g in groups:
        top = lengths[g[0]]
        assert all(lengths[i] >= 0.75 * top or lengths[i] >= top - 16 for i in g)
        assert len(g) == 1 or len(g) * top <= 4096
    assert split_groups([5000], 4096) == [[0]]
    assert GROUP_BYTES >= 1 << 20


@pytest.mark.parametrize("with_batch", [False, True])
def test_store_equals_the_reference(with_batch: bool) -> None:
    for seed in range(8):
        rng = torch.Generator().manual_seed(seed)
        pool = torch.full((5, 2, 2, 3, 2, 8), float("nan"))
        other = pool.clone()
        k, v = torch.randn(2, 2, 7, 8, generator=rng).transpose(1, 2).unbind(0)
        slots = torch.randperm(15, generator=rng)[:7]
        slots[torch.rand(7, generator=rng) < 0.3 * (seed % 3)] = -1
        where = PagedBatch.build(slots.tolist(), [[0, 1, 2]], [7], [7], 3) if with_batch else slots
        for layer in (0, 1):
            store_kv(k + layer, v, pool[:, layer, 0], pool[:, layer, 1], where)
            store_kv_reference(k + layer, v, other[:, layer, 0], other[:, layer, 1], slots)
        assert torch.equal(pool.isnan(), other.isnan())
        assert torch.equal(pool.nan_to_num(), other.nan_to_num())


@pytest.mark.parametrize("pairs", [[(1, 2), (2, 3)], [(1, 2), (2, 1)], [(0, 1), (0, 2)], [(3, 3)], []])
def test_copies_read_before_they_write(pairs: list) -> None:
    pool = torch.randn(5, 2, 2, 3, 2, 8)
    expected = pool.clone()
    copy_blocks(pool, pairs)
    copy_blocks_reference(expected, pairs)
    assert torch.equal(pool, expected)
