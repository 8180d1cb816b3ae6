"""Doubling, the C++ vector: start small, and when it is full, take twice as much, copy, free the old."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from core.compare.report import capacity_of, max_model_len_of
from core.memory import events as ev
from pages.parts.gates import Coming, Question, number_options, numbers_near
from pages.parts.labels import letter
from pages.parts.lessons import shadow
from pages.parts.lessons.common import choice
from pages.parts.lessons.drawings.basics import places
from pages.parts.lessons.drawings.doubling import reports
from pages.parts.lessons.lesson import Ask, Lesson, Sight, Stop, start

ID = "doubling"
RUN = "coming-and-going"


def first_growth(walk: Any) -> int | None:
    """The first step in which a run is full and moves."""
    return next((k for k, one in enumerate(reports(walk)) if shadow.grown(one)), None)


def most_copied(walk: Any) -> int | None:
    """The step in which doubling copies the most tokens at once."""
    copied = [sum(event.copied for event in shadow.grown(one)) for one in reports(walk)]
    return copied.index(max(copied)) if copied and max(copied) else None


def stalled(walk: Any) -> int | None:
    """The first step in which a running sequence cannot grow, after most runs have grown."""
    for index, one in enumerate(reports(walk)):
        waiting = one.waiting
        if waiting is not None and waiting.growing and waiting.reason != "next":
            return index
    return None


def last(walk: Any) -> int | None:
    """The last step of the run."""
    return len(walk.steps) - 1 if walk.steps else None


def numbers(sight: Sight) -> Mapping[str, object]:
    """Copies so far, and what a growing run holds, under doubling, by one, and in pages."""
    trace, index = sight.trace, sight.index
    now, one = reports(trace)[index], reports(trace, "grow by one")[index]
    usage, own = now.usage, sight.step.usage[0]
    grown = shadow.grown(now)
    place = places(sight.step.sequences)
    each = int(trace.meta.get("bytes_per_token", 0))
    found: dict[str, object] = {
        "capacity": capacity_of(trace),
        "running": usage.running,
        "live": usage.live,
        "held": usage.live + usage.reserved + usage.internal,
        "empty": usage.reserved + usage.internal,
        "copied": usage.copied,
        "one": one.usage.copied,
        "paged": own.copied,
        "times": f"{one.usage.copied / usage.copied:.1f}" if usage.copied else "–",
        "bytes": usage.copied * each,
        "one_bytes": one.usage.copied * each,
        "steps": index + 1,
        "moves": sum(len(shadow.grown(r)) for r in reports(trace)[: index + 1]),
        "n": len(grown),
        "who": "", "old": 0, "new": 0, "tokens": sum(event.copied for event in grown), "both": 0,
        "size": 0, "pairs": _pairs(grown, sight.lang),
        "need": 0, "free": usage.free + usage.external, "longest": 0,
    }  # fmt: skip
    if grown:
        event = max(grown, key=lambda event: event.copied)
        found |= {
            "who": letter(place[event.sequence]), "old": event.old_length, "new": event.length,
            "size": event.copied, "both": event.old_length + event.length,
        }  # fmt: skip
    waiting = now.waiting
    if waiting is not None and waiting.growing:
        found |= {
            "who": letter(place[waiting.sequence]), "need": waiting.need, "free": waiting.free,
            "longest": waiting.longest,
        }  # fmt: skip
    return found


def _pairs(grown: Sequence[ev.Grow], lang: str) -> str:
    """From which lengths to which, each pair once: "16 → 32"."""
    pairs = dict.fromkeys(f"{event.old_length} → {event.length}" for event in grown)
    return ("、" if lang == "zh" else ", ").join(pairs)


def how_many_copied(coming: Coming) -> Question | None:
    """A run is full, and its sequence goes on: how many tokens are copied in the coming step?"""
    if coming.before is None:
        return None
    now = reports(coming.trace)[coming.before.index]
    full = [h for h in now.holdings if h.written < h.limit and h.written == sum(p.length for p in h.pieces)]
    if len(full) != 1 or now.waiting is not None:
        return None
    one = full[0]
    place = places(coming.before.sequences)
    size = one.written
    new = min(2 * size, max_model_len_of(coming.trace))
    if max(shadow.holes(now.runs, capacity_of(coming.trace)), default=0) < new:
        return None  # it cannot move: another stop is about that
    given = {"who": letter(place[one.sequence]), "n": size, "new": new}
    return Question(
        question=coming.say(f"lesson.{ID}.gate", **given),
        options=number_options(numbers_near(size, (0, 1, 2 * size))),
        truth=size,
        because=coming.say(f"lesson.{ID}.gate.because", **given),
    )


def _stall_caption(sight: Sight) -> str:
    waiting = reports(sight.trace)[sight.index].waiting
    key = "stall.full" if waiting is not None and waiting.reason == "full" else "stall.pieces"
    return sight.words(f"lesson.{ID}.{key}", **numbers(sight))


def _both_held(sight: Sight) -> Question:
    given = numbers(sight)
    truth, old, new = int(str(given["both"])), int(str(given["old"])), int(str(given["new"]))
    return Question(
        question=sight.words(f"lesson.{ID}.q.both", **given),
        options=number_options(numbers_near(truth, (new, old, 2 * new))),
        truth=truth,
        because=sight.words(f"lesson.{ID}.q.both.because", **given),
    )


LESSON = Lesson(
    id=ID,
    ideas=(5,),
    stops=(
        Stop(name="small", run=RUN, find=start, numbers=numbers, picture="doubling"),
        Stop(
            name="grow", run=RUN, find=first_growth, numbers=numbers, gate=how_many_copied,
            says_why=True, picture="doubling"
        ),
        Stop(name="stall", run=RUN, find=stalled, caption=_stall_caption, picture="doubling"),
        Stop(name="most", run=RUN, find=most_copied, numbers=numbers, picture="doubling"),
        Stop(name="sum", run=RUN, find=last, numbers=numbers, picture="doubling"),
    ),
    questions=(
        Ask(run=RUN, find=most_copied, make=_both_held),
        Ask(run=RUN, find=last, make=choice(ID, "why", "often", ("often", "long", "same"), numbers)),
        Ask(run=RUN, find=last, make=choice(ID, "paged", "never", ("never", "each", "half"), numbers)),
    ),
)  # fmt: skip
