"""The operators: seen by torch.compile as one step each, and importable without Triton."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import torch
from torch import Tensor

from kernels import paged_attention, store_kv
from kernels.dispatch import attention_op, store_op
from tests.kernels.cases import make_case, relative_error

ROOT = Path(__file__).parents[2]


def test_the_operators_keep_their_promises() -> None:
    """Schema, fake tensors, aliasing and mutation, as torch itself checks them."""
    case = make_case([1, 3], [5, 6], kv_heads=2, group=3)
    b = case.batch
    tiles = torch.zeros(0, 2, dtype=torch.int32)
    rest = (b.block_tables, b.cu_q, b.kv_lens, tiles, 1, 0.25, 4, 20.0, torch.zeros(6))
    k_cache, v_cache = case.k_cache.clone(), case.v_cache.clone()
    torch.library.opcheck(attention_op, (case.q, k_cache.nan_to_num(), v_cache.nan_to_num(), *rest))
    new = torch.randn(2, 2, 16)
    slots = torch.tensor([3, -1])
    arguments = (new, new + 1, k_cache.nan_to_num(), v_cache.nan_to_num(), slots)
    torch.library.opcheck(store_op, arguments)


def test_compiled_code_calls_the_operators() -> None:
    case = make_case([1, 3], [5, 6], kv_heads=2, group=3)
    table = case.batch.block_tables
    slots = torch.tensor([int(table[0, 1]) * 4, *(int(table[1, p // 4]) * 4 + p % 4 for p in (3, 4, 5))])

    def step(q: Tensor, k: Tensor) -> Tensor:
        store_kv(k, k * 2, case.k_cache, case.v_cache, slots)
        return paged_attention(q, case.k_cache, case.v_cache, case.batch, scale=0.25) + 1

    new = torch.randn(4, 2, 16)
    before = case.store.clone()
    expected = step(case.q, new)
    written = case.store.clone()
    case.store.copy_(before)
    got = torch.compile(step, backend="aot_eager")(case.q, new)
    assert relative_error(got, expected.double()) < 1e-5
    assert torch.equal(case.store.nan_to_num(), written.nan_to_num())


def test_the_package_needs_no_triton() -> None:
    """A CPU student has none: import, store and attend in a process in which it cannot be imported."""
    code = """
import sys
sys.modules["triton"] = None
import torch, kernels
import kernels.store, kernels.decode, kernels.prefill, kernels.copy, kernels.graphs, kernels.trace_decode
batch = kernels.PagedBatch.build([0], [[0]], [1], [1], 4)
pool = torch.zeros(2, 1, 2, 4, 1, 8)
x = torch.ones(1, 1, 8)
kernels.store_kv(x, x, pool[:, 0, 0], pool[:, 0, 1], batch)
assert torch.equal(kernels.paged_attention(x, pool[:, 0, 0], pool[:, 0, 1], batch, scale=1.0), x)
try:
    kernels.store.store_kv_triton(x, x, pool[:, 0, 0], pool[:, 0, 1], batch.slot_mapping)
except ValueError as error:
    assert "needs Triton" in str(error), error
else:
    raise SystemExit("not refused")
"""
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def test_a_cpu_step_does_not_import_triton() -> None:
    """It takes a second to import and a CPU has no use for it."""
    code = """
import sys, torch, kernels
batch = kernels.PagedBatch.build([0], [[0]], [1], [1], 4)
pool = torch.zeros(2, 1, 2, 4, 1, 8)
x = torch.ones(1, 1, 8)
kernels.store_kv(x, x, pool[:, 0, 0], pool[:, 0, 1], batch)
kernels.paged_attention(x, pool[:, 0, 0], pool[:, 0, 1], batch, scale=1.0)
assert "kernels.lang" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
