"""Run the decode kernel itself on tensors that are here: compiled on a GPU, interpreted on a CPU.

Triton's interpreter is chosen when Triton is imported, so it gets a process of its own, which reads its
tensors from a file and leaves its result in another:

    python -m kernels.interpret FOLDER        FOLDER/in.pt -> FOLDER/out.pt

It computes with NumPy, one program after the other: tens of milliseconds a program, a second or two to start.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any, Literal

import torch
from torch import Tensor

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True, slots=True)
class KernelRun:
    """``output`` [T, Hq, D] on the CPU, NaN in rows that are not decode rows; ``programs`` of the launch."""

    output: Tensor
    how: Literal["interpreter", "compiled"]
    seconds: float  # of the kernel alone: the start of the process is not in it
    programs: int


def can_run(device: torch.device | str) -> bool:
    """Whether ``run_decode`` can work for tensors on this device: it needs Triton, on a CPU too."""
    return torch.device(device).type in ("cpu", "cuda") and importlib.util.find_spec("triton") is not None


def run_decode(
    q: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    block_tables: Tensor,
    cu_q: Tensor,
    kv_lens: Tensor,
    *,
    scale: float,
    splits: int = 1,
    tile: int | None = None,
    window: int | None = None,
    softcap: float | None = None,
    sinks: Tensor | None = None,
    timeout_s: float = 90.0,
) -> KernelRun:
    """One launch of the decode kernel (and of the merge, with ``splits`` above 1) on one layer of a pool.

    Arguments as for ``decode_triton``. ``tile``: keys a tile, a power of two; None: the kernel's own size. A
    16-bit pool is widened to fp32 for the interpreter, which would compute on its raw bits.
    ValueError, one sentence: no Triton, too slow, or refused by the kernel.
    """
    device = q.device
    if not can_run(device):
        raise ValueError("running the kernel itself needs Triton, which is not installed; install triton.")
    case: dict[str, Any] = {
        "q": q, "k_cache": k_cache, "v_cache": v_cache, "block_tables": block_tables, "cu_q": cu_q,
        "kv_lens": kv_lens, "scale": scale, "splits": splits, "tile": tile, "window": window,
        "softcap": softcap, "sinks": sinks,
    }  # fmt: skip
    if device.type == "cuda":
        output, seconds = launch(case)
    else:
        output, seconds = _in_process(case, timeout_s)
    how: Literal["interpreter", "compiled"] = "compiled" if device.type == "cuda" else "interpreter"
    return KernelRun(output, how, seconds, kv_lens.shape[0] * k_cache.shape[2] * splits)


def launch(case: dict[str, Any]) -> tuple[Tensor, float]:
    """Launch the kernel in this process; ``case``: the arguments of ``run_decode`` by name."""
    from kernels.decode import decode_triton

    out = torch.full_like(case["q"], float("nan"))
    names = ("q", "k_cache", "v_cache", "block_tables", "cu_q", "kv_lens")
    began = perf_counter()
    decode_triton(
        *(case[name] for name in names), out, case["splits"], case["scale"], case["window"], case["softcap"],
        case["sinks"], tile=case["tile"],
    )  # fmt: skip
    output = out.cpu()  # waits for the device
    return output, perf_counter() - began


def _in_process(case: dict[str, Any], timeout_s: float) -> tuple[Tensor, float]:
    """The same in a process whose Triton interprets."""
    widened = {
        name: value.float().contiguous() if isinstance(value, Tensor) and value.is_floating_point() else value
        for name, value in case.items()
    }
    environment = os.environ | {"TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory(prefix="kernel-") as folder:
        torch.save(widened, Path(folder) / "in.pt")
        command = [sys.executable, "-m", "kernels.interpret", folder]
        try:
            done = subprocess.run(
                command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=timeout_s
            )
        except subprocess.TimeoutExpired:
            raise ValueError(
                f"the interpreter was stopped after {timeout_s:.0f} s; choose fewer splits or a run with "
                "fewer sequences."
            ) from None
        if done.returncode:
            said = done.stderr.strip().splitlines()
            raise ValueError(f"the interpreter failed: {said[-1] if said else 'it said nothing'}")
        found = torch.load(Path(folder) / "out.pt", weights_only=True)
    return found["output"], found["seconds"]


def main(folder: Path) -> None:
    """Read FOLDER/in.pt, run the kernel, write FOLDER/out.pt."""
    output, seconds = launch(torch.load(folder / "in.pt", weights_only=True))
    torch.save({"output": output, "seconds": seconds}, folder / "out.pt")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
