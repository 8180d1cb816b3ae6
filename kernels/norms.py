"""RMS norms on a CPU: few calls where a model's own code makes seven. A small model feels each of them.

    y = x / sqrt(mean(x^2) + eps) * weight          (or * (1 + weight), as Gemma stores it)

A module is replaced only where torch's own norm gives the same bits as the module on fixed inputs. A single
row, which a decode step of one sequence asks for twice a layer, is shorter still by a dot product, and at
least as near to the exact value; a 16-bit result may then be rounded the other way now and then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

ROWS = (1, 5, 32)  # row counts at which both are compared
Norm = Callable[[Tensor], Tensor]


def fuse_norms(model: nn.Module) -> int:
    """Let the model's RMS norms run in few calls each, where the numbers stay the same. How many do.

    Hold the model's lock. The weights are taken as they are now.
    """
    count = 0
    with torch.inference_mode():
        for layer in model.modules():
            if type(layer).__name__.endswith("RMSNorm") and "forward" not in layer.__dict__:
                same = (one for one in _candidates(layer) if _same(layer, *one))
                fused = next(same, None)
                if fused is not None:
                    layer.forward = fused[1]  # an instance attribute: undone by `del`
                    count += 1
    return count


def _candidates(layer: nn.Module) -> Iterator[tuple[Norm, Norm]]:
    """Norms that may be the layer's own, and the same with a short way for a single row."""
    weight = getattr(layer, "weight", None)
    eps = getattr(layer, "variance_epsilon", getattr(layer, "eps", None))
    if weight is None or weight.dim() != 1 or not isinstance(eps, float) or weight.device.type != "cpu":
        return
    shape, plain = weight.shape, weight.detach().float()
    shifted = 1.0 + plain
    for many, scale, late in (
        (lambda x: F.rms_norm(x, shape, weight, eps), plain, False),
        (lambda x: weight * F.rms_norm(x.float(), shape, None, eps).to(x.dtype), weight, True),
        (lambda x: F.rms_norm(x.float(), shape, shifted, eps).type_as(x), shifted, False),
    ):
        yield many, single_row(many, weight.dtype, scale, late, eps)


def single_row(many: Norm, dtype: torch.dtype, scale: Tensor, late: bool, eps: float) -> Norm:
    """``many``, but a single row goes by a dot product. ``late``: scaled after it is rounded to ``dtype``."""
    width = scale.shape[0]
    late = late and dtype != torch.float32  # which is not rounded in between

    def norm(x: Tensor) -> Tensor:
        if x.numel() != width or x.dtype != dtype:
            return many(x)
        row = x.reshape(-1).float()
        factor = (torch.dot(row, row).item() / width + eps) ** -0.5
        if late:
            return torch.mul(row, factor).to(dtype).mul_(scale).view_as(x)
        return torch.mul(row, scale).mul_(factor).to(dtype).view_as(x)

    return norm


def _same(layer: nn.Module, many: Norm, fused: Norm) -> bool:
    generator = torch.Generator().manual_seed(0)
    near = max(1e-6, torch.finfo(layer.weight.dtype).eps)
    for rows in ROWS:
        x = torch.randn(1, rows, layer.weight.shape[0], generator=generator).to(layer.weight.dtype)
        plain = layer(x)
        if not torch.equal(plain, many(x)):
            return False
        if not torch.allclose(plain, fused(x), rtol=near, atol=1e-6):
            return False
    return True
