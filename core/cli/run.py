"""``run``: requests on a live engine, with the picture of every step where it is asked for, and a trace."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from core.cli.errors import CommandError, UsageError
from core.cli.options import (
    add_memory_options,
    add_model_options,
    add_request_options,
    load_model,
    make_config,
    wanted,
)
from core.cli.requests import Wanted
from core.cli.show import show_step
from core.cli.summary import answers, summary_line
from core.trace import save

if TYPE_CHECKING:
    from core.engine.engine import Engine
    from core.models.loaded import LoadedModel


def add_parser(commands: Any) -> None:
    """The command and its arguments."""
    parser = commands.add_parser(
        "run",
        help="run prompts on a live engine",
        description="Run prompts on a paged KV store, print the texts, and record a trace.",
    )
    add_request_options(parser)
    add_model_options(parser)
    add_memory_options(parser)
    output = parser.add_argument_group("output")
    output.add_argument("--trace", type=Path, metavar="FILE", help="save the trace (gzip if it ends in .gz)")
    output.add_argument("--show", action="store_true", help="block tables and pool after every step")
    output.add_argument(
        "--prove", action="store_true", help="compare each step with a dense, cache-free pass"
    )
    parser.set_defaults(execute=execute)


def execute(args: argparse.Namespace) -> int:
    """Run everything that was asked for. 1 when a request was refused or a step failed."""
    requests = wanted(args)
    make_config(args, None, 0)  # what is wrong with the options is said before a model is loaded
    _check_writable(args.trace)
    model = load_model(args.model, dtype=args.dtype, device=args.device, accept_terms=args.accept_terms)
    engine = _engine(args, model, requests)
    refused = _submit(engine, requests)
    began, interrupted = perf_counter(), False
    try:
        _run(engine, args.show)
    except KeyboardInterrupt:
        interrupted = True
        print("interrupted: this is what there is so far", file=sys.stderr)
    finally:
        if args.trace is not None and engine.trace.steps:
            save(engine.trace, args.trace)
    for line in answers(engine.trace, engine.text):
        print(line)
    if engine.trace.steps:
        print(summary_line(engine.trace, perf_counter() - began))
    return 130 if interrupted else int(refused > 0)


def _check_writable(path: Path | None) -> None:
    """An hour of computing must not end in a trace that cannot be saved."""
    if path is None:
        return
    folder = path.parent
    if not folder.is_dir():
        raise UsageError(f"the folder {folder} for the trace does not exist; make it first.")
    if path.is_dir() or not os.access(folder, os.W_OK):
        raise UsageError(f"the trace cannot be written to {path}; choose another file.")


def _engine(args: argparse.Namespace, model: LoadedModel, requests: list[Wanted]) -> Engine:
    from core.engine.engine import Engine

    longest = max(
        len(model.tokens.encode(r.prompt, chat=r.options.get("chat", False)))
        + r.options["max_new_tokens"]
        - 1
        if r.prompt
        else 0
        for r in requests
    )
    try:
        return Engine(model, make_config(args, model, longest), prove=args.prove)
    except UsageError:
        raise
    except ValueError as error:
        raise CommandError(str(error)) from error


def _submit(engine: Engine, requests: list[Wanted]) -> int:
    """Hand in all requests; how many were refused. Those that were not still run."""
    from core.engine.errors import RequestRefused

    refused = 0
    for request in requests:
        try:
            engine.submit(request.prompt, **request.options)
        except RequestRefused as error:
            refused += 1
            print(f"refused: {f'{request.origin}: ' if request.origin else ''}{error}", file=sys.stderr)
    return refused


def _run(engine: Engine, show: bool) -> None:
    while engine.has_work:
        step = engine.step()
        if show and step is not None:
            print(show_step(engine.trace, step), flush=True)
