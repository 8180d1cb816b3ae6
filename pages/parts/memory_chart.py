"""Memory over time as step lines: the token slots that each strategy has taken, step by step. Pure.

Drawn by the stage itself as SVG: a Plotly chart would be mounted anew on every click.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from core.memory.views import Usage
from core.trace.step import Trace
from pages.parts.say import strategy_name
from pages.parts.strips import Report


def taken(usage: Usage) -> int:
    """Slots that are not free for anybody else: live, reserved or lost inside."""
    return usage.live + usage.reserved + usage.internal


def memory_chart(trace: Trace, lang: str, lockstep: Sequence[Mapping[str, Report]] | None) -> dict[str, Any]:
    """{"cap": slots in the pool, "lines": [{"name", "label", "at": [[step, slots], ...]}]}.

    ``at`` holds the first step and every step where the value changes.
    """
    lines: dict[str, list[list[int]]] = {}
    for index, step in enumerate(trace.steps):
        entries = {usage.strategy: usage for usage in step.usage}
        if lockstep:
            entries |= {
                name: report.usage for name, report in lockstep[min(index, len(lockstep) - 1)].items()
            }
        for name, usage in entries.items():
            points = lines.setdefault(name, [])
            value = taken(usage)
            if not points or points[-1][1] != value:
                points.append([index, value])
    capacity = int(trace.meta["block_size"]) * int(trace.meta["num_blocks"])
    order = sorted(lines, key=lambda name: name == "paged")
    rows = [{"name": name, "label": strategy_name(name, lang), "at": lines[name]} for name in order]
    return {"cap": capacity, "lines": rows}
