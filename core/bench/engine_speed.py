"""Tokens a second of the whole engine with random weights, with and without CUDA graphs; nothing is fetched.

    python -m core.bench.engine_speed --device cuda

Prints rows of a Markdown table. ``kernels/gpu_check.py`` runs it on a GPU; on a CPU it runs small, as a test.
"""

from __future__ import annotations

import argparse
import statistics
from typing import Any

import torch

from core.config import EngineConfig
from core.engine.engine import Engine
from core.models.loaded import LoadedModel, geometry_of
from core.models.tokens import Tokens


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
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        hidden_size=576, intermediate_size=1536, num_hidden_layers=layers, num_attention_heads=9,
        num_key_value_heads=3, vocab_size=49152, max_position_embeddings=8192, tie_word_embeddings=True,
        initializer_range=0.06, bos_token_id=None, eos_token_id=None, pad_token_id=None,
    )  # fmt: skip
    torch.manual_seed(0)
    module: Any = LlamaForCausalLM(config).to(device, getattr(torch, dtype)).eval()
    return LoadedModel(
        name="random-135m", sha256="random", model=module, tokens=Numbers(),
        geometry=geometry_of(config, dtype), eos_token_ids=frozenset(), device=device,
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


def rows(device: str, dtype: str, batches: tuple[int, ...], new: int, layers: int = 30) -> list[str]:
    """One row a batch size and path. ValueError where graphs change a token in fp32."""
    model, lines = random_model(device, dtype, layers), []
    for batch in batches:
        found = {graphs: speed(model, batch, new, graphs) for graphs in (False, True)}
        if dtype == "float32" and found[False][1] != found[True][1]:
            raise ValueError(
                f"tokens with and without graphs differ at batch {batch}: the times mean nothing."
            )
        for graphs, (rate, _) in found.items():
            name = "CUDA graphs" if graphs else "no graphs"
            lines.append(f"| {batch} | classroom engine, {dtype}, {name} | {rate:,.0f} |")
    return lines


def main() -> None:
    """Print the rows: fp32 first, whose tokens must agree."""
    parser = argparse.ArgumentParser(description="Tokens a second of the engine, random weights.")
    parser.add_argument("--device", default="cuda")
    args = parser.parse_args()
    for dtype, batches in (("float32", (1,)), ("bfloat16", (1, 8, 64))):
        print("\n".join(rows(args.device, dtype, batches, 64)), flush=True)


if __name__ == "__main__":
    main()
