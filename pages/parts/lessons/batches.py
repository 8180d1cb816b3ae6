"""What a batch costs and gives: measured decode steps of a recorded run, grouped by batch size. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from core.compare.report import capacity_of, max_model_len_of
from core.memory import events as ev
from core.trace.step import Trace
from pages.parts.lessons import shadow

STRATEGIES = ("reserve max", "doubling", "exact", "paged")


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Decode steps with ``size`` sequences in one forward pass: the shortest time of ``steps`` of them."""

    size: int
    ms: float
    steps: int

    @property
    def rate(self) -> float:
        """Tokens a second: each sequence of the batch gets one token a step."""
        return 1e3 * self.size / self.ms if self.ms else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchStep:
    """One more batch size; ``seen``: all up to this one. ``events`` holds the new one alone. ``fits``: the
    step after the last size, which also shows how many requests memory lets run at once."""

    index: int
    events: tuple[Batch, ...]
    seen: tuple[Batch, ...]
    fits: bool = False


@dataclass(slots=True, kw_only=True)
class BatchWalk:
    """Batch sizes in order, and the crowd whose requests are counted (``crowd``)."""

    meta: dict[str, Any] = field(default_factory=dict)
    requests: list[Any] = field(default_factory=list)
    steps: list[BatchStep] = field(default_factory=list)
    tokens: dict[int, bytes] = field(default_factory=dict)


def measured(trace: Trace) -> list[Batch]:
    """Pure decode steps by the number of sequences that were computed in them. The fastest of each size
    counts: whatever else the machine did can only have made a step longer."""
    times: dict[int, list[float]] = {}
    for step in trace.steps:
        rows = {event.sequence for event in step.events if isinstance(event, ev.Write)}
        if step.kind == "decode" and rows:
            times.setdefault(len(rows), []).append(step.time_ms.forward + step.time_ms.sample)
    return [Batch(size=size, ms=min(ms), steps=len(ms)) for size, ms in sorted(times.items())]


def at_once(trace: Trace, reserve: int | None = None) -> dict[str, int]:
    """The most requests of a trace that run at once under each strategy, on the same slots."""
    most: dict[str, int] = {}
    for name in STRATEGIES:
        if name == "paged":
            most[name] = max((step.usage[0].running for step in trace.steps), default=0)
        else:
            settings = {"max_model_len": reserve} if reserve else {}
            most[name] = shadow.peak(shadow.reports(trace, name, **settings))
    return most


def walk(timed: Trace, crowd: Trace) -> BatchWalk:
    """A walk with a step for each batch size of ``timed``, and in ``meta`` what fits of ``crowd``."""
    found = measured(timed)
    steps = [BatchStep(index=k, events=(one,), seen=tuple(found[: k + 1])) for k, one in enumerate(found)]
    if found:
        steps.append(BatchStep(index=len(found), events=(found[-1],), seen=tuple(found), fits=True))
    meta = {
        "model": timed.meta.get("model", {}), "device": timed.meta.get("device", ""),
        "at_once": at_once(crowd), "capacity": capacity_of(crowd), "reserve": max_model_len_of(crowd),
        "requests": len(crowd.requests), "largest": found[-1].ms if found else 1.0,
        "peak": max((one.rate for one in found), default=1.0), "sizes": [one.size for one in found],
    }  # fmt: skip
    return BatchWalk(meta=meta, steps=steps)
