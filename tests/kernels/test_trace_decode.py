"""The decode kernel told tile by tile: same numbers as the reference, and a story that adds up."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
import torch

from kernels import paged_attention
from kernels.reference import paged_attention_reference
from kernels.trace_decode import explain_decode
from tests.kernels.cases import make_case, relative_error


@pytest.mark.parametrize("splits", [1, 2, 5])
@pytest.mark.parametrize("tile", [4, 16])
@pytest.mark.parametrize("window", [None, 7])
@pytest.mark.parametrize("softcap", [None, 20.0])
@pytest.mark.parametrize("with_sinks", [False, True])
def test_equals_the_reference(splits, tile, window, softcap, with_sinks) -> None:
    case = make_case([1, 1, 3], [1, 37, 12], block_size=3, kv_heads=2, group=3)
    sinks = torch.linspace(-1, 2, 6) if with_sinks else None
    options = {"scale": 0.25, "window": window, "softcap": softcap, "sinks": sinks}
    expected = paged_attention_reference(case.q, case.k_cache, case.v_cache, case.batch, **options)
    engine = paged_attention(case.q, case.k_cache, case.v_cache, case.batch, **options)
    for seq, row in ((0, 0), (1, 1), (2, 4)):
        for kv_head in (0, 1):
            told = explain_decode(
                case.q,
                case.k_cache,
                case.v_cache,
                case.batch,
                seq,
                kv_head,
                tile=tile,
                splits=splits,
                **options,
            )
            heads = slice(3 * kv_head, 3 * kv_head + 3)
            output = torch.tensor(told.output)
            assert relative_error(output, expected[row, heads]) < 1e-5
            assert relative_error(output, engine[row, heads].double()) < 1e-5


def test_the_story_adds_up() -> None:
    case = make_case([1], [37], block_size=3, group=3)
    told = explain_decode(case.q, case.k_cache, case.v_cache, case.batch, 0, 0, scale=0.25, tile=8, splits=2)
    table = case.batch.block_tables[0].tolist()
    read = [
        (p, b, s)
        for t in told.tiles
        for p, b, s, r in zip(t.positions, t.blocks, t.slots, t.read, strict=True)
        if r
    ]
    assert read == [(p, table[p // 3], p % 3) for p in range(37)]  # every key once, in order
    assert told.bytes_read == 2 * 37 * 16 * 4
    assert [(p.start, p.stop) for p in told.parts] == [(0, 24), (24, 37)]
    for split in (0, 1):
        tiles = [t for t in told.tiles if t.split == split]
        assert tiles[0].max_before == (-math.inf,) * 3 and tiles[0].sum_before == (0.0,) * 3
        for a, b in pairwise(tiles):
            assert b.max_before == a.max_after and b.sum_before == a.sum_after
        for t in tiles:
            assert t.max_after == tuple(map(max, t.max_before, t.tile_max))
        assert told.parts[split].m == tiles[-1].max_after and told.parts[split].sum == tiles[-1].sum_after
    for g in range(3):
        assert told.total[g] == pytest.approx(sum(p.weight[g] * p.sum[g] for p in told.parts), rel=1e-6)
        assert max(p.weight[g] for p in told.parts) == 1.0


def test_a_split_without_keys_weighs_nothing() -> None:
    case = make_case([1], [3], group=2)
    told = explain_decode(case.q, case.k_cache, case.v_cache, case.batch, 0, 0, scale=0.25, tile=4, splits=4)
    assert [p.weight for p in told.parts] == [(1.0, 1.0)] + [(0.0, 0.0)] * 3
    assert len(told.tiles) == 1 and told.tiles[0].read == (True, True, True, False)


def test_what_is_not_there_cannot_be_told() -> None:
    case = make_case([1, 1], [3, 0])
    for seq, kv_head, tile in ((2, 0, 4), (0, 1, 4), (0, 0, 0)):
        with pytest.raises(ValueError, match="tiles and splits start at 1"):
            explain_decode(case.q, case.k_cache, case.v_cache, case.batch, seq, kv_head, scale=1.0, tile=tile)
    with pytest.raises(ValueError, match="pick one that runs"):
        explain_decode(case.q, case.k_cache, case.v_cache, case.batch, 1, 0, scale=1.0)
