"""PagedBatch and what a caller can get wrong."""

from __future__ import annotations

import pytest
import torch

from kernels import PagedBatch, paged_attention
from tests.kernels.cases import make_case


def test_a_batch_is_padded_and_counted() -> None:
    batch = PagedBatch.build([8, 9, 3, -1], [[2, 0], [], [1]], [3, 0, 1], [7, 0, 2], 4)
    assert batch.block_tables.tolist() == [[2, 0], [-1, -1], [1, -1]]
    assert batch.cu_q.tolist() == [0, 3, 3, 4]
    assert (batch.num_tokens, batch.num_seqs, batch.max_q, batch.max_kv) == (4, 3, 3, 7)
    assert not batch.decode_only
    assert batch.block_tables.dtype == batch.cu_q.dtype == batch.kv_lens.dtype == torch.int32
    again = PagedBatch.from_tensors(
        batch.slot_mapping, batch.block_tables, batch.cu_q, batch.kv_lens, batch.block_size
    )
    assert (again.q_lens, again.lens, again.max_q, again.max_kv) == ([3, 0, 1], [7, 0, 2], 3, 7)


def test_an_empty_batch_is_a_batch() -> None:
    batch = PagedBatch.build([], [], [], [], 4)
    assert batch.decode_only and batch.num_tokens == 0
    cache = torch.zeros(2, 4, 1, 8)
    assert paged_attention(torch.zeros(0, 1, 8), cache, cache, batch, scale=1.0).shape == (0, 1, 8)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (([-1], [[0]], [1], [1], 0), "the block size is 0; it must be at least 1"),
        (([-1], [[0], [1]], [1], [1], 4), "2 block tables, 1 query lengths, 1 context lengths"),
        (([-1], [[0]], [2], [2], 4), "the query lengths add up to 2 for 1 slots"),
        (([-1] * 3, [[0]], [3], [2], 4), "sequence 0 computes 3 tokens but reads 2"),
        (([-1], [[0]], [1], [5], 4), r"reads 5 tokens but its table of 1 blocks of 4 holds 4"),
        (([-1], [[0, -1]], [1], [5], 4), "has a hole within its first 5 tokens"),
    ],
)
def test_lists_that_contradict_each_other(arguments: tuple, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        PagedBatch.build(*arguments)


def test_calls_that_do_not_fit() -> None:
    case = make_case([1], [5], kv_heads=2, group=3, dim=16)

    def attend(q=case.q, k=case.k_cache, v=case.v_cache, **options) -> None:
        paged_attention(q, k, v, case.batch, scale=1.0, **options)

    attend()
    for call, sentence in (
        (lambda: attend(q=case.q[0]), "queries .6, 16., keys"),
        (lambda: attend(q=case.q[:, :5]), "5 query heads of 16 on 2 KV heads of 16"),
        (lambda: attend(q=case.q.double()), "queries in torch.float64, cache in torch.float32"),
        (lambda: attend(q=case.q.repeat(2, 1, 1)), "2 queries and blocks of 4 for a batch of 1 tokens"),
        (lambda: attend(window=0), "the window is 0"),
        (lambda: attend(softcap=0.0), "the softcap is 0.0"),
        (lambda: attend(sinks=torch.zeros(2)), r"\(2,\) sinks for 6 query heads"),
    ):
        with pytest.raises(ValueError, match=sentence):
            call()


def test_a_block_outside_the_pool_is_refused_before_it_is_read() -> None:
    case = make_case([1], [5], spare=0)
    case.batch.block_tables[0, 1] = 2
    with pytest.raises(ValueError, match="names block 2, but the pool has 2"):
        paged_attention(case.q, case.k_cache, case.v_cache, case.batch, scale=1.0)
