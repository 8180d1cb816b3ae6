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


def test_another_norm_is_left_alone() -> None:
    class OddRMSNorm(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight, self.eps = torch.nn.Parameter(torch.randn(8)), 1e-6

        def forward(self, x: Any) -> Any:
            return x / (x.abs().mean(-1, keepdim=True) + self.eps) * self.weight

    assert fuse_norms(torch.nn.Sequential(OddRMSNorm(), torch.nn.LayerNorm(8))) == 0
