"""``record``: run a scenario on its real model and save it as a lesson; or make what a page opens with."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from core.cli.errors import CommandError, UsageError
from core.cli.options import load_model
from core.cli.text import fit
from core.models.registry import DEFAULT_MODEL
from core.scenarios import LESSONS, SCENARIOS, Scenario, recorded_path
from core.trace import save, verify
from core.trace.step import Trace

PAGES = {  # what two pages open with; not traces
    "kernel-page": "one decode step with its tensors, for the kernel page",
    "race": "the race that the race page is set to when it opens",
}


def add_parser(commands: Any) -> None:
    """The command and its arguments."""
    parser = commands.add_parser(
        "record",
        help="record a scenario",
        description="Run scenarios on their real models and save their traces.",
    )
    parser.add_argument("name", nargs="?", metavar="NAME", help='a scenario, a page, or "list"')
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
        for name, what in PAGES.items():
            print(f"{fit(name, columns)}  {DEFAULT_MODEL:<21}  {what}")
        return 0
    if args.name in PAGES and not args.all:
        return _record_page(args)
    for scenario in _chosen(args):
        trace = record(scenario, device=args.device, accept_terms=args.accept_terms)
        _check(scenario, trace)
        path = args.trace or recorded_path(scenario.name)
        save(trace, path)
        print(
            f"{scenario.name}: {len(trace.steps)} steps, {path.stat().st_size / 1024:.1f} KB in {path.name}"
        )
    return 0


def _record_page(args: argparse.Namespace) -> int:
    """Make a page's recording again, and read it back. ``--trace`` names another file here too."""
    from core.compare import race_file
    from core.engine import peek_file

    model = load_model(DEFAULT_MODEL, device=args.device, accept_terms=args.accept_terms)
    if args.name == "race":
        path: Path = args.trace or race_file.RACE_FILE
        race_file.save_race(race_file.record_race(model), path)
        said = f"{len(race_file.load_race(path).results)} strategies"
    else:
        path = args.trace or peek_file.PEEK_FILE
        peek_file.save_peek(peek_file.record_peek(model), path)
        said = "layers " + ", ".join(map(str, peek_file.load_peek(path).layers))
    print(f"{args.name}: {said}, {path.stat().st_size / 1024:.1f} KB in {path.name}")
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
        raise UsageError(f"there is no scenario {args.name!r}; there are {', '.join([*SCENARIOS, *PAGES])}.")
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
