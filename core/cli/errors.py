"""Which errors are sentences for the user, and which are faults of the program that keep their traceback."""

from __future__ import annotations

import sys


class CommandError(ValueError):
    """A command that cannot do what was asked; the sentence says why."""


class UsageError(CommandError):
    """A command that was asked for wrongly; the sentence says what to change."""


# Raised by rooms that a quick command never imports: looked up by name, where they have been imported.
_ELSEWHERE = {
    "core.trace.file": ("TraceError",),
    "core.engine.errors": ("RequestRefused", "PoolTooLarge", "BridgeError"),
    "core.models.errors": ("FetchError", "UnsupportedModel"),
}


def is_expected(error: Exception) -> bool:
    """Whether the error's text is a sentence for the user."""
    known: list[type] = [CommandError]
    for module, names in _ELSEWHERE.items():
        if module in sys.modules:
            known += [getattr(sys.modules[module], name) for name in names]
    return isinstance(error, tuple(known))
