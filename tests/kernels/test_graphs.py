"""Decode graphs: padding rows write nowhere and change nothing. On a CPU all of it runs but the recording."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from kernels import PagedBatch, paged_attention, store_kv
from kernels.graphs import DecodeGraphs, StaticInputs, padded_size
from tests.kernels.cases import Case, make_case

TABLE = torch.randn(50, 16, generator=torch.Generator().manual_seed(1))


def forward_on(case: Case):
    """A one-layer model: look up, store, attend. [N], [N], batch -> [N, 16]"""

    def forward(ids: Tensor, positions: Tensor, batch: PagedBatch) -> Tensor:
        x = TABLE.to(ids.device)[ids][:, None] + positions[:, None, None] * 0.01
        store_kv(x, x * 2, case.k_cache, case.v_cache, batch)
        return paged_attention(x, case.k_cache, case.v_cache, batch, scale=0.25)[:, 0]

    return forward


def decode_case(lengths: list[int], device: str = "cpu") -> tuple[Case, Tensor, Tensor]:
    """Sequences whose newest token is still to be written."""
    case = make_case([1] * len(lengths), lengths, device=device, spare=0)
    tables = case.batch.block_tables.tolist()
    slots = [t[(n - 1) // 4] * 4 + (n - 1) % 4 for t, n in zip(tables, lengths, strict=True)]
    case.batch = PagedBatch.build(slots, tables, [1] * len(lengths), lengths, 4, device)
    ids = torch.arange(3, 3 + len(lengths), device=device)
    return case, ids, torch.tensor(lengths, device=device) - 1


def test_sizes() -> None:
    assert [padded_size(n) for n in (1, 2, 3, 5, 256, 257)] == [1, 2, 4, 8, 256, None]


def same_with_and_without(device: str) -> None:
    case, ids, positions = decode_case([5, 3, 8], device)
    plain_pool = case.store.clone()
    forward = forward_on(case)
    graphs = DecodeGraphs(forward, 4, max_blocks=6, device=torch.device(device), sizes=(1, 4))
    expected = forward(ids, positions, case.batch)
    after = case.store.clone()
    case.store.copy_(plain_pool)
    got = graphs.run(ids, positions, case.batch)
    assert got.shape == (3, 16)
    assert torch.allclose(got, expected, rtol=1e-5, atol=1e-6)
    assert torch.equal(
        case.store.isnan(), after.isnan()
    )  # the pool is full but for NaN: padding wrote nothing
    assert torch.equal(case.store.nan_to_num(), after.nan_to_num())


def test_a_padded_batch_gives_the_same_rows_and_the_same_pool() -> None:
    same_with_and_without("cpu")


@pytest.mark.gpu
def test_a_recorded_batch_gives_the_same_rows_and_the_same_pool() -> None:
    same_with_and_without("cuda")


def test_a_smaller_batch_after_a_larger_one_leaves_no_stale_rows() -> None:
    case, ids, positions = decode_case([5, 3, 8, 9])
    graphs = DecodeGraphs(forward_on(case), 4, max_blocks=6, device=torch.device("cpu"), sizes=(4,))
    graphs.run(ids, positions, case.batch)
    small = PagedBatch.build([-1], case.batch.block_tables[1:2].tolist(), [1], [3], 4)
    before = case.store.clone()
    graphs.run(ids[1:2], positions[1:2], small)
    assert torch.equal(case.store.nan_to_num(), before.nan_to_num())
    inputs = graphs.recorded[4].inputs
    assert inputs.slot_mapping.tolist() == [-1] * 4 and inputs.kv_lens.tolist() == [3, 0, 0, 0]


def test_buffers_keep_their_addresses() -> None:
    case, ids, positions = decode_case([5, 3, 8])
    inputs = StaticInputs.make(4, 6, "cpu")
    names = ("ids", "positions", "slot_mapping", "block_tables", "cu_q", "kv_lens")
    before = [getattr(inputs, n).data_ptr() for n in names]
    inputs.fill(ids, positions, case.batch)
    assert [getattr(inputs, n).data_ptr() for n in names] == before
    assert inputs.cu_q.tolist() == [0, 1, 2, 3, 4]


def test_what_does_not_fit_is_refused() -> None:
    case, ids, positions = decode_case([5, 3, 8])
    graphs = DecodeGraphs(forward_on(case), 4, max_blocks=6, device=torch.device("cpu"), sizes=(1, 2))
    assert not graphs.fits(case.batch)
    with pytest.raises(ValueError, match="3 sequences with up to 1 new tokens do not fit"):
        graphs.run(ids, positions, case.batch)
    long = DecodeGraphs(forward_on(case), 4, max_blocks=1, device=torch.device("cpu"))
    assert not long.fits(case.batch)
    prefill = make_case([2], [2]).batch
    assert not DecodeGraphs(forward_on(case), 4, max_blocks=6, device=torch.device("cpu")).fits(prefill)
