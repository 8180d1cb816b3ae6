"""Planning a step for 256 running sequences of 2,048 tokens: does the allocator cost anything?

No model and no tensors: the scheduler and the block pool alone, at pools of different sizes. Decode steps are
planned and committed with made-up tokens; sequences reach the edges of their blocks at different steps.
Target: a plan takes under 2 ms, and no longer in a larger pool. Times are those of the processor, so that a
busy machine measures the same as an idle one.
"""

from __future__ import annotations

import argparse
import statistics
from time import perf_counter, thread_time

from core.bench import BenchResult
from core.config import EngineConfig
from core.engine.plan import Candidate, Outcome, StepPlan
from core.engine.scheduler import Scheduler
from core.memory.views import RequestView

BLOCK_SIZE = 16
TARGET_MS, TARGET_RATIO = 2.0, 1.25


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """How many sequences, how long, in which pools."""
    parser.add_argument("--sequences", type=int, default=256, metavar="N")
    parser.add_argument("--tokens", type=int, default=2048, metavar="N", help="of each sequence")
    parser.add_argument("--steps", type=int, default=64, metavar="N", help="decode steps that are measured")
    parser.add_argument("--growth", type=int, nargs="+", default=[1, 4, 16], help="pools, times the smallest")


def run(args: argparse.Namespace) -> BenchResult:
    """Plan the same steps in every pool, in turns."""
    smallest = args.sequences * (-(-(args.tokens + args.steps + BLOCK_SIZE) // BLOCK_SIZE) + 1)
    pools = [smallest * factor for factor in args.growth]
    schedulers = [_running(args.sequences, args.tokens, pool, args.steps) for pool in pools]
    plans: list[list[float]] = [[] for _ in pools]
    walls: list[list[float]] = [[] for _ in pools]
    commits: list[list[float]] = [[] for _ in pools]
    for _ in range(args.steps):
        for k, scheduler in enumerate(schedulers):
            began, on_the_wall = thread_time(), perf_counter()
            plan = scheduler.plan()
            planned = thread_time()
            walls[k].append((perf_counter() - on_the_wall) * 1e3)
            scheduler.commit(plan, _outcome(plan))
            plans[k].append((planned - began) * 1e3)
            commits[k].append((thread_time() - planned) * 1e3)
    rows = [
        {
            "blocks": pool,
            "sequences": args.sequences,
            "plan ms (median)": statistics.median(plans[k]),
            "plan ms (95 %)": sorted(plans[k])[int(0.95 * len(plans[k]))],
            "on the wall (median)": statistics.median(walls[k]),
            "commit ms (median)": statistics.median(commits[k]),
        }
        for k, pool in enumerate(pools)
    ]
    medians = [statistics.median(taken) for taken in plans]
    ratio = medians[-1] / medians[0]
    took = f"a plan takes {max(medians):.2f} ms (target: under {TARGET_MS:g})"
    grown = f"{ratio:.2f} times as long in a pool of {pools[-1] / pools[0]:g} times the size"
    return BenchResult(
        name="allocator",
        title=f"Planning a decode step for {args.sequences} sequences of {args.tokens:,} tokens",
        rows=rows,
        columns=list(rows[0]),
        ok=max(medians) < TARGET_MS and ratio < TARGET_RATIO,
        verdict=f"{took}, {grown} (target: under {TARGET_RATIO:g})",
        notes=["Commit appends the tokens and makes the step's events; it is not part of the target."],
    )


def _running(sequences: int, tokens: int, pool: int, steps: int) -> Scheduler:
    """A scheduler with that many sequences past their prompts, their lengths a little ragged."""
    config = EngineConfig(
        block_size=BLOCK_SIZE,
        num_blocks=pool,
        max_model_len=tokens + 2 * steps + BLOCK_SIZE,
        max_batch_tokens=sequences * tokens,
        max_running=sequences,
    )
    scheduler = Scheduler(config)
    for k in range(sequences):
        prompt = tuple(range(tokens - k % BLOCK_SIZE))
        request = RequestView(
            id=f"r{k}", prompt_text="", prompt_token_ids=prompt, max_new_tokens=steps + 2, mode="greedy"
        )
        scheduler.submit(request)
    plan = scheduler.plan()
    scheduler.commit(plan, _outcome(plan))
    return scheduler


def _outcome(plan: StepPlan) -> Outcome:
    return Outcome(samples={row.sequence: (Candidate(7, -1.0),) for row in plan.scheduled})
