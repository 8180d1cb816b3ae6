"""Batch size decides throughput: a step reads the weights once, however many requests it serves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pages.parts import library
from pages.parts.gates import Coming, Question, number_options, numbers_near, texts_by_key
from pages.parts.lessons import batches
from pages.parts.lessons.batches import Batch, BatchWalk
from pages.parts.lessons.common import choice
from pages.parts.lessons.lesson import Ask, Find, Lesson, Sight, Stop, start

ID = "batch-size"
RUN = "batches"


def made() -> BatchWalk:
    """From the two recordings: one whose batch grows, and a crowd that memory holds back."""
    return batches.walk(library.lesson("growing-batch"), library.lesson("ragged-crowd"))


def nth(number: int) -> Find:
    """The ``number``-th step, one a batch size; from the end when negative (-1: what fits)."""

    def find(walk: Any) -> int | None:
        at = number if number >= 0 else len(walk.steps) + number
        return at if 0 <= at < len(walk.steps) else None

    return find


def numbers(sight: Sight) -> Mapping[str, object]:
    """This batch beside a batch of the first size, and what fits into the memory."""
    seen: tuple[Batch, ...] = sight.step.seen
    one, now = seen[0], seen[-1]
    fits: dict[str, int] = sight.trace.meta["at_once"]
    return {
        "size": now.size, "ms": f"{now.ms:.0f}", "rate": f"{now.rate:.0f}",
        "one": one.size, "one_ms": f"{one.ms:.0f}", "one_rate": f"{one.rate:.0f}",
        "times": f"{now.ms / one.ms:.1f}", "more": f"{now.rate / one.rate:.1f}",
        "factor": now.size // one.size, "reserved": fits["reserve max"], "paged": fits["paged"],
        "doubling": fits["doubling"], "exact": fits["exact"], "capacity": sight.trace.meta["capacity"],
        "reserve": sight.trace.meta["reserve"], "requests": sight.trace.meta["requests"],
    }  # fmt: skip


def how_long(coming: Coming) -> Question | None:
    """The batch grows: how many times as long does a step take?"""
    before: Any = coming.before
    if before is None:
        return None
    now, one = coming.events[0], before.seen[0]
    assert isinstance(now, Batch)
    ratio, factor = now.ms / one.ms, now.size // one.size
    near = abs(ratio - 1) < 0.25
    truth = "same" if near else "less" if ratio < 0.85 * factor else "factor"
    given = {"one": one.size, "size": now.size, "factor": factor, "times": f"{ratio:.1f}"}
    given |= {"ms": f"{now.ms:.0f}", "one_ms": f"{one.ms:.0f}"}
    return Question(
        question=coming.say(f"lesson.{ID}.gate", **given),
        options=texts_by_key(coming.lang, f"lesson.{ID}.gate", ("same", "less", "factor"), **given),
        truth=truth,
        because=coming.say(f"lesson.{ID}.gate.because", **given),
    )


def how_many_fit(coming: Coming) -> Question | None:
    """How many of the crowd run at once when each reserves the maximum?"""
    meta = coming.trace.meta
    truth = meta["at_once"]["reserve max"]
    given = {"capacity": meta["capacity"], "reserve": meta["reserve"], "requests": meta["requests"]}
    given |= {"n": truth, "paged": meta["at_once"]["paged"]}
    return Question(
        question=coming.say(f"lesson.{ID}.gate.fit", **given),
        options=number_options(numbers_near(truth, (given["paged"], given["requests"], truth + 2))),
        truth=truth,
        because=coming.say(f"lesson.{ID}.gate.fit.because", **given),
    )


LESSON = Lesson(
    id=ID,
    ideas=(8,),
    own=False,
    made={RUN: made},
    stops=(
        Stop(name="one", run=RUN, find=start, numbers=numbers, picture="batch"),
        Stop(name="four", run=RUN, find=nth(2), numbers=numbers, gate=how_long,
             says_why=True, picture="batch"),
        Stop(name="most", run=RUN, find=nth(-2), numbers=numbers, picture="batch"),
        Stop(name="fits", run=RUN, find=nth(-1), numbers=numbers, gate=how_many_fit, picture="batch"),
    ),
    questions=(
        Ask(run=RUN, find=nth(-1), make=choice(ID, "why", "weights", ("weights", "text", "kernel"), numbers)),
        Ask(run=RUN, find=nth(-1),
            make=choice(ID, "single", "nothing", ("nothing", "twice", "prefill"), numbers)),
        Ask(run=RUN, find=nth(-1),
            make=choice(ID, "limit", "memory", ("memory", "compute", "queue"), numbers)),
    ),
)  # fmt: skip
