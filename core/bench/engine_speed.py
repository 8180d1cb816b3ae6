"""Tokens per second of the engine with random weights, with and without CUDA graphs

Nothing is fetched. ``kernels/gpu_check.py`` runs it on a GPU as a process of its own (``--json``); on a CPU
graphs only pad the batch, so the two rows show what the padding costs.
"""

from __future__ import annotations

import argparse
import statistics
from typing import Any

import torch

from core.bench import BenchResult
from core.config import EngineConfig
from core.engine.engine import Engine
from core.models.loaded import LoadedModel, geometry_of
from core.models.tokens import Tokens
from kernels.gpu_model import make_model


class Numbers(Tokens):
    """Stands for a tokenizer: a token's text is its number."""

    def __init__(self) -> None:
        """Needs no files."""

    def encode(self, text: str, chat: bool = False) -> list[int]:
        return [int(word) for word in text.split()]

    def token_bytes(self, token_id: int) -> bytes:
        return f"{token_id} ".encode()

    def is_special(self, token_id: int) -> bool:
        return False


def random_model(device: str, dtype: str, layers: int = 30) -> LoadedModel:
    """A Llama of SmolLM2-135M's shape, random weights."""
    module = make_model(device, getattr(torch, dtype), layers)
    return LoadedModel(
        name="random-135m", sha256="random", model=module, tokens=Numbers(),
        geometry=geometry_of(module.config, dtype), eos_token_ids=frozenset(), device=device,
    )  # fmt: skip


def speed(model: LoadedModel, batch: int, new: int, graphs: bool) -> tuple[float, list[tuple[int, ...]]]:
    """Tokens a second of the decode steps (median step, bookkeeping included), and the tokens."""
    config = EngineConfig(
        block_size=16, num_blocks=batch * -(-(32 + new) // 16), max_model_len=32 + new, strategies=()
    )
    engine = Engine(model, config, graphs=graphs)
    for i in range(batch):
        engine.submit(list(range(10 + i, 42 + i)), max_new_tokens=new, ignore_eos=True)
    took = []
    while (step := engine.step()) is not None:
        if step.kind == "decode":
            took.append(step.time_ms.plan + step.time_ms.forward + step.time_ms.sample)
    tokens = [s.token_ids for s in engine.trace.steps[-1].sequences]
    engine.close()
    return batch / (statistics.median(took) / 1e3), tokens


def rows(
    device: str, dtype: str, batches: tuple[int, ...], new: int, layers: int = 30
) -> list[dict[str, Any]]:
    """One row a batch size and path. ValueError where graphs change a token in fp32."""
    model, table = random_model(device, dtype, layers), []
    for batch in batches:
        found = {graphs: speed(model, batch, new, graphs) for graphs in (False, True)}
        if dtype == "float32" and found[False][1] != found[True][1]:
            raise ValueError(
                f"tokens with and without graphs differ at batch {batch}: the times mean nothing."
            )
        for graphs, (rate, _) in found.items():
            table.append({"batch": batch, "dtype": dtype, "graphs": graphs, "tokens a second": rate})
    return table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Where to run."""
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--new-tokens", type=int, default=64, metavar="N")


def run(args: argparse.Namespace) -> BenchResult:
    """fp32 first, whose tokens must agree; then bf16 in larger batches."""
    table: list[dict[str, Any]] = []
    for dtype, batches in (("float32", (1,)), ("bfloat16", (1, 8, 64))):
        table += rows(args.device, dtype, batches, args.new_tokens)
    return BenchResult(
        name="engine_speed",
        title="The engine's tokens per second, random weights",
        rows=table,
        columns=tuple(table[0]),
        verdict=f"On {args.device}: in fp32 the tokens are the same with and without graphs.",
        ok=True,
    )
