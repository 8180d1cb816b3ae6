"""The runs that a lesson walks through: recorded, made on the spot, or the live one of this tab."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from core.memory.events import Event
from core.scenarios import SCENARIOS
from core.trace.step import Trace
from pages.parts import library
from pages.parts.lessons.lesson import Lesson
from pages.parts.lessons.walk import Way

LIVE = "live"


def recorded(lesson: Lesson) -> dict[str, Any]:
    """Every run that the lesson's stops and questions name. Raises ValueError for one that is not there."""
    names = dict.fromkeys([stop.run for stop in lesson.stops] + [ask.run for ask in lesson.questions])
    return {name: lesson.made[name]() if name in lesson.made else library.lesson(name) for name in names}


def own(lesson: Lesson, trace: Trace) -> dict[str, Trace]:
    """One's own run in the place of every recorded one that has its rules: the first stop's scenario's."""
    names = dict.fromkeys([stop.run for stop in lesson.stops] + [ask.run for ask in lesson.questions])
    rules = _rules(lesson.stops[0].run)
    return {name: trace for name in names if name not in lesson.made and _rules(name) == rules}


def _rules(name: str) -> tuple[object, ...]:
    """What decides which events can happen at all, whatever prompt and block size."""
    config = SCENARIOS[name].config
    return config.sharing, config.prefix_cache, config.preempt, config.copy_on_write_disabled


def way(lesson: Lesson, runs: Mapping[str, Any]) -> Way:
    """The lesson's stops located in its recorded runs."""
    stops = tuple((stop.run, stop.find(runs[stop.run])) for stop in lesson.stops)
    used = {run for run, _ in stops}
    return Way(stops, {name: _lengths(walk) for name, walk in runs.items() if name in used})


def live_way(lesson: Lesson, trace: Trace, *, open_: bool) -> Way:
    """The lesson's stops located in one live run, in the order of the lesson; those that come too early for
    the stop before them are left out, so that Right never leads back, unless another picture looks anew.
    A stop about other rules than the run's is left out, too."""
    stops: list[tuple[str, int | None]] = []
    last, picture, mine = 0, "", own(lesson, trace)
    for stop in lesson.stops:
        last, picture = (last if stop.picture == picture else 0), stop.picture
        step = stop.find(trace) if stop.run in mine else None
        step = step if step is not None and step >= last else None
        last = last if step is None else step
        stops.append((LIVE, step))
    return Way(tuple(stops), {LIVE: _lengths(trace)}, open=open_)


def _lengths(walk: Any) -> tuple[int, ...]:
    """Memory events in each step; what else a walk calls events is not spoken about one by one."""
    return tuple(
        sum(isinstance(event, Event) for event in getattr(step, "events", ())) for step in walk.steps
    )
