"""Where the screen stands in a trace and where an action takes it. Pure: no state, no drawing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from core.memory import events as ev
from core.memory.events import Event
from core.trace.step import Trace

# The kinds one can jump to, in the order of the chips.
JUMPS = ("allocate", "copy", "share", "free", "evict", "preempt", "swap", "finish")

_KIND: dict[type[Event], str] = {
    ev.Allocate: "allocate",
    ev.Copy: "copy",
    ev.Share: "share",
    ev.Free: "free",
    ev.Evict: "evict",
    ev.Preempt: "preempt",
    ev.SwapOut: "swap",
    ev.SwapIn: "swap",
    ev.Finish: "finish",
}

Command = Literal["step", "play", "select", "predict"]


@dataclass(frozen=True, slots=True)
class Move:
    """What an action asks for: the step to show, and what only the page can do.

    ``command``: "step" = run one more step of the live engine; "select" and "predict" hand over ``arg`` (a
    block, a sequence, an answer); None = nothing but the new index.
    """

    index: int
    command: Command | None = None
    arg: Any = None


def kinds(events: tuple[Event, ...]) -> frozenset[str]:
    """The jump kinds that occur among these events."""
    return frozenset(kind for event in events if (kind := _KIND.get(type(event))))


def marks(trace: Trace) -> dict[str, list[int]]:
    """For every jump kind the steps in which it happens, in order."""
    found: dict[str, list[int]] = {kind: [] for kind in JUMPS}
    for index, step in enumerate(trace.steps):
        for kind in kinds(step.events):
            found[kind].append(index)
    return found


def next_of(trace: Trace, index: int, kind: str) -> int | None:
    """The first step after ``index`` with an event of this kind ("any": of any jump kind), or None."""
    for later in range(index + 1, len(trace.steps)):
        there = kinds(trace.steps[later].events)
        if kind in there or (kind == "any" and there):
            return later
    return None


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def apply(action: Mapping[str, Any], trace: Trace, index: int, *, can_step_live: bool = False) -> Move:
    """Where ``action`` leads from ``index``.

    ``action``: {"do": back | step | start | end | goto | jump | select | predict, "arg": ...}; it comes
    from a browser, so anything that is not understood leaves everything as it is. A step at the end of the
    trace is the command "step" when the engine can go on (``can_step_live``), else nothing. Jumps that find
    nothing stay where they are.
    """
    last = max(len(trace.steps) - 1, 0)
    index = min(max(index, 0), last)
    do, arg = action.get("do"), action.get("arg")
    if do == "step":
        if index < last:
            return Move(index + 1)
        return Move(index, "step") if can_step_live else Move(index)
    if do == "goto":
        goal = _whole(arg)
        return Move(index if goal is None else min(max(goal, 0), last))
    if do == "jump":
        found = next_of(trace, index, arg) if isinstance(arg, str) else None
        return Move(index if found is None else found)
    if do in ("select", "predict"):
        return Move(index, do, arg)
    moves = {"back": max(index - 1, 0), "start": 0, "end": last}
    return Move(moves.get(do, index) if isinstance(do, str) else index)
