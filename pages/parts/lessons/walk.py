"""Where one is in a lesson and where a key leads: pure functions on frozen places.

A lesson's stops lie in one run or in several; between two stops of one run there are steps, and within a step
there are events. Three paces: "stops", "steps" (token by token), "events" (one event of a step at a time).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

Pace = Literal["stops", "steps", "events"]
PACES: tuple[Pace, ...] = ("stops", "steps", "events")


@dataclass(frozen=True, slots=True)
class Place:
    """``stop``: number of the stop, from 0 (the number of stops: the questions). ``step``: of the stop's run.
    ``event``: the event of the step that is spoken about; None: the step as a whole."""

    stop: int = 0
    step: int = 0
    event: int | None = None


@dataclass(frozen=True, slots=True)
class Way:
    """What can be walked: ``stops``: (run, step or None where it does not happen); ``lengths``: events in
    each step, by run. ``open``: whether the last run may still grow (a live one)."""

    stops: tuple[tuple[str, int | None], ...]
    lengths: dict[str, tuple[int, ...]]
    open: bool = False

    def steps(self, stop: int) -> int:
        """Steps of the stop's run."""
        return len(self.lengths.get(self.stops[stop][0], ())) if stop < len(self.stops) else 0

    def run(self, stop: int) -> tuple[int, int]:
        """Which of the lesson's runs a stop lies in, from 1 in the order they are met, and of how many."""
        names = list(dict.fromkeys(name for name, _ in self.stops))
        return names.index(self.stops[stop][0]) + 1, len(names)

    def on_stop(self, place: Place) -> bool:
        """Whether the place is exactly at its stop."""
        return place.stop < len(self.stops) and self.stops[place.stop][1] == place.step

    def at(self, stop: int) -> Place:
        """The place of a stop (past the last: the questions); one that does not happen: its run's end."""
        stop = min(max(stop, 0), len(self.stops))
        if stop == len(self.stops):
            return Place(stop)
        step = self.stops[stop][1]
        return Place(stop, max(self.steps(stop) - 1, 0) if step is None else step)

    def near(self, place: Place, step: int) -> Place:
        """Another step of the same run, filed under the last stop at or before it."""
        step = min(max(step, 0), max(self.steps(place.stop) - 1, 0))
        run = self.stops[place.stop][0]
        mine = [n for n, (name, at) in enumerate(self.stops) if name == run and at is not None]
        before = [n for n in mine if (self.stops[n][1] or 0) <= step]
        return Place(before[-1] if before else mine[0] if mine else place.stop, step)


def forward(way: Way, place: Place, pace: Pace) -> Place:
    """One event, step or stop on. The same place where nothing follows."""
    if place.stop >= len(way.stops):
        return place
    run = way.stops[place.stop][0]
    lengths = way.lengths.get(run, ())
    if pace == "events":
        count = lengths[place.step] if place.step < len(lengths) else 0
        following = 0 if place.event is None else place.event + 1
        if following < count:
            return replace(place, event=following)
    if pace == "stops" or place.step + 1 >= len(lengths):
        return _next_stop(way, place)
    return way.near(place, place.step + 1)


def _next_stop(way: Way, place: Place) -> Place:
    for stop in range(place.stop + 1, len(way.stops)):
        step = way.stops[stop][1]
        if step is not None:
            return Place(stop, step)
    return place if way.open else Place(len(way.stops))


def back(way: Way, place: Place, pace: Pace) -> Place:
    """One event, step or stop back."""
    if pace == "events" and place.event is not None:
        return replace(place, event=place.event - 1 if place.event else None)
    if place.stop >= len(way.stops) or (pace == "stops" and way.on_stop(place)) or place.step == 0:
        for stop in range(min(place.stop, len(way.stops)) - 1, -1, -1):
            if way.stops[stop][1] is not None:
                return way.at(stop)
        return place if place.stop < len(way.stops) else way.at(0)
    if pace == "stops":
        return way.at(place.stop)
    return way.near(place, place.step - 1)


def has_next(way: Way, place: Place) -> bool:
    """Whether ``forward`` leads anywhere; a run that may still grow always goes on."""
    return place.stop < len(way.stops)


def jump(way: Way, place: Place, steps: Sequence[int]) -> Place:
    """The first of ``steps`` (in order) after the place; the same place where there is none."""
    later = [step for step in steps if step > place.step]
    return way.near(place, later[0]) if later else place
