"""``bench``: every figure that the README states, as a command."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from core import bench
from core.cli.errors import UsageError
from core.cli.text import fit


def add_parser(commands: Any) -> None:
    """The command; what a benchmark itself takes is parsed when it is known which one."""
    parser = commands.add_parser(
        "bench",
        help="measure what the README states",
        description="Measure: a table, one line of verdict last, exit 1 when a stated target is not met.",
        epilog="bench NAME --help shows what a benchmark takes itself.",
        add_help=False,
    )
    parser.add_argument("name", nargs="?", default="list", metavar="NAME", help='a benchmark, or "list"')
    parser.add_argument("rest", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    parser.set_defaults(execute=execute)


def execute(args: argparse.Namespace) -> int:
    """Run one benchmark and print its table, or list them all."""
    if args.name in ("list", "-h", "--help"):
        titles = bench.titles()
        columns = max(map(len, titles), default=0)
        for name, title in titles.items():
            print(f"{fit(name, columns)}  {title}")
        return 0
    if args.name not in bench.names():
        raise UsageError(f"there is no benchmark {args.name!r}; there are {', '.join(bench.names())}.")
    module = bench.module(args.name)
    parser = argparse.ArgumentParser(prog=f"python -m core bench {args.name}", description=module.__doc__)
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    if hasattr(module, "add_arguments"):
        module.add_arguments(parser)
    try:
        options = parser.parse_args(args.rest)
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 2
    result: bench.BenchResult = module.run(options)
    if options.json:
        json.dump(result.to_json(), sys.stdout, ensure_ascii=False, indent=1)
        print()
    else:
        bench.print_table(result)
    return 0 if result.ok else 1
