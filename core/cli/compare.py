"""``compare``: the requests of a trace under other allocation strategies, step by step, without the model."""

from __future__ import annotations

import argparse
from typing import Any


def add_parser(commands: Any) -> None:
    """The command and its arguments."""
    parser = commands.add_parser(
        "compare",
        help="a trace's requests under other allocation strategies",
        description="Follow a trace under other allocation strategies, on the same number of slots.",
    )
    parser.add_argument("file", metavar="FILE", help="a .kvtrace.json or .kvtrace.json.gz file")
    parser.add_argument(
        "--strategies",
        metavar="NAME,…",
        help="names with commas between them (all); --strategies list shows them",
    )
    parser.add_argument(
        "--hindsight", action="store_true", help="count waste with the true final lengths, as the paper does"
    )
    parser.add_argument(
        "--policy", choices=("first fit", "best fit", "buddy"), help="where contiguous runs go (first fit)"
    )
    parser.add_argument(
        "--estimate", type=int, metavar="N", help="the length that strategies which reserve once believe in"
    )
    parser.add_argument(
        "--overflow", choices=("stop", "move"), default="stop", help="what happens when it was too small"
    )
    parser.add_argument("--max-model-len", type=int, metavar="N", help='what "reserve max" reserves')
    parser.add_argument("--json", action="store_true", help="every step and every figure, as JSON")
    parser.set_defaults(execute=execute)


def execute(args: argparse.Namespace) -> int:
    """Hand over to the room that compares."""
    from core.compare.commands import compare_cli

    return compare_cli(args)
