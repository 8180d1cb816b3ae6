"""Tokens per second against transformers' generate, and what limits them

Same model, same prompts, same number of new tokens, greedy. The engine (paged store, trace recorded,
linear layers packed on a CPU) and generate (its own cache, prompts padded on the left) take turns in one
process; both compute the prompts and every token. generate runs on a second copy of the weights, as
transformers loads them: plain layers, its fused attention. (Packing gives the engine's own plain weights
away, so one copy cannot serve both.) The limit is what the memory allows: a decode step reads all weights
once, whatever the batch, and the keys and values of every sequence.

With --peer vllm, vLLM for CPUs takes its turn too, in a process and an environment of its own, greedy and
with its prefix cache off; its time includes the pipe to that process.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import torch

from core.bench import BenchResult, interleave
from core.bench._peer import VARIABLE, Peer, find_python
from core.bench._spent import sentence, shares
from core.bench._transformers import plain_model, run_continuous, run_generate
from core.cli.errors import UsageError
from core.config import EngineConfig
from core.engine.engine import Engine
from core.engine.prepare import prepare
from core.models import DEFAULT_MODEL, LoadedModel, fetch, load

BLOCK_SIZE = 16
TEXT = "In operating systems, paging is a way to manage memory so that a process sees one address range. "
SHORT, LONG = 16, 1000  # prompt tokens: all short, or ragged from one to the other
VLLM_TARGET = 1.0  # least ratio to vLLM
VLLM_BLOCK = 128  # tokens of a block in vLLM on a CPU


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
    parser.add_argument("--target", type=float, default=1.0, help="least ratio to transformers' better one")
    parser.add_argument("--peer", choices=["vllm"], help="also vLLM for CPUs, in an environment of its own")
    parser.add_argument(
        "--peer-python", metavar="PATH", help=f"the Python of that environment (default: {VARIABLE})"
    )


def run(args: argparse.Namespace) -> BenchResult:
    """Measure every row in turns with its peers; medians. CommandError where vLLM is asked for and fails."""
    rows: list[dict[str, Any]] = []
    if args.peer and args.device != "cpu":
        raise UsageError(f"--peer vllm is vLLM for CPUs, so it cannot be compared on {args.device}.")
    bandwidth = memory_bandwidth(args.device)
    works = {(c, b): Work(prompt_lengths(c, b), args.new_tokens) for c in args.contexts for b in args.batches}
    for dtype in args.dtypes:
        with start_vllm(args) as vllm:
            ours = load(args.model, dtype=dtype, device=args.device, accept_terms=True)
            if vllm:  # before its rivals take their memory
                load_vllm(vllm, args.model, dtype, ours.geometry.bytes_per_token, tuple(works.values()))
            prepare(ours)
            plain = plain_model(args.model, dtype, args.device)
            for (contexts, batch), work in works.items():
                row = {"dtype": dtype, "contexts": contexts, "batch": batch}
                rows.append(row | measure(ours, plain, vllm, work, args, bandwidth))
                tell(rows[-1])
            del plain
            gc.collect()
    ok, verdict = judge(rows, args.target)
    return BenchResult(
        name="decode",
        title=f"Decode of {args.model}: {args.new_tokens} new tokens, tokens per second",
        rows=rows,
        columns=[c for c in rows[0] if not c.startswith("_")],
        ok=ok,
        verdict=verdict,
        notes=[
            f"Memory bandwidth measured in this run: {bandwidth / 1e9:.1f} GB/s. The limit is that over the "
            f"weights' bytes a step ({', '.join(_weights_note(rows))}) and the mean KV bytes of the batch; "
            "prompts are part of the measured time and not of the limit.",
            "Same tokens: the share of new tokens that both give. In bf16 a padded and a packed batch round "
            "differently, so near ties part.",
            "The engine's time, prompts included: "
            + "; ".join(f"{r['dtype']} {r['contexts']} {r['batch']}: {r['_spent']}" for r in rows)
            + ".",
        ],
    )


def tell(row: dict[str, Any]) -> None:
    """Say at once what a row gave, on standard error: the whole table may take an hour."""
    speeds = ", ".join(f"{c.split()[0]} {v:.3g}" for c, v in row.items() if c.endswith("tok/s"))
    print(
        f"{row['dtype']} {row['contexts']} {row['batch']}: {speeds} tok/s; ratio {row['ratio']:.2f}",
        file=sys.stderr,
        flush=True,
    )


def judge(rows: list[dict[str, Any]], target: float) -> tuple[bool, str]:
    """Whether every row meets its targets, and the worst of them against each peer."""
    goals = {"ratio": ("transformers' better one", target), "vllm ratio": ("vLLM", VLLM_TARGET)}
    ok, said = True, []
    for column, (peer, least) in goals.items():
        if column in rows[0]:
            worst = min(rows, key=lambda row: float(row[column]))
            ok = ok and worst[column] >= least
            said.append(
                f"at least {worst[column]:.2f} times {peer} ({worst['dtype']}, batch {worst['batch']}, "
                f"{worst['contexts']} contexts; target {least:g})"
            )
    return ok, ", ".join(said)


def start_vllm(args: argparse.Namespace) -> AbstractContextManager[Peer | None]:
    """vLLM's process, with as many threads as this one has; nothing where it was not asked for."""
    if not args.peer:
        return nullcontext()
    return Peer(find_python(args.peer_python), threads=torch.get_num_threads())


def load_vllm(vllm: Peer, model: str, dtype: str, token_bytes: int, works: Sequence[Work]) -> None:
    """The same folder of weights, and a pool in which the largest batch has room twice."""
    blocks = max(sum(-(-(n + work.new) // VLLM_BLOCK) for n in work.lengths) for work in works)
    vllm.load(
        fetch(model, accept_terms=True),
        dtype=dtype,
        max_model_len=max(max(work.lengths) + work.new for work in works),
        kv_bytes=2 * (blocks + 1) * VLLM_BLOCK * token_bytes,
    )


def _weights_note(rows: list[dict[str, Any]]) -> list[str]:
    found = {row["dtype"]: row["_weight_bytes"] for row in rows}
    return [f"{dtype} {size / 2**20:.0f} MiB" for dtype, size in found.items()]


def measure(
    ours: LoadedModel, plain: Any, vllm: Peer | None, work: Work, args: argparse.Namespace, bandwidth: float
) -> dict[str, Any]:
    """One row: tokens per second of all, the ratios to transformers' better one and to vLLM, the limit."""
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
        "generate": keep("generate", lambda: run_generate(plain, prompts, work.new)),
    }
    if args.continuous:
        calls["continuous"] = keep("continuous", lambda: run_continuous(plain, prompts, work.new, BLOCK_SIZE))
    if vllm:
        calls["vllm"] = keep("vllm", lambda: vllm.generate(prompts, work.new))
    speeds = {name: work.tokens / s for name, s in interleave(calls, args.rounds).items()}
    best = max(speed for name, speed in speeds.items() if name not in ("engine", "vllm"))
    weights = weight_bytes(ours.model)
    kv = ours.geometry.bytes_per_token * sum(n + work.new / 2 for n in work.lengths)
    limit = len(work.lengths) * bandwidth / (weights + kv)
    return {
        "engine tok/s": speeds["engine"],
        **{f"{name} tok/s": speed for name, speed in speeds.items() if name != "engine"},
        "ratio": speeds["engine"] / best,
        **({"vllm ratio": speeds["engine"] / speeds["vllm"]} if vllm else {}),
        "same tokens %": 100 * agreement(found["engine"], found["generate"]),
        **({"same as vllm %": 100 * agreement(found["engine"], found["vllm"])} if vllm else {}),
        "limit tok/s": limit,
        "of limit %": 100 * speeds["engine"] / limit,
        "_weight_bytes": weights,
        "_spent": sentence(shares(ours.model, lambda: run_engine(ours, prompts, work.new))),
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
