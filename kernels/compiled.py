"""Compile the kernels for graphics cards that are not here, and read what came out: registers, spills,
occupancy.

    triton.compile(source, target) -> cubin -> cuobjdump --dump-resource-usage -> REG, STACK, LOCAL
    occupancy = programs that fit a multiprocessor at once * warps / warps that it can hold

A spilled register lives in slow local memory; at the default sizes there are none.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from kernels import copy, decode, prefill, store
from kernels.lang import triton

SHARED_BYTES = {80: 164 << 10, 90: 228 << 10, 100: 228 << 10}  # of a multiprocessor, by compute capability
SHARED_RESERVED = 1 << 10  # the driver takes this much for each program
REGISTERS, WARPS, PROGRAMS = 65536, 64, 32  # of a multiprocessor, on all three
POINTERS = {torch.float32: "*fp32", torch.float16: "*fp16", torch.bfloat16: "*bf16"}
OPTIONS = ("num_warps", "num_stages")


@dataclass(frozen=True, slots=True)
class Compiled:
    """One kernel, compiled for one card. Bytes of shared memory and of spills a program and a thread."""

    kernel: str
    variant: str
    capability: int
    registers: int
    spill_bytes: int
    shared_bytes: int
    warps: int

    @property
    def programs(self) -> int:
        """Programs that one multiprocessor holds at once."""
        registers = -(-self.registers * 32 // 256) * 256 * self.warps  # handed out to warps in units of 256
        shared = self.shared_bytes + SHARED_RESERVED
        return min(
            REGISTERS // registers, SHARED_BYTES[self.capability] // shared, WARPS // self.warps, PROGRAMS
        )

    @property
    def occupancy(self) -> float:
        """Share of a multiprocessor's warps that are in use."""
        return self.programs * self.warps / WARPS


def signatures(
    dtype: torch.dtype, group: int, heads: int, dim: int, block_copy: bool = True
) -> Iterator[tuple]:
    """(kernel, variant, argument types, compile-time values) of all that such a model launches."""
    kv = POINTERS[dtype]
    name = f"{str(dtype).removeprefix('torch.')} D{dim} G{group}"
    numbers = {"scale": "fp32", "softcap": "fp32", "slots_ptr": "*i64"}
    tables = dict.fromkeys(("tables_ptr", "cu_q_ptr", "lens_ptr", "tiles_ptr"), "*i32")
    partial = dict.fromkeys(("part_ptr", "m_ptr", "sums_ptr"), "*fp32")
    tensors = dict.fromkeys(
        ("q_ptr", "k_ptr", "v_ptr", "out_ptr", "sinks_ptr", "k_cache_ptr", "v_cache_ptr"), kv
    )
    types = numbers | tables | partial | tensors
    yield store.store_kernel, name, types, store.store_config(heads, dim)
    model = {"CAP": False, "SINKS": False}
    for split in (False, True):
        config = decode.decode_config(group, dim, dtype) | model | {"SPLIT": split}
        yield decode.decode_kernel, f"{name}{' split' if split else ''}", types, config
    merge = {"DIM": dim, "BLOCK_D": config["BLOCK_D"], "BLOCK_S": decode.MAX_SPLITS, "SINKS": False}
    yield decode.merge_kernel, name, types, merge
    yield prefill.prefill_kernel, name, types, prefill.prefill_config(group, dim, dtype) | model
    if block_copy:
        copies = {"store_ptr": "*i32", "ops_ptr": "*i64", "spans_ptr": "*i32"}
        yield copy.copy_kernel, "int32", copies, {"STRETCH": copy.STRETCH, "num_warps": copy.WARPS}


def compile_one(kernel: Any, types: dict[str, str], config: dict[str, Any], capability: int) -> Any:
    """Compile ``kernel`` as the launcher would have it compiled, for a card of this compute capability."""
    from triton.backends.compiler import GPUTarget

    constants = {k: v for k, v in config.items() if k not in OPTIONS}
    signature: dict[str, str] = {}
    aligned: dict[tuple[int, ...], list[list[Any]]] = {}
    for i, parameter in enumerate(kernel.params):
        if parameter.is_constexpr:
            signature[parameter.name] = "constexpr"
            continue
        signature[parameter.name] = types.get(parameter.name, "i32")
        if not parameter.do_not_specialize:
            aligned[(i,)] = [["tt.divisibility", 16]]
    source = triton.compiler.ASTSource(kernel, signature, constants, aligned)
    options = {k: config[k] for k in OPTIONS if k in config}
    return triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)


def resources(cubin: bytes) -> tuple[int, int]:
    """(registers a thread, bytes of local memory a thread) that a compiled kernel uses."""
    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.cubin"
        path.write_bytes(cubin)
        text = subprocess.run(
            [tool, "--dump-resource-usage", path], capture_output=True, text=True, check=True
        ).stdout
    usage = {k: int(v) for k, v in re.findall(r"(REG|STACK|LOCAL):(\d+)", text)}
    return usage["REG"], usage["STACK"] + usage["LOCAL"]


def compile_all(
    capabilities: tuple[int, ...] = (80, 90, 100),
    dtypes: tuple[torch.dtype, ...] = (torch.bfloat16, torch.float32),
    shapes: tuple[tuple[int, int, int], ...] = ((3, 3, 64), (8, 8, 128)),
) -> list[Compiled]:
    """Compile everything. ``shapes``: (query heads a KV head, KV heads, head width)."""
    found = []
    for capability in capabilities:
        for dtype in dtypes:
            for shape in shapes:
                first = dtype is dtypes[0] and shape is shapes[0]
                for kernel, variant, types, config in signatures(dtype, *shape, block_copy=first):
                    done = compile_one(kernel, types, config, capability)
                    registers, spilled = resources(done.asm["cubin"])
                    meta = done.metadata
                    found.append(
                        Compiled(
                            kernel.__name__.removesuffix("_kernel"), variant, capability, registers, spilled,
                            meta.shared, meta.num_warps,
                        )
                    )  # fmt: skip
    return found
