"""Recompute against cache: same text, tokens processed, operations and milliseconds a token

Greedy, one sequence, twice: once with the whole sequence through the model for every new token, once through
the paged engine. Tokens and operations are counted, milliseconds measured. Targets: the same text, and the
counted work must fall as the formula says; for a long text also the time.
"""

from __future__ import annotations

import argparse
import statistics

from core.bench import BenchResult
from core.compare.race import PASSAGE
from core.compare.recompute import Generation, recompute, with_cache
from core.models import DEFAULT_MODEL, load


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Model, and the prompts and texts that are compared."""
    parser.add_argument("--model", default=DEFAULT_MODEL)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--prompts", type=int, nargs="+", default=[8, 200], metavar="P", help="tokens")
    parser.add_argument("--new-tokens", type=int, nargs="+", default=[4, 64], metavar="G", help="of each")


def run(args: argparse.Namespace) -> BenchResult:
    """Generate each text in both ways, the first time unmeasured."""
    model = load(args.model, device=args.device)
    ids = model.tokens.encode(PASSAGE)
    rows: list[dict[str, object]] = []
    ok = True
    for prompt, new in zip(args.prompts, args.new_tokens, strict=True):
        text = (ids * (prompt // len(ids) + 1))[:prompt]
        recompute(model, text, 1), with_cache(model, text, 2)  # warm up
        ways = {"recompute": recompute(model, text, new), "cache": with_cache(model, text, new)}
        same = ways["recompute"].token_ids == ways["cache"].token_ids
        counted = ways["cache"].processed == prompt + new - 1
        counted &= ways["recompute"].processed == sum(prompt + k for k in range(new))
        faster = ways["cache"].ms < ways["recompute"].ms or new < 50
        ok &= same and counted and faster
        rows.extend(_row(prompt, new, way, found, same) for way, found in ways.items())
    last, before = rows[-1], rows[-2]
    work, time = (float(str(before[k])) / float(str(last[k])) for k in ("GFLOP a token", "ms a token"))
    return BenchResult(
        name="cache",
        title="Recompute against cache: same text, tokens processed, operations and milliseconds a token",
        rows=rows,
        columns=tuple(rows[0]),
        notes=[
            "The last token's milliseconds show the trend: without a cache every token costs more than the "
            "one before, with it nearly the same. With a short text both are near each other: either way the "
            "weights are read once a step."
        ],
        verdict=(
            f"prompt {args.prompts[-1]}, {args.new_tokens[-1]} new tokens: recomputing takes {work:.1f} "
            f"times the operations and {time:.1f} times the milliseconds a token; texts "
            + ("equal" if all(row["same text"] for row in rows) else "NOT equal")
        ),
        ok=ok,
    )


def _row(prompt: int, new: int, way: str, found: Generation, same: bool) -> dict[str, object]:
    later = found.costs[1:] or found.costs
    return {
        "prompt": prompt,
        "new": new,
        "way": way,
        "tokens processed": found.processed,
        "GFLOP a token": found.operations / new / 1e9,
        "ms a token": found.ms / new,
        "first ms": found.costs[0].ms,
        "median ms after": statistics.median(cost.ms for cost in later),
        "last ms": found.costs[-1].ms,
        "same text": same,
    }
