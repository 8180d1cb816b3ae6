"""Operating system and paged KV memory, line by line, and where the analogy breaks. Pure.

Each line names the recorded run that shows it and how to find the step there: the link is made from the run,
so that it stays right when the run is recorded again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from core.memory import events as ev
from pages.parts.lessons.lesson import Find, first, first_decode, start, step_where


@dataclass(frozen=True, slots=True)
class Line:
    """One comparison. Words: ``analogy.<name>.os``, ``.kv``; ``run`` and ``find``: where it is seen."""

    name: str
    run: str
    find: Find


def second_block(walk: Any) -> int | None:
    """The first decode step that takes a block: on demand, before its token is written."""
    return step_where(
        lambda step, _: step.kind == "decode" and any(isinstance(e, ev.Allocate) for e in step.events)
    )(walk)


SAME: tuple[Line, ...] = (
    Line("page", "two-blocks", start),
    Line("table", "two-blocks", start),
    Line("demand", "two-blocks", second_block),
    Line("internal", "two-blocks", start),
    Line("fork", "two-translations", start),
    Line("cow", "half-full-block", first(ev.Copy)),
    Line("exit", "two-translations", first(ev.Free)),
)
BREAKS: tuple[Line, ...] = (
    Line("mmu", "two-blocks", first_decode),
    Line("fault", "two-blocks", second_block),
    Line("full", "pool-runs-dry", first(ev.Preempt)),
    Line("protect", "half-full-block", first(ev.Copy)),
    Line("size", "three-beams", start),
    Line("append", "full-block", first(ev.Allocate, nth=2)),
    Line("prefix", "system-prompt", first(ev.Share, where=lambda event: event.cause == "prefix")),
)


def link(line: Line, walk: Any, lang: str) -> str | None:
    """The address of the step that shows a line; None where the run has no such step."""
    step = line.find(walk)
    return None if step is None else f"./?lesson={line.run}&step={step}&lang={lang}"


def links(lines: Sequence[Line], load: Callable[[str], Any], lang: str) -> list[tuple[str, int, str] | None]:
    """(run, step, address) of every line, from the recorded runs."""
    found: list[tuple[str, int, str] | None] = []
    for line in lines:
        walk = load(line.run)
        step, address = line.find(walk), link(line, walk, lang)
        found.append(None if step is None or address is None else (line.run, step, address))
    return found
