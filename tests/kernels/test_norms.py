"""Fused norms: the same bits, or none."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from kernels.norms import fuse_norms


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("arch", ["llama", "qwen3", "gemma3_text"])
def test_the_same_bits(arch: str, dtype: str) -> None:
    from tests.tiny import tiny_model

    model = tiny_model(arch, dtype=dtype).model
    model.set_attn_implementation("eager")
    with torch.no_grad():
        for name, p in model.named_parameters():
            if "norm" in name:
                p.copy_(torch.randn_like(p))
    ids = torch.arange(7)[None]
    with torch.inference_mode():
        plain = model(ids).logits
        count = fuse_norms(model)
        assert count == sum(type(m).__name__.endswith("RMSNorm") for m in model.modules()) > 0
        assert torch.equal(model(ids).logits, plain)
    assert fuse_norms(model) == 0  # all are done


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("arch", ["llama", "gemma3_text"])
def test_a_single_row_is_nearly_the_same(arch: str, dtype: str) -> None:
    """In 16 bits nearly all numbers are the very same; the rest are neighbours."""
    from tests.tiny import tiny_model

    module = tiny_model(arch, dtype=dtype).model.model.norm
    generator = torch.Generator().manual_seed(1)
    with torch.inference_mode():
        module.weight.copy_(torch.randn(module.weight.shape, generator=generator))
        rows = torch.randn(200, 1, 1, module.weight.shape[0], generator=generator).to(module.weight.dtype) * 5
        plain = torch.stack([module(row) for row in rows])
        assert fuse_norms(module) == 1
        found = torch.stack([module(row) for row in rows])
    eps = torch.finfo(plain.dtype).eps
    assert found.dtype == plain.dtype and torch.allclose(found, plain, rtol=max(1e-6, 2 * eps), atol=1e-6)
    assert dtype == "float32" or (found == plain).float().mean() > 0.995


def test_another_norm_is_left_alone() -> None:
    class OddRMSNorm(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight, self.eps = torch.nn.Parameter(torch.randn(8)), 1e-6

        def forward(self, x: Any) -> Any:
            return x / (x.abs().mean(-1, keepdim=True) + self.eps) * self.weight

    assert fuse_norms(torch.nn.Sequential(OddRMSNorm(), torch.nn.LayerNorm(8))) == 0
