"""Triton, if it is there: the kernels' files can be imported and read without it.

``jit`` compiles on first use (or interprets under TRITON_INTERPRET=1, which must be set before this import).
Run-time numbers are never specialised on their value, so that another length or count compiles nothing new.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

try:
    import triton
    import triton.language as tl
except ImportError:
    triton = None
    tl = None


def jit(*runtime: str) -> Callable[[Any], Any]:
    """Decorator: a Triton kernel whose arguments ``runtime`` are not specialised on their value."""

    def wrap(function: Any) -> Any:
        return function if triton is None else triton.jit(function, do_not_specialize=list(runtime))

    return wrap


def interpreting() -> bool:
    """Whether kernels run under Triton's interpreter, on CPU tensors."""
    return triton is not None and bool(triton.knobs.runtime.interpret)


def check_tensors(what: str, *tensors: Tensor) -> None:
    """ValueError, one sentence, where these tensors cannot go to a Triton kernel."""
    if triton is None:
        raise ValueError(f"{what} needs Triton, which is not installed; install it or use CPU tensors.")
    devices = {t.device for t in tensors}
    if len(devices) > 1:
        names = " and ".join(sorted(map(str, devices)))
        raise ValueError(f"{what} got tensors on {names}; put them on one device.")
    if not tensors[0].is_cuda and not interpreting():
        raise ValueError(
            f"{what} runs on CUDA tensors, these are on {tensors[0].device}; use the torch path there."
        )
    if interpreting() and any(t.dtype == torch.bfloat16 for t in tensors):
        raise ValueError(
            f"{what} cannot be interpreted in bfloat16 (it would compute on raw bits); use float32."
        )


def pow2(n: int, least: int = 1) -> int:
    """The smallest power of two that is at least ``n`` and ``least``."""
    return max(least, 1 << max(0, n - 1).bit_length())
