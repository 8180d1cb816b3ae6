"""Kernels: a decode layer on this CPU; with --compile-only registers, spills and occupancy on three cards."""

from __future__ import annotations

import argparse
import statistics

from core.bench import BenchResult, interleave

CONTEXTS = (16, 100, 500, 1000)
BATCHES = (1, 8, 32)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument(
        "--compile-only", action="store_true", help="compile for cards that are not here (needs Triton)"
    )
    parser.add_argument(
        "--capability", type=int, nargs="+", default=[80, 90, 100], help="compute capabilities, 80 90 100"
    )
    parser.add_argument(
        "--dtype", choices=("float32", "bfloat16"), default="float32", help="dtype of the CPU's pool"
    )


def run(args: argparse.Namespace) -> BenchResult:
    """Compile table with ``--compile-only``; else attention beside the linear layers on this CPU."""
    return compile_table(tuple(args.capability)) if args.compile_only else decode_shares(args.dtype)


def compile_table(capabilities: tuple[int, ...]) -> BenchResult:
    """Every kernel at its default sizes, for SmolLM2's shape (9 heads on 3, width 64) and a large one."""
    from kernels.lang import triton

    if triton is None:
        raise ValueError(
            "compiling the kernels needs Triton, which is not installed; install the package triton."
        )
    from kernels.compiled import compile_all

    rows = [
        {
            "kernel": c.kernel,
            "variant": c.variant,
            "card": f"sm_{c.capability}",
            "registers": c.registers,
            "spilled bytes": c.spill_bytes,
            "shared bytes": c.shared_bytes,
            "warps": c.warps,
            "programs": c.programs,
            "occupancy": c.occupancy,
        }
        for c in compile_all(capabilities)
    ]
    spilled = [row for row in rows if row["spilled bytes"]]
    verdict = (
        f"{len(rows)} kernels compiled by Triton {triton.__version__}, {len(spilled)} with spilled registers"
    )
    return BenchResult(
        name="kernels",
        title="Kernels compiled without a card",
        rows=rows,
        columns=list(rows[0]),
        verdict=verdict,
        ok=not spilled,
        notes=["Occupancy is what registers and shared memory allow. Nothing here was run on a GPU."],
    )


def decode_shares(dtype: str) -> BenchResult:
    """One layer of SmolLM2-135M's shape on this CPU: attention beside linear layers, plain and packed."""
    import torch

    with torch.inference_mode():
        linear = {batch: _linear_layers(batch, getattr(torch, dtype)) for batch in BATCHES}
        rows = []
        for batch in BATCHES:
            for label, lengths in _lengths(batch):
                ours, gathered = _attention(lengths, getattr(torch, dtype))
                packed = linear[batch]["packed"]
                rows.append(
                    {
                        "batch": batch,
                        "context": label,
                        "attention ms": ours * 1e3,
                        "gather + SDPA ms": gathered * 1e3,
                        "linear ms": linear[batch]["plain"] * 1e3,
                        "packed ms": packed * 1e3,
                        "attention share": ours / (ours + packed),
                    }
                )
    gain = statistics.geometric_mean(r["gather + SDPA ms"] / r["attention ms"] for r in rows)
    return BenchResult(
        name="kernels",
        title=f"A decode layer of SmolLM2-135M's shape on this CPU, {dtype}",
        rows=rows,
        columns=list(rows[0]),
        verdict=f"reading the pool in place is {gain:.2f} times gathering and calling SDPA (geometric mean)",
        ok=gain >= 1.0,
        notes=["Times are for one of 30 layers, without the output layer; the calls took turns."],
    )


def _lengths(batch: int) -> list[tuple[str, list[int]]]:
    equal = [(str(n), [n] * batch) for n in CONTEXTS]
    if batch == 1:
        return equal
    step = (1000 - 16) / (batch - 1)
    return [*equal, ("16 to 1000", [round(16 + i * step) for i in range(batch)])]


def _attention(lengths: list[int], dtype: object) -> tuple[float, float]:
    """Seconds of one layer's attention over these contexts: ours, and a gathered copy with torch's SDPA."""
    import torch
    import torch.nn.functional as F

    from kernels import PagedBatch, paged_attention

    layers, block_size, heads, group, dim = 4, 16, 3, 3, 64
    need = [-(-n // block_size) for n in lengths]
    order = torch.randperm(sum(need)).tolist()
    tables = [[order.pop() for _ in range(n)] for n in need]
    store = torch.randn(sum(need), layers, 2, block_size, heads, dim).to(dtype)
    q = torch.randn(len(lengths), heads * group, dim).to(dtype)
    batch = PagedBatch.build([-1] * len(lengths), tables, [1] * len(lengths), lengths, block_size)

    def ours() -> None:
        for layer in range(layers):
            paged_attention(q, store[:, layer, 0], store[:, layer, 1], batch, scale=0.125)

    def gather() -> None:
        for layer in range(layers):
            for s, (table, n) in enumerate(zip(tables, lengths, strict=True)):
                blocks = store[table, layer]  # [blocks, 2, block_size, Hkv, D]
                k, v = (blocks[:, i].flatten(0, 1)[:n].transpose(0, 1)[None] for i in (0, 1))
                F.scaled_dot_product_attention(q[s].view(1, heads, group, dim), k, v, scale=0.125)

    took = interleave({"ours": ours, "gather": gather})
    return took["ours"] / layers, took["gather"] / layers


def _linear_layers(rows: int, dtype: object) -> dict[str, float]:
    """Seconds of one layer's linear layers at ``rows`` tokens, plain and packed."""
    import torch
    from torch import nn

    from core.engine.prepare import CHAIN
    from kernels import pack_linears

    class Layer(nn.Module):
        """The linear layers of one decoder layer, called as a model calls them."""

        def __init__(self) -> None:
            super().__init__()
            self.q_proj, self.o_proj = nn.Linear(576, 576, bias=False), nn.Linear(576, 576, bias=False)
            self.k_proj, self.v_proj = nn.Linear(576, 192, bias=False), nn.Linear(576, 192, bias=False)
            self.gate_proj, self.up_proj = nn.Linear(576, 1536, bias=False), nn.Linear(576, 1536, bias=False)
            self.down_proj = nn.Linear(1536, 576, bias=False)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.k_proj(x), self.v_proj(x)
            y = self.o_proj(self.q_proj(x))
            return self.down_proj(self.gate_proj(y) * self.up_proj(y))

    # Several layers, so that weights come from memory as in a whole model, not from the processor's cache.
    plain = [Layer().to(dtype).eval() for _ in range(8)]
    packed = [Layer().to(dtype).eval() for _ in range(8)]
    pack_linears(nn.ModuleList(packed), chain=CHAIN if dtype == torch.float32 else None)
    x = torch.randn(rows, 576).to(dtype)
    took = interleave(
        {"plain": lambda: [m(x) for m in plain], "packed": lambda: [m(x) for m in packed]}, rounds=9
    )
    return {name: seconds / len(plain) for name, seconds in took.items()}
