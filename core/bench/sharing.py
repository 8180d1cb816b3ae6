"""Blocks saved by sharing, beside the PagedAttention paper's Fig. 15

Several samples or beams of one request share blocks; saved is what the tables list more than there are
blocks, of what they list. Our scheduler and allocator, block size 16, lengths like Alpaca's and ShareGPT's,
no model; --model measures the beams of a real one as well. Target: samples within 5 points of the paper.
"""

from __future__ import annotations

import argparse
from typing import Any

from core.bench import BenchResult
from core.compare.sharing import PAPER, WIDTHS, Mode, prompt_share, real_beams, representative, saved
from core.compare.workload import ALPACA, SHAREGPT

POINTS = 5.0
PROMPTS = (
    "Give three tips for staying healthy and explain in a sentence why each one of them helps.",
    "Describe the structure of an atom to a child who has never heard of it before.",
    "Write a short story in which a young girl finds an old map in the attic of her house.",
    "What are the main causes of air pollution in large cities, and what can be done about it?",
)
NEW_TOKENS = 58  # the mean of Alpaca's answers
WHY = (
    "Samples share the full blocks of the prompt and nothing else for long, so they save (n - 1) / n of the "
    "prompt's share of all blocks. The paper says that prompts hold 12 % of the memory for Alpaca, and its "
    "figures divided by (n - 1) / n give 11 to 12 %; ours are in the column “prompt %”. That share depends "
    "on the spread of the lengths, of which the paper prints the means only: log-normal here."
)
BEAMS = (
    "Beams share for as long as the living ones have an ancestor in common, and how far back that lies is up "
    "to the model. The paper's was OPT-13B; here it is a made-up one (core/compare/sharing.py), its spread "
    "set so that two beams save what they do with SmolLM2-135M. That real model saves 37.5, 54.6 and 61.2 % "
    "with 2, 4 and 6 beams on the four instructions of this file (58 new tokens each; --model "
    "smollm2-135m-instruct --prompts 4): more beams save more there, too, than the paper found. "
    "In the made-up one beams lose their past at the same pace however long the answer is, and nothing "
    "holds them apart; so the long answers of ShareGPT are the farthest off, and are not evidence."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """How many requests, and whether a real model chooses."""
    parser.add_argument("--requests", type=int, default=16, metavar="N", help="a workload (default 16)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--model", metavar="NAME", help="also measure beams with this model (minutes)")
    parser.add_argument("--prompts", type=int, default=2, metavar="N", help="for --model, 1 to 4 (default 2)")


def run(args: argparse.Namespace) -> BenchResult:
    """Run every request alone with 2, 4 and 6 samples and beams, and set ours beside the paper's."""
    rows: list[dict[str, Any]] = []
    for lengths in (ALPACA, SHAREGPT):
        requests = representative(lengths, args.requests, args.seed)
        modes: tuple[Mode, ...] = ("sample", "beam")
        for mode in modes:
            for width in WIDTHS:
                ours = saved(requests, mode, width, args.seed).percent
                paper = PAPER.get((lengths.name, mode, width))
                share = prompt_share(requests) if mode == "sample" else None
                rows.append(_row(lengths.name, mode, width, ours, paper, share))
    off = [
        abs(row["ours %"] - row["paper %"])
        for row in rows
        if row["paper %"] is not None and row["kind"] == "samples"
    ]
    if args.model:
        rows += _real(args)
    return BenchResult(
        name="sharing",
        title="Blocks saved by sharing, of the blocks there would be without it (the paper's Fig. 15)",
        rows=rows,
        columns=("requests", "kind", "n", "ours %", "paper %", "off", "prompt %"),
        notes=[WHY, BEAMS],
        ok=max(off) <= POINTS,
        verdict=f"samples within {max(off):.1f} points of the paper (target {POINTS:g}); beams: see above",
    )


def _row(
    requests: str, mode: Mode, width: int, ours: float, paper: float | None, share: float | None
) -> dict[str, Any]:
    return {
        "requests": requests,
        "kind": {"sample": "samples", "beam": "beams"}[mode],
        "n": width,
        "ours %": round(ours, 1),
        "paper %": paper,
        "off": None if paper is None else f"{ours - paper:+.1f}",
        "prompt %": None if share is None else round(share, 1),
    }


def _real(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Beams of a real model on a few instructions."""
    from core.cli.options import load_model

    model = load_model(args.model)
    prompts = PROMPTS[: max(1, args.prompts)]
    name = f"{len(prompts)} real, {model.name}"
    return [
        _row(name, "beam", width, real_beams(model, prompts, width, NEW_TOKENS).percent, None, None)
        for width in WIDTHS
    ]
