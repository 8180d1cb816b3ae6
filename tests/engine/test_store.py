"""The KV store: NaN until written, one row a block, copies and swaps that move all layers."""

import pytest
import torch

from core.config import EngineConfig
from core.engine import store as store_module
from core.engine.errors import PoolTooLarge
from core.engine.store import KVStore, blocks_for_bytes, pool_bytes
from core.models.loaded import Geometry

GEOMETRY = Geometry(
    layers=3,
    query_heads=4,
    kv_heads=2,
    head_dim=5,
    dtype="float32",
    windows=(None, None, None),
    vocab_size=11,
    max_positions=64,
)


def filled(num_blocks: int, host_blocks: int = 0) -> KVStore:
    """Every block holds its own number."""
    store = KVStore(num_blocks, 4, GEOMETRY, host_blocks=host_blocks)
    for block in range(num_blocks):
        store.blocks[block] = block
    return store


def test_layout_and_views() -> None:
    store = KVStore(6, 4, GEOMETRY)
    assert store.blocks.shape == (6, 3, 2, 4, 2, 5)
    assert store.blocks.isnan().all(), "an unwritten slot must not pass for a number"
    store.keys[1][2, 3] = 7.0
    store.values[2][5, 0] = 8.0
    assert (store.blocks[2, 1, 0, 3] == 7).all() and (store.blocks[5, 2, 1, 0] == 8).all()
    assert int((~store.blocks.isnan()).sum()) == 2 * 2 * 5, "nothing else was written"
    assert store.keys[0].shape == store.values[0].shape == (6, 4, 2, 5)


def test_copy_reads_before_it_writes() -> None:
    store = filled(5)
    store.copy([(0, 1), (1, 2), (3, 4), (4, 3)])
    assert [float(b.max()) for b in store.blocks] == [0, 0, 1, 4, 3]
    store.copy([])


def test_swap_round_trip_is_exact() -> None:
    store = filled(4, host_blocks=3)
    before = store.blocks.clone()
    store.swap_out([(3, 0), (1, 2)])
    store.blocks[1] = store.blocks[3] = float("nan")
    store.swap_in([(0, 1), (2, 3)])
    assert torch.equal(store.blocks[1], before[3]) and torch.equal(store.blocks[3], before[1])
    assert torch.equal(store.blocks[0], before[0]) and torch.equal(store.blocks[2], before[2])


def test_swap_without_host_blocks_is_an_error() -> None:
    with pytest.raises(ValueError, match="no host blocks"):
        filled(2).swap_out([(0, 0)])


def test_sizes() -> None:
    token = 3 * 2 * 2 * 5 * 4
    assert KVStore(6, 4, GEOMETRY).num_bytes == 6 * 4 * token
    assert filled(6, host_blocks=2).num_bytes == 8 * 4 * token
    assert blocks_for_bytes(10 * 4 * token + 1, GEOMETRY, 4) == 10
    with pytest.raises(ValueError, match=r"100 bytes holds no block.* 480 bytes"):
        blocks_for_bytes(100, GEOMETRY, 2)
    config = EngineConfig(block_size=4, num_blocks=6, preempt="swap", host_blocks=2)
    assert pool_bytes(config, GEOMETRY) == 8 * 4 * token
    assert pool_bytes(EngineConfig(block_size=4, num_blocks=6, host_blocks=2), GEOMETRY) == 6 * 4 * token


def test_a_pool_larger_than_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "free_bytes", lambda device: 10_000)
    with pytest.raises(PoolTooLarge, match=r"1,000 blocks of 4 tokens take .* MiB, and 0\.0 MiB of memory"):
        KVStore(1000, 4, GEOMETRY)
    monkeypatch.setattr(store_module, "free_bytes", lambda device: None)
    with pytest.raises(PoolTooLarge, match="did not give"):
        KVStore(1 << 40, 4, GEOMETRY)
