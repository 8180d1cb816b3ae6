"""The kernels compile for cards that are not here, without spilling registers at their default sizes."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("triton")
from kernels import compiled
from kernels.lang import interpreting

pytestmark = pytest.mark.skipif(interpreting(), reason="the interpreter compiles nothing")
SHAPES = ((3, 3, 64), (8, 8, 128))


def check(found: list[compiled.Compiled], kernels: int) -> None:
    assert len(found) == kernels
    assert {f.kernel for f in found} >= {"store", "decode", "merge", "prefill"}
    for f in found:
        assert f.spill_bytes == 0, f
        assert 0 < f.registers <= 255 and 0 < f.occupancy <= 1, f


@pytest.mark.parametrize("capability", [80, 90, 100])
def test_no_spills_for_the_default_model(capability: int) -> None:
    check(compiled.compile_all((capability,), (torch.bfloat16,), SHAPES[:1]), 6)


@pytest.mark.slow
@pytest.mark.parametrize("capability", [80, 90, 100])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_no_spills_for_other_shapes(capability: int, dtype: torch.dtype) -> None:
    shapes = (*SHAPES, (1, 4, 256), (7, 2, 80), (16, 1, 96))
    check(compiled.compile_all((capability,), (dtype,), shapes), 5 * len(shapes) + 1)


def test_products_use_the_tensor_cores_and_loads_run_ahead() -> None:
    """bf16 decode: matrix instructions, and copies into shared memory that do not wait."""
    for kernel, _, types, config in compiled.signatures(torch.bfloat16, 3, 3, 64):
        if kernel.__name__ == "decode_kernel":
            ptx = compiled.compile_one(kernel, types, config, 90).asm["ptx"]
            assert "mma.sync" in ptx or "wgmma" in ptx
            assert "cp.async" in ptx
            assert "ld.local" not in ptx and "st.local" not in ptx


def test_fp32_products_are_ieee() -> None:
    """B7: No TF32 anywhere: it keeps ten bits of the mantissa."""
    seen = 0
    for kernel, _, types, config in compiled.signatures(torch.float32, 3, 3, 64, block_copy=False):
        if kernel.__name__ == "prefill_kernel" or config.get("SPLIT"):
            ptx = compiled.compile_one(kernel, types, config, 90).asm["ptx"]
            assert "fma.rn" in ptx and "tf32" not in ptx
            seen += 1
    assert seen == 2


def test_run_time_numbers_are_not_specialised() -> None:
    """Lengths and counts that change from step to step may not lead to another compilation."""
    runtime = {
        "block_size",
        "table_stride",
        "window",
        "splits",
        "elements",
        "q_token",
        "q_head",
        "scale",
        "softcap",
    }
    for kernel, *_ in compiled.signatures(torch.bfloat16, 3, 3, 64):
        for parameter in kernel.params:
            if parameter.name in runtime:
                assert parameter.do_not_specialize, (kernel.__name__, parameter.name)


def test_occupancy_by_hand() -> None:
    """90 registers x 32 = 2880 -> 3072 a warp, x 4 = 12288 a program: 5 fit into 65536, 20 of 64 warps."""
    one = compiled.Compiled("decode", "", 90, 90, 0, 20 << 10, 4)
    assert (one.programs, one.occupancy) == (5, 20 / 64)
    big = compiled.Compiled("decode", "", 80, 32, 0, 81 << 10, 4)
    assert big.programs == 2  # 164 KB of shared memory, 82 each
