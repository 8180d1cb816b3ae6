"""Benchmarks: every figure that the README states is a command, ``python -m core bench NAME``.

Each module of this package is a benchmark by its own name: the first line of its docstring is its title,
``add_arguments(parser)`` (optional) declares what it takes, and ``run(args) -> BenchResult`` measures. They
are found by their file names and imported only when they run, for most of them import torch.
"""

from __future__ import annotations

import ast
import importlib
import os
import platform
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from time import perf_counter
from types import ModuleType
from typing import Any, TextIO

FOLDER = Path(__file__).parent


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchResult:
    """What a benchmark found. ``rows`` are the table by column name; ``columns`` those printed, in order.

    ``verdict`` is one line and comes last. ``ok`` is False when a stated target is not met.
    """

    name: str
    title: str
    rows: list[dict[str, Any]]
    columns: Sequence[str]
    verdict: str
    ok: bool = True
    notes: list[str] = field(default_factory=list)
    environment: str = field(default_factory=lambda: environment())

    def to_json(self) -> dict[str, Any]:
        """Everything, as values that ``json`` can write."""
        return asdict(self) | {"columns": list(self.columns)}


def names() -> list[str]:
    """The benchmarks that there are."""
    return sorted(path.stem for path in FOLDER.glob("*.py") if not path.stem.startswith("_"))


def titles() -> dict[str, str]:
    """The title of each benchmark, read from its source without importing it."""
    out = {}
    for name in names():
        source = (FOLDER / f"{name}.py").read_text(encoding="utf-8")
        out[name] = (ast.get_docstring(ast.parse(source)) or name).splitlines()[0]
    return out


def module(name: str) -> ModuleType:
    """Import one benchmark. Raises KeyError for a name that is none."""
    if name not in names():
        raise KeyError(name)
    return importlib.import_module(f"core.bench.{name}")


def format_value(value: Any) -> str:
    """A table's cell: three significant digits for fractions, yes and no for truth."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return "" if value is None else f"{value:,}" if isinstance(value, int) else str(value)


def print_table(result: BenchResult, file: TextIO | None = None) -> None:
    """The title, the machine, the table, the notes and, last, the verdict."""
    out = file or sys.stdout
    print(f"{result.title}\n{result.environment}\n", file=out)
    head = [str(column) for column in result.columns]
    cells = [[format_value(row.get(column)) for column in result.columns] for row in result.rows]
    widths = [max(map(len, column)) for column in zip(head, *cells, strict=True)]
    words = [any(isinstance(row.get(column), str) for row in result.rows) for column in result.columns]
    for line in (head, ["-" * width for width in widths], *cells):
        fitted = (
            cell.ljust(width) if word else cell.rjust(width)
            for cell, width, word in zip(line, widths, words, strict=True)
        )
        print("  ".join(fitted).rstrip(), file=out)
    for note in result.notes:
        print(f"\n{note}", file=out)
    print(f"\n{'ok' if result.ok else 'NOT MET'}: {result.verdict}", file=out)


def interleave(
    calls: Mapping[str, Callable[[], Any]], rounds: int = 5, *, warm_up: int = 1
) -> dict[str, float]:
    """Median seconds of each call. They take turns, so that other load on the machine hits all alike."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(warm_up + rounds):
        for name, call in calls.items():
            began = perf_counter()
            call()
            if turn >= warm_up:
                times[name].append(perf_counter() - began)
    return {name: statistics.median(taken) for name, taken in times.items()}


def environment() -> str:
    """The machine and the versions, in one line: processor, cores, Python, and torch where it is loaded."""
    parts = [_processor(), f"{_cores()} cores", f"Python {platform.python_version()}"]
    torch = sys.modules.get("torch")
    if torch is not None:
        parts.append(f"torch {torch.__version__} with {torch.get_num_threads()} threads")
        if torch.cuda.is_available():
            parts.append(torch.cuda.get_device_name())
    return ", ".join(parts)


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    model = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "")
    return model or platform.processor() or platform.machine()


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
