"""What ``python -m core compare`` does: a recorded trace under other strategies, as a table."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import Any

from core.compare.lockstep import PAGED, lockstep
from core.compare.report import StepReport, capacity_of
from core.memory.contiguous import STRATEGIES
from core.trace import Trace, TraceError, load

PARTS = ("live", "reserved", "internal", "external", "cached", "free")
COLUMNS = ("strategy", "steps", "running", "waiting", "waited", *PARTS[:4], "copied", "recomputed", "stopped")


def compare_cli(args: argparse.Namespace) -> int:
    """Compare and print. Exit code 0, or 2 with a sentence when the trace or an argument is no good.

    Reads ``file``, ``strategies`` (names with commas, "list", or None for all), ``hindsight``, ``policy``,
    ``estimate``, ``overflow``, ``max_model_len``, ``json``.
    """
    names = [PAGED, *STRATEGIES]
    if args.strategies == "list":
        print("\n".join(names))
        return 0
    if args.strategies:
        names = list(dict.fromkeys(name.strip() for name in args.strategies.split(",") if name.strip()))
    try:
        trace = load(args.file)
        reports = lockstep(
            trace, names, policy=args.policy, estimate=args.estimate, overflow=args.overflow,
            max_model_len=args.max_model_len, hindsight=args.hindsight,
        )  # fmt: skip
    except (TraceError, ValueError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    bytes_per_token = trace.meta.get("bytes_per_token") or 0
    rows = [summary(n, [step[n] for step in reports], len(trace.steps), bytes_per_token) for n in names]
    if args.json:
        steps = [{name: as_dict(report) for name, report in step.items()} for step in reports]
        print(json.dumps({"summary": rows, "steps": steps}))
    else:
        print_summary(trace, rows, args.hindsight)
    return 0


def summary(
    name: str, reports: Sequence[StepReport], trace_steps: int, bytes_per_token: int
) -> dict[str, Any]:
    """One strategy over a whole run.

    For each kind of slot and for the sequences running: the peak and the mean over its steps (until it was
    done). ``waited``: requests waiting, summed over steps. ``copied_bytes``; ``stopped``: sequence ->
    reason.
    """
    busy = [r for r in reports if r.usage.running or r.usage.waiting]
    last_busy = max((i for i, r in enumerate(reports) if r.usage.running or r.usage.waiting), default=-2)
    steps = min(last_busy + 2, len(reports))  # the last request ends in the step after that
    last = reports[-1] if reports else None
    row: dict[str, Any] = {"strategy": name, "steps": steps, "extra_steps": max(0, steps - trace_steps)}
    for key in ("running", "waiting", *PARTS):
        values = [getattr(r.usage, key) for r in busy]
        row[key] = {"peak": max(values, default=0), "mean": sum(values) / len(values) if values else 0.0}
    row["waited"] = sum(r.usage.waiting for r in reports)
    row["copied"] = last.usage.copied if last else 0
    row["copied_bytes"] = row["copied"] * bytes_per_token
    row["recomputed"] = last.recomputed if last else 0
    row["preempted"] = last.preempted if last else 0
    row["stopped"] = {stop.sequence: stop.reason for stop in last.stopped} if last else {}
    return row


def as_dict(report: StepReport) -> dict[str, Any]:
    """A report as values that ``json`` can write."""
    usage = {key: getattr(report.usage, key) for key in (*PARTS, "capacity", "copied", "running", "waiting")}
    return {
        "usage": usage,
        "runs": [run._asdict() for run in report.runs],
        "waiting": report.waiting and report.waiting._asdict(),
        "events": [event.to_dict() for event in report.events],
        "stopped": [stop._asdict() for stop in report.stopped],
    }


def print_summary(trace: Trace, rows: Sequence[dict[str, Any]], hindsight: bool) -> None:
    """The table, one strategy a line: peak and mean of what changes, totals of what adds up."""
    requests = len(trace.requests)
    print(f"{requests} requests, {len(trace.steps)} steps, {capacity_of(trace)} slots; peak / mean, in slots")
    lines = [list(COLUMNS)] + [[_cell(row, column) for column in COLUMNS] for row in rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(COLUMNS))]
    for name, *cells in lines:
        fitted = (cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True))
        print("  ".join([name.ljust(widths[0]), *fitted]))
    for row in rows:
        for sequence, reason in row["stopped"].items():
            print(f"{row['strategy']}: {sequence} stopped early ({reason})")
    if hindsight:
        print("In hindsight: what was reserved and never used counts as internal.")


def _cell(row: dict[str, Any], column: str) -> str:
    value = row[column]
    if column == "copied" and row["copied_bytes"]:
        return f"{value:,} ({row['copied_bytes'] / 1e6:,.1f} MB)"
    if column == "stopped":
        return str(len(value))
    if isinstance(value, dict):
        return f"{value['peak']:,} / {value['mean']:,.1f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
