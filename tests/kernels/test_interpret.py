"""The kernel itself, run on tensors that are here: the same numbers as the engine's path."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("triton")
from kernels import paged_attention
from kernels.interpret import can_run, run_decode
from tests.kernels.cases import make_case, relative_error


def run(case, **options):
    b = case.batch
    return run_decode(case.q, case.k_cache, case.v_cache, b.block_tables, b.cu_q, b.kv_lens, **options)


def test_the_interpreter_gives_what_the_engine_gives() -> None:
    """A decode row of 13 keys beside a row of two new tokens, which is not the decode kernel's."""
    case = make_case([1, 2], [13, 6], kv_heads=2, group=3)
    options = {"scale": 0.25, "window": 9}
    found = run(case, splits=2, tile=4, **options)
    assert (found.how, found.programs) == ("interpreter", 8)
    engine = paged_attention(case.q, case.k_cache, case.v_cache, case.batch, **options)
    assert relative_error(found.output[:1], engine[:1].double()) < 1e-5
    assert found.output[1:].isnan().all()


def test_a_16_bit_pool_is_widened() -> None:
    case = make_case([1], [5], dtype=torch.bfloat16)
    found = run(case, scale=0.25)
    wide = paged_attention(case.q.float(), case.k_cache.float(), case.v_cache.float(), case.batch, scale=0.25)
    assert found.output.dtype == torch.float32
    assert relative_error(found.output, wide.double()) < 1e-5


def test_too_slow_and_refused_are_sentences() -> None:
    case = make_case([1], [5])
    with pytest.raises(ValueError, match=r"stopped after 0 s"):
        run(case, scale=0.25, timeout_s=0.01)
    with pytest.raises(ValueError, match="65 splits; use 1 to 64"):
        run(case, scale=0.25, splits=65)
    assert can_run("cpu") and not can_run("meta")
