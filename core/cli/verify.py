"""``verify``: do the rules of the trace format hold after every step of a file?"""

from __future__ import annotations

import argparse
from typing import Any

from core.trace import Trace, TraceError, Violation, first_difference, load, verify


def add_parser(commands: Any) -> None:
    """The command and its arguments."""
    parser = commands.add_parser(
        "verify",
        help="check a trace",
        description="Check a trace: exit 0, or 1 and the first rule that fails.",
    )
    parser.add_argument("file", metavar="FILE", help="a .kvtrace.json or .kvtrace.json.gz file")
    parser.add_argument("--same-as", metavar="OTHER", help="also rule 9: the same run but for its times")
    parser.set_defaults(execute=execute)


def execute(args: argparse.Namespace) -> int:
    """Print one line: what holds, or the first rule that does not, and where."""
    try:
        trace = load(args.file)
        other = load(args.same_as) if args.same_as else None
    except TraceError as error:
        if error.rule is None:
            raise
        print(f"rule {error.rule} does not hold: {error}")
        return 1
    violation = verify(trace) or (first_difference(trace, other) if other else None)
    print(_line(trace, violation, "9" if other else "8"))
    return 1 if violation else 0


def _line(trace: Trace, violation: Violation | None, last: str) -> str:
    if violation:
        return str(violation)
    steps = len(trace.steps)
    sequences = len(trace.steps[-1].sequences) if steps else 0
    return f"ok: {_count(steps, 'step')}, {_count(sequences, 'sequence')}, rules 1-{last} hold"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" + ("" if number == 1 else "s")
