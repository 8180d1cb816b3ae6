"""Holes (external fragmentation): enough is free, in pieces, and no piece is long enough."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from core.compare.report import capacity_of
from pages.parts.gates import Coming, Question, number_options, numbers_near, texts_by_key
from pages.parts.labels import letter
from pages.parts.lessons import shadow
from pages.parts.lessons.common import choice
from pages.parts.lessons.drawings.basics import places
from pages.parts.lessons.drawings.holes import met, reports
from pages.parts.lessons.lesson import Ask, Lesson, Sight, Stop, start

ID = "holes"
RUN = "coming-and-going"


def first_hole(walk: Any) -> int | None:
    """The first step with a hole between two runs."""
    for index, one in enumerate(reports(walk)):
        runs = one.runs
        last = runs[-1].start + runs[-1].length if runs else 0
        if len(shadow.holes(runs, last)) > 0:
            return index
    return None


def stuck(walk: Any) -> int | None:
    """The first step that a request cannot begin although enough was free when the step began."""
    for index, one in enumerate(reports(walk)[:-1]):
        waiting = one.waiting
        if waiting is not None and waiting.reason == "fragmented" and not waiting.growing:
            return index + 1
    return None


def stuck_before(walk: Any) -> int | None:
    """The step before that: the request has come, and waits."""
    index = stuck(walk)
    return None if index is None else index - 1


def numbers(sight: Sight) -> Mapping[str, object]:
    """Free runs after this step, and who runs; under first fit, best fit and in pages."""
    trace, index = sight.trace, sight.index
    now, best = reports(trace)[index], reports(trace, "best fit")[index]
    capacity = capacity_of(trace)
    free = shadow.holes(now.runs, capacity)
    waiting = met(trace, index)
    place = places(sight.step.sequences)
    found: dict[str, object] = {
        "capacity": capacity,
        "running": now.usage.running,
        "n": len(free),
        "free": sum(free),
        "longest": max(free, default=0),
        "pieces": " + ".join(map(str, free)),
        "best": best.usage.running,
        "paged": sight.step.usage[0].running,
        "size": sight.size,
        "blocks": sight.pool - sum(1 for block in sight.step.blocks if block.ref),
        "who": "",
        "need": 0,
        "all": 0,
    }
    if waiting is not None:
        held = shadow.holes(reports(trace)[index - 1].runs, capacity)
        found |= {
            "who": letter(place[waiting.sequence]), "need": waiting.need, "free": waiting.free,
            "longest": waiting.longest, "n": len(held), "pieces": " + ".join(map(str, held)),
            "all": -(-waiting.need // sight.size),
        }  # fmt: skip
    return found


def _best_caption(sight: Sight) -> str:
    given = numbers(sight)
    first, best = reports(sight.trace)[sight.index], reports(sight.trace, "best fit")[sight.index]
    waiting = met(sight.trace, sight.index)
    inside = waiting is not None and waiting.sequence in shadow.running(best)
    worse = best.usage.running < first.usage.running
    key = "in" if inside else "worse" if worse else "same"
    return sight.words(f"lesson.{ID}.best.{key}", **given)


def _compact(sight: Sight) -> Mapping[str, object]:
    after = reports(sight.trace, compact_at=(sight.index,))[sight.index]
    moved = sum(copy.tokens for copy in after.copies)
    total = sum(run.live for run in reports(sight.trace)[sight.index - 1].runs) if sight.index else 0
    each = int(sight.trace.meta.get("bytes_per_token", 0))
    return dict(numbers(sight)) | {
        "moved": moved, "live": total, "bytes": moved * each, "after": after.usage.running
    }  # fmt: skip


def does_it_fit(coming: Coming) -> Question | None:
    """A request waits at the head of the queue: does it get its run in the coming step?"""
    if coming.before is None:
        return None
    index = coming.before.index
    waiting = reports(coming.trace)[index].waiting
    if waiting is None or waiting.growing:
        return None
    free = shadow.holes(reports(coming.trace)[index].runs, capacity_of(coming.trace))
    truth = "yes" if waiting.reason == "next" else "no"
    who = letter(places(coming.before.sequences)[waiting.sequence])
    given = {
        "who": who, "need": waiting.need, "free": waiting.free, "n": len(free), "longest": waiting.longest,
        "pieces": " + ".join(map(str, free)),
    }  # fmt: skip
    key = truth if truth == "yes" or waiting.reason == "fragmented" else "full"
    return Question(
        question=coming.say(f"lesson.{ID}.gate", **given),
        options=texts_by_key(coming.lang, f"lesson.{ID}.gate", ("yes", "no"), **given),
        truth=truth,
        because=coming.say(f"lesson.{ID}.gate.because.{key}", **given),
    )


def _blocks_needed(sight: Sight) -> Question:
    given = _compact(sight)
    need, size = int(str(given["need"])), sight.size
    truth = -(-need // size)
    return Question(
        question=sight.words(f"lesson.{ID}.q.blocks", **given),
        options=number_options(numbers_near(truth, (1, need // size, truth + 1))),
        truth=truth,
        because=sight.words(f"lesson.{ID}.q.blocks.because", **(dict(given) | {"n": truth})),
    )


LESSON = Lesson(
    id=ID,
    ideas=(4,),
    stops=(
        Stop(name="packed", run=RUN, find=start, numbers=numbers, picture="holes"),
        Stop(name="hole", run=RUN, find=first_hole, numbers=numbers, picture="holes"),
        Stop(name="stuck", run=RUN, find=stuck, numbers=numbers, gate=does_it_fit,
             says_why=True, picture="holes"),
        Stop(name="best", run=RUN, find=stuck, caption=_best_caption, picture="holes-fits"),
        Stop(name="compact", run=RUN, find=stuck, numbers=_compact, picture="holes-compaction"),
    ),
    questions=(
        Ask(run=RUN, find=stuck, make=choice(ID, "why", "piece", ("piece", "little", "waste"), _compact)),
        Ask(run=RUN, find=stuck, make=_blocks_needed),
        Ask(run=RUN, find=stuck, make=choice(ID, "know", "still", ("still", "gone"), _compact)),
    ),
)  # fmt: skip
