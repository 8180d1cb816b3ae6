"""Tokens per second against transformers' generate, and what limits them

Same model, same prompts, same number of new tokens, greedy. The engine (paged store, trace recorded,
linear layers packed on a CPU) and generate (its own cache, prompts padded on the left) take turns in one
process; both compute the prompts and every token. generate runs on a second copy of the weights, as
transformers loads them: plain layers, its fused attention. (Packing gives the engine's own plain weights
away, so one copy cannot serve both.) The limit is what the memory allows: a decode step reads all weights
once, whatever the batch, and the keys and values of every sequence.
"""

from __future__ import annotations

import argparse
import gc
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import torch

from core.bench import BenchResult, interleave
from core.config import EngineConfig
from core.engine.engine import Engine
from core.engine.prepare import prepare
from core.models import DEFAULT_MODEL, LoadedModel, fetch, load

BLOCK_SIZE = 16
TEXT = "In operating systems, paging is a way to manage memory so that a process sees one address range. "
SHORT, LONG = 16, 1000  # prompt tokens: all short, or ragged from one to the other


@dataclass(frozen=True, slots=True)
class Work:
    """One row of the table: prompts of these lengths, ``new`` tokens each."""

    lengths: tuple[int, ...]
    new: int

    @property
    def tokens(self) -> int:
        """Tokens that it generates."""
        return len(self.lengths) * self.new


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which model, batches, types, contexts, and what is compared."""
    parser.add_argument("--model", default=DEFAULT_MODEL)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtypes", nargs="+", default=["float32", "bfloat16"])
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--contexts", nargs="+", choices=["short", "ragged"], default=["short"])
    parser.add_argument("--new-tokens", type=int, default=32, metavar="N")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="measured rounds (default 3)")
    parser.add_argument("--continuous", action="store_true", help="also transformers' continuous batching")
    parser.add_argument("--target", type=float, default=1.0, help="least ratio to the better peer")


def run(args: argparse.Namespace) -> BenchResult:
    """Measure every row in turns with its peers; medians."""
    rows: list[dict[str, Any]] = []
    bandwidth = memory_bandwidth(args.device)
    for dtype in args.dtypes:
        ours = load(args.model, dtype=dtype, device=args.device, accept_terms=True)
        prepare(ours)
        peer = plain_model(args.model, dtype, args.device)
        for contexts in args.contexts:
            for batch in args.batches:
                work = Work(prompt_lengths(contexts, batch), args.new_tokens)
                row = {"dtype": dtype, "contexts": contexts, "batch": batch}
                rows.append(row | measure(ours, peer, work, args, bandwidth))
        del peer
        gc.collect()
    worst = min(rows, key=lambda r: r["ratio"])
    return BenchResult(
        name="decode",
        title=f"Decode of {args.model}: {args.new_tokens} new tokens, tokens per second",
        rows=rows,
        columns=[c for c in rows[0] if not c.startswith("_")],
        ok=worst["ratio"] >= args.target,
        verdict=f"at least {worst['ratio']:.2f} times the better peer ({worst['dtype']}, batch "
        f"{worst['batch']}, {worst['contexts']} contexts); target {args.target:g}",
        notes=[
            f"Memory bandwidth measured in this run: {bandwidth / 1e9:.1f} GB/s. The limit is that over the "
            f"weights' bytes a step ({', '.join(_weights_note(rows))}) and the mean KV bytes of the batch; "
            "prompts are part of the measured time and not of the limit.",
            "Same tokens: the share of new tokens that both give. In bf16 a padded and a packed batch round "
            "differently, so near ties part.",
        ],
    )


def _weights_note(rows: list[dict[str, Any]]) -> list[str]:
    found = {row["dtype"]: row["_weight_bytes"] for row in rows}
    return [f"{dtype} {size / 2**20:.0f} MiB" for dtype, size in found.items()]


def measure(
    ours: LoadedModel, peer: Any, work: Work, args: argparse.Namespace, bandwidth: float
) -> dict[str, Any]:
    """One row: tokens per second of all, the ratio to the better peer, the limit."""
    prompts = make_prompts(ours, work)
    found: dict[str, list[list[int]]] = {}

    def keep(name: str, call: Callable[[], list[list[int]]]) -> Callable[[], None]:
        def timed() -> None:
            found[name] = call()
            if ours.device != "cpu":
                torch.cuda.synchronize()

        return timed

    calls = {
        "engine": keep("engine", lambda: run_engine(ours, prompts, work.new)),
        "generate": keep("generate", lambda: run_generate(peer, prompts, work.new)),
    }
    if args.continuous:
        calls["continuous"] = keep("continuous", lambda: run_continuous(peer, prompts, work.new))
    speeds = {name: work.tokens / s for name, s in interleave(calls, args.rounds).items()}
    best = max(speed for name, speed in speeds.items() if name != "engine")
    weights = weight_bytes(ours.model)
    kv = ours.geometry.bytes_per_token * sum(n + work.new / 2 for n in work.lengths)
    limit = len(work.lengths) * bandwidth / (weights + kv)
    return {
        "engine tok/s": speeds["engine"],
        **{f"{name} tok/s": speed for name, speed in speeds.items() if name != "engine"},
        "ratio": speeds["engine"] / best,
        "same tokens %": 100 * agreement(found["engine"], found["generate"]),
        "limit tok/s": limit,
        "of limit %": 100 * speeds["engine"] / limit,
        "_weight_bytes": weights,
    }


def prompt_lengths(contexts: str, batch: int) -> tuple[int, ...]:
    """Tokens of each prompt: all short, or spread evenly from short to long in a shuffled order."""
    if contexts == "short":
        return (SHORT,) * batch
    if batch == 1:
        return (LONG // 2,)
    return tuple(SHORT + (LONG - SHORT) * ((i * 7919) % batch) // (batch - 1) for i in range(batch))


def make_prompts(model: LoadedModel, work: Work) -> list[list[int]]:
    """Different prompts: the same text, begun at different places."""
    longest = max(work.lengths) + len(work.lengths)
    ids: list[int] = []
    while len(ids) < longest:
        ids += model.tokens.encode(TEXT)
    return [ids[i : i + length] for i, length in enumerate(work.lengths)]


def run_engine(model: LoadedModel, prompts: list[list[int]], new: int) -> list[list[int]]:
    """Our engine with its defaults, every step recorded."""
    longest = max(map(len, prompts)) + new
    blocks = sum(-(-(len(p) + new) // BLOCK_SIZE) for p in prompts)
    config = EngineConfig(block_size=BLOCK_SIZE, num_blocks=blocks, max_model_len=longest, strategies=())
    engine = Engine(model, config)
    for prompt in prompts:
        engine.submit(prompt, max_new_tokens=new, ignore_eos=True)
    while engine.step() is not None:
        pass
    return [list(s.token_ids[-new:]) for s in engine.trace.steps[-1].sequences]


def plain_model(name: str, dtype: str, device: str) -> Any:
    """The same weights again, untouched: plain linear layers, transformers' own attention, no end token."""
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(
        fetch(name, accept_terms=True), dtype=getattr(torch, dtype), attn_implementation="sdpa"
    )
    model.generation_config.eos_token_id = None
    model.generation_config.pad_token_id = 0
    return model.to(device).eval().requires_grad_(False)


@torch.inference_mode()
def run_generate(model: Any, prompts: list[list[int]], new: int) -> list[list[int]]:
    """transformers' generate with its own cache; shorter prompts are padded on the left."""
    longest = max(map(len, prompts))
    ids = torch.tensor([[0] * (longest - len(p)) + p for p in prompts], device=model.device)
    mask = torch.tensor([[0] * (longest - len(p)) + [1] * len(p) for p in prompts], device=model.device)
    out = model.generate(ids, attention_mask=mask, max_new_tokens=new, do_sample=False)
    return [row[longest:] for row in out.tolist()]


def run_continuous(model: Any, prompts: list[list[int]], new: int) -> list[list[int]]:
    """transformers' continuous batching, given what suits it on this device.

    Left to itself on a CPU it takes most of the free memory for its pool and reads through all of it at
    every step: 50 s for two short prompts. So it gets blocks for these prompts and, on a CPU, no more than
    256 tokens a step (measured best of 256, 512 and its own choice).
    """
    from transformers import ContinuousBatchingConfig, GenerationConfig

    config = GenerationConfig(max_new_tokens=new, do_sample=False, eos_token_id=-1, pad_token_id=0)
    pool = None
    if model.device.type == "cpu":
        blocks = sum(-(-(len(p) + new) // BLOCK_SIZE) for p in prompts)
        pool = ContinuousBatchingConfig(
            page_size=BLOCK_SIZE, num_blocks=blocks + len(prompts), max_batch_tokens=256
        )
    out = model.generate_batch(
        inputs=prompts,
        generation_config=config,
        continuous_batching_config=pool,
        progress_bar=False,
        warmup=pool is None,
    )
    return [list(result.generated_tokens) for result in out.values()]


def agreement(a: list[list[int]], b: list[list[int]]) -> float:
    """The share of tokens that two runs have in common, up to where each sequence parts."""
    same = 0
    for x, y in zip(a, b, strict=True):
        same += next((i for i, (p, q) in enumerate(zip(x, y, strict=True)) if p != q), len(x))
    return same / sum(map(len, a))


def weight_bytes(model: Any) -> int:
    """Bytes of weights that a decode step reads: all but an embedding that no output layer shares."""
    tied = getattr(model.config.get_text_config(decoder=True), "tie_word_embeddings", True)
    looked_up = 0 if tied else model.get_input_embeddings().weight.nbytes
    return sum(p.nbytes for p in model.parameters()) - looked_up


def memory_bandwidth(device: str, size: int = 512 << 20) -> float:
    """Bytes a second at which all of torch's threads read a large tensor: median of several passes."""
    data = torch.ones(size // 4, dtype=torch.float32, device=device)
    times = []
    for _ in range(7):
        began = perf_counter()
        float(data.sum())
        times.append(perf_counter() - began)
    return size / statistics.median(times[1:])
