"""``record``: run a scenario on its real model and save it as a lesson."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from core.cli.errors import CommandError, UsageError
from core.cli.options import load_model
from core.cli.text import fit
from core.scenarios import LESSONS, SCENARIOS, Scenario, recorded_path
from core.trace import save, verify
from core.trace.step import Trace


def add_parser(commands: Any) -> None:
    """The command and its arguments."""
    parser = commands.add_parser(
        "record",
        help="record a scenario",
        description="Run scenarios on their real models and save their traces.",
    )
    parser.add_argument("name", nargs="?", metavar="NAME", help='a scenario, or "list"')
    parser.add_argument("--all", action="store_true", help="every scenario")
    parser.add_argument(
        "--trace", type=Path, metavar="FILE", help=f"instead of {LESSONS.name}/NAME.kvtrace.json.gz"
    )
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--accept-terms", action="store_true", help="agree to the models' terms of use")
    parser.set_defaults(execute=execute)


def execute(args: argparse.Namespace) -> int:
    """Record one scenario or all, each verified before it is saved; or list them."""
    if args.name == "list" and not args.all:
        columns = max(map(len, SCENARIOS))
        for scenario in SCENARIOS.values():
            print(f"{fit(scenario.name, columns)}  {scenario.model:<21}  {scenario.title_en}")
        return 0
    for scenario in _chosen(args):
        trace = record(scenario, device=args.device, accept_terms=args.accept_terms)
        _check(scenario, trace)
        path = args.trace or recorded_path(scenario.name)
        save(trace, path)
        print(
            f"{scenario.name}: {len(trace.steps)} steps, {path.stat().st_size / 1024:.1f} KB in {path.name}"
        )
    return 0


def _check(scenario: Scenario, trace: Trace) -> None:
    """All rules hold, or, where the lesson switches copy-on-write off, rule 4 is the first one broken.

    Raises CommandError with what was found instead.
    """
    violation = verify(trace)
    if scenario.config.copy_on_write_disabled:
        if violation is None or violation.rule != 4:
            found = violation or "every rule holds"
            raise CommandError(f"{scenario.name} is not saved: it is to break rule 4, but {found}")
    elif violation is not None:
        raise CommandError(f"{scenario.name} is not saved: {violation}")


def _chosen(args: argparse.Namespace) -> list[Scenario]:
    if args.all == (args.name is not None):
        raise UsageError("name one scenario, or give --all; record list shows them.")
    if args.all:
        if args.trace is not None:
            raise UsageError("--trace names one file; with --all each scenario has its own.")
        return list(SCENARIOS.values())
    if args.name not in SCENARIOS:
        raise UsageError(f"there is no scenario {args.name!r}; there are {', '.join(SCENARIOS)}.")
    return [SCENARIOS[args.name]]


def record(scenario: Scenario, *, device: str = "cpu", accept_terms: bool = False) -> Trace:
    """The trace of a scenario on its model. Raises the model's and the engine's errors, with a sentence."""
    from core.engine.engine import Engine

    model = load_model(scenario.model, device=device, accept_terms=accept_terms)
    engine = Engine(model, scenario.config, prove=True, scenario=scenario.name)
    for request in scenario.requests:
        engine.submit(**request)
    while engine.has_work:
        engine.step()
    engine.close()
    return engine.trace
