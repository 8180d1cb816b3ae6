"""The commands. Each is one small module that imports torch, if it needs it at all, when it runs."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from core.cli import bench, compare, models, record, run, verify
from core.cli.errors import CommandError, UsageError, is_expected

COMMANDS = (models, run, verify, record, compare, bench)


def make_parser() -> argparse.ArgumentParser:
    """The parser of all commands; ``args.execute(args)`` runs the one that was given."""
    parser = argparse.ArgumentParser(
        prog="python -m core", description="See a real language model manage its KV memory, step by step."
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in COMMANDS:
        command.add_parser(commands)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command. Exit codes: 0 it worked, 1 it failed, 2 it was asked for wrongly, 130 interrupted."""
    try:
        args = make_parser().parse_args(argv)
    except SystemExit as stop:  # argparse has said what is wrong, or has printed the help
        return stop.code if isinstance(stop.code, int) else 2
    try:
        code: int = args.execute(args)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our output, such as head, has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        if not is_expected(error):
            raise
        print(f"error: {error}", file=sys.stderr)
        return 2 if isinstance(error, UsageError) else 1


__all__ = ["COMMANDS", "CommandError", "UsageError", "main", "make_parser"]
