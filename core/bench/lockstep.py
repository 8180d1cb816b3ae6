"""What following eight other strategies costs beside a decode step

64 sequences decode on the real model; the same pictures are then followed by all strategies in lock-step,
with usage and holdings. Target: all strategies together take at most 5 % of the decode step.
"""

from __future__ import annotations

import argparse
import statistics
from time import perf_counter

from core.bench import BenchResult
from core.compare.lockstep import Lockstep
from core.compare.race import PASSAGE
from core.config import EngineConfig
from core.engine.engine import Engine
from core.memory.contiguous import STRATEGIES
from core.models import DEFAULT_MODEL, load
from core.trace.step import Trace

TARGET = 5.0  # percent
BLOCK_SIZE, PROMPT = 16, 32


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Model, sequences, steps."""
    parser.add_argument("--model", default=DEFAULT_MODEL)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--sequences", type=int, default=64, metavar="N")
    parser.add_argument("--steps", type=int, default=24, metavar="N", help="decode steps that are measured")


def run(args: argparse.Namespace) -> BenchResult:
    """Decode, then follow what was decoded, each strategy alone and all together."""
    trace = _decode(args)
    decode = statistics.median(step.time_ms.forward + step.time_ms.sample for step in trace.steps[1:])
    rows = [_row(name, _follow(trace, (name,)), decode) for name in STRATEGIES]
    together = _row("all together", _follow(trace, STRATEGIES), decode)
    return BenchResult(
        name="lockstep",
        title="What following eight other strategies costs beside a decode step",
        rows=[*rows, together],
        columns=tuple(together),
        verdict=(
            f"{args.sequences} sequences: all strategies take {together['ms a step']:.2f} ms a step, "
            f"{together['% of decode']:.2f} % of a decode step of {decode:.0f} ms (target {TARGET:g} %)"
        ),
        ok=float(str(together["% of decode"])) <= TARGET,
    )


def _decode(args: argparse.Namespace) -> Trace:
    model = load(args.model, device=args.device)
    length = PROMPT + args.steps + 2
    config = EngineConfig(
        block_size=BLOCK_SIZE, num_blocks=args.sequences * (length // BLOCK_SIZE + 1), max_model_len=length,
        strategies=(), max_batch_tokens=args.sequences * PROMPT,
    )  # fmt: skip
    engine = Engine(model, config)
    ids = model.tokens.encode(PASSAGE)
    for i in range(args.sequences):
        engine.submit(ids[i : i + PROMPT], max_new_tokens=args.steps + 2, ignore_eos=True)
    try:
        for _ in range(args.steps + 1):
            engine.step()
    finally:
        engine.close()
    return engine.trace


def _follow(trace: Trace, names: tuple[str, ...]) -> list[float]:
    """Milliseconds of each decode step."""
    capacity = 2 * trace.meta["block_size"] * trace.meta["num_blocks"] + 64 * len(trace.requests)
    requests = {request.id: request for request in trace.requests}
    best: list[float] = []
    for _ in range(3):  # the quietest of three runs, step by step
        followers = Lockstep(names, capacity=capacity, max_model_len=PROMPT + len(trace.steps) + 2)
        times = []
        for step in trace.steps:
            began = perf_counter()
            followers.advance(step.index, step.sequences, requests)
            times.append((perf_counter() - began) * 1e3)
        best = [min(pair) for pair in zip(best, times, strict=True)] if best else times
    return best[1:]


def _row(name: str, times: list[float], decode: float) -> dict[str, object]:
    median = statistics.median(times)
    return {"strategy": name, "ms a step": median, "% of decode": 100 * median / decode}
