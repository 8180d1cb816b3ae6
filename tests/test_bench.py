"""The frame of the benchmarks: found by name, printed as a table, exit 1 when a target is not met."""

from __future__ import annotations

import argparse
import json
import time
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from core import bench
from core.cli import main


def result(ok: bool = True) -> bench.BenchResult:
    rows = [{"what": "one", "ms": 1.2345}, {"what": "eleven", "ms": 12345.6, "met": True}]
    return bench.BenchResult(
        name="toy", title="A toy", rows=rows, columns=("what", "ms", "met"), verdict="it plays", ok=ok,
        notes=["A note."], environment="a machine",
    )  # fmt: skip


def test_the_table_ends_with_the_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    bench.print_table(result())
    assert capsys.readouterr().out == (
        "A toy\na machine\n\n"
        "what        ms  met\n"
        "------  ------  ---\n"
        "one       1.23\n"
        "eleven  12,346  yes\n"
        "\nA note.\n\nok: it plays\n"
    )


@pytest.mark.parametrize("ok", [True, False])
def test_the_command_exits_with_1_when_a_target_is_not_met(
    ok: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: list[argparse.Namespace] = []

    def run(args: argparse.Namespace) -> bench.BenchResult:
        seen.append(args)
        return result(ok)

    toy: Any = SimpleNamespace(
        run=run, __doc__="A toy", add_arguments=lambda p: p.add_argument("--rounds", type=int)
    )
    monkeypatch.setattr(bench, "names", lambda: ["toy"])
    monkeypatch.setattr(bench, "module", lambda name: toy)
    assert main(["bench", "toy", "--rounds", "3"]) == (0 if ok else 1)
    assert seen[0].rounds == 3
    assert capsys.readouterr().out.splitlines()[-1] == ("ok: it plays" if ok else "NOT MET: it plays")
    assert main(["bench", "toy", "--json"]) == (0 if ok else 1)
    data = json.loads(capsys.readouterr().out)
    assert (data["ok"], data["columns"], data["rows"][0]["ms"]) == (ok, ["what", "ms", "met"], 1.2345)
    assert main(["bench", "toy", "--rounds", "x"]) == 2


@pytest.mark.parametrize("name", bench.names())
def test_every_benchmark_has_a_title_and_can_be_asked_for_help(name: str) -> None:
    module = bench.module(name)
    assert isinstance(module, ModuleType) and callable(module.run)
    title = bench.titles()[name]
    assert title and title != name and len(title) <= 110


def test_calls_take_turns_and_the_median_is_given() -> None:
    order: list[str] = []
    times = bench.interleave(
        {"slow": lambda: (order.append("s"), time.sleep(0.004)), "quick": lambda: order.append("q")}, rounds=3
    )
    assert "".join(order) == "sqsqsqsq"
    assert times["slow"] >= 0.004 > times["quick"]


def test_the_environment_names_the_machine() -> None:
    assert " cores, Python 3." in bench.environment()


def test_the_allocator_bench_measures_what_it_says() -> None:
    module = bench.module("allocator")
    parser = argparse.ArgumentParser()
    module.add_arguments(parser)
    args = parser.parse_args(["--sequences", "8", "--tokens", "64", "--steps", "20", "--growth", "1", "3"])
    found: bench.BenchResult = module.run(args)
    small, large = found.rows
    assert large["blocks"] == 3 * small["blocks"]
    assert all(row["plan ms (median)"] > 0 and row["sequences"] == 8 for row in found.rows)
