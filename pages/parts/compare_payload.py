"""Everything that the comparison's picture draws, as plain data: a pure function of reports and a step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from core.compare.commands import summary
from core.compare.report import StepReport, capacity_of
from core.memory import events as ev
from core.trace.step import Trace
from pages.parts.compare_run import Choices, Reports, policy_of
from pages.parts.compare_say import Names, note, sentence
from pages.parts.compare_strips import segments
from pages.parts.memory_chart import taken
from pages.parts.say import strategy_name
from pages.parts.strips import useful
from pages.parts.words import t

KINDS = ("live", "reserved", "internal", "external", "cached", "free")
SERIES = ("taken", "live", "running")


def compare_payload(
    trace: Trace, reports: Reports, index: int, choices: Choices, lang: str, lecture: bool = False
) -> dict[str, Any]:
    """The picture of step ``index`` (the nearest, when it lies outside). JSON-able."""
    last = max(len(reports) - 1, 0)
    index = min(max(index, 0), last)
    payload: dict[str, Any] = {
        "index": index,
        "last": last,
        "own": len(trace.steps) - 1,  # the trace's own last step: from there on only the others run
        "lang": lang,
        "lecture": lecture,
        "slots": capacity_of(trace),
        "bytes": int(trace.meta.get("bytes_per_token") or 0),
        "hindsight": choices.hindsight,
    }
    if not reports:
        return payload | {"say": ["", t("compare.nothing", lang)], "rows": [], "marks": []}
    names = Names(trace, lang)
    step = reports[index]
    rows = [_row(name, report, reports, index, choices, names) for name, report in step.items()]
    return payload | {
        "say": sentence(trace, reports, index, choices, names),
        "rows": rows,
        "marks": marks(reports, choices),
    }


def _row(
    name: str, report: StepReport, reports: Reports, index: int, choices: Choices, names: Names
) -> dict[str, Any]:
    usage = report.usage
    column = [step[name] for step in reports]
    return {
        "name": name,
        "label": strategy_name(name, names.lang),
        "policy": _policy(name, choices, names.lang),
        "segs": segments(report, names.places, policy_of(name, choices.policy)),
        "useful": useful(usage),
        "waits": report.waiting is not None,
        "note": note(name, report, names, index),
        "now": {kind: getattr(usage, kind) for kind in (*KINDS, "running", "waiting", "copied")},
        "so_far": _so_far(column[: index + 1]),
        "whole": _whole(name, column),
        "lines": {key: line(column, key) for key in SERIES},
    }


def _policy(name: str, choices: Choices, lang: str) -> str:
    policy = policy_of(name, choices.policy)
    return t(f"compare.policy.{policy}", lang) if policy else ""


def _so_far(column: Sequence[StepReport]) -> dict[str, int]:
    last = column[-1]
    return {
        "most": max(report.usage.running for report in column),
        "waited": sum(report.usage.waiting for report in column),
        "recomputed": last.recomputed,
        "stopped": len(last.stopped),
    }


def _whole(name: str, column: Sequence[StepReport]) -> dict[str, Any]:
    """From the first step to the strategy's own end: requests at once on average, and how many steps."""
    found = summary(name, column, len(column), 0)
    return {"mean": round(found["running"]["mean"], 2), "steps": found["steps"]}


def line(column: Sequence[StepReport], key: str) -> list[list[int]]:
    """[step, value] where the value changes: slots taken, slots that hold a token, or requests running."""
    points: list[list[int]] = []
    for index, report in enumerate(column):
        value = taken(report.usage) if key == "taken" else getattr(report.usage, key)
        if not points or points[-1][1] != value:
            points.append([index, value])
    return points


def marks(reports: Reports, choices: Choices) -> list[list[Any]]:
    """[step, kind] of what the time line shows: a compaction, a request stopped, a run that moved."""
    found: list[list[Any]] = []
    stopped: Mapping[str, int] = {}
    for index, step in enumerate(reports):
        now = {name: len(report.stopped) for name, report in step.items()}
        if any(report.compacted for report in step.values()) or index in choices.compacted:
            found.append([index, "compact"])
        elif any(now[name] > stopped.get(name, 0) for name in now):
            found.append([index, "stop"])
        elif any(_moves(name, report) for name, report in step.items()):
            found.append([index, "move"])
        stopped = now
    return found


def _moves(name: str, report: StepReport) -> bool:
    """Whether a run had to move; "grow by one" moves all of them in every step, which is no news."""
    return name != "grow by one" and any(isinstance(event, ev.Grow) for event in report.events)
