"""A fixed reservation: too large and most of it is lost, too small and the request ends, idle until then."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from core.compare.report import capacity_of, max_model_len_of
from core.memory import events as ev
from pages.parts.gates import Coming, Question, number_options, numbers_near, texts_by_key
from pages.parts.lessons import shadow
from pages.parts.lessons.common import choice
from pages.parts.lessons.drawings.reservation import NAME, estimates, rows, too_small
from pages.parts.lessons.lesson import Ask, Lesson, Sight, Stop, end, first, start

ID = "fixed-reservation"
RUN = "four-answers"


def first_refused(walk: Any) -> int | None:
    """The first step after which a request waits although most of what is reserved is empty."""
    for index, one in enumerate(shadow.reports(walk, NAME)):
        if one.waiting is not None and one.usage.reserved + one.usage.internal > one.usage.live:
            return index
    return None


def busiest(walk: Any) -> int | None:
    """The first step in which the most sequences run in pages."""
    running = [step.usage[0].running for step in walk.steps]
    return running.index(max(running)) if running else None


def numbers(sight: Sight) -> Mapping[str, object]:
    """The reservation and what it holds after this step, under the strategy and in pages."""
    trace, index = sight.trace, sight.index
    now = shadow.report(trace, index, NAME)
    usage, own = now.usage, sight.step.usage[0]
    held = usage.live + usage.reserved + usage.internal
    return {
        "capacity": capacity_of(trace),
        "reserve": max_model_len_of(trace),
        "fit": capacity_of(trace) // max_model_len_of(trace),
        "prompt": len(trace.requests[0].prompt_token_ids),
        "live": usage.live,
        "held": held,
        "idle": held - usage.live,
        "percent": round(100 * usage.live / held) if held else 0,
        "n": usage.running,
        "waiting": usage.waiting,
        "free": usage.free + usage.external,
        "paged": own.running,
        "blocks": len([block for block in sight.step.blocks if block.ref]),
        "paged_held": own.live + own.reserved + own.internal,
        "paged_idle": own.reserved + own.internal,
        "size": sight.size,
    }


def _over(sight: Sight) -> Mapping[str, object]:
    """The first answer that ended: what had been reserved for it and what it used."""
    step = next((k for k in range(sight.index + 1) if _ended(sight.trace, k)), sight.index)
    name = _ended(sight.trace, step)
    used = next((view.written for view in sight.step.sequences if view.id == name), 0)
    reserve = max_model_len_of(sight.trace)
    new = used - len(sight.trace.requests[0].prompt_token_ids) + 1 if name else 0
    return dict(numbers(sight)) | {
        "s": sight.scene.name(name) if name else "",
        "used": used,
        "new": new,
        "lost": reserve - used,
    }


def _ended(trace: Any, index: int) -> str | None:
    """The first request's first sequence, where it ends in this step."""
    name = f"{trace.requests[0].id}.0"
    over = [e.sequence for e in trace.steps[index].events if isinstance(e, ev.Finish)]
    return name if name in over else None


def first_over(walk: Any) -> int | None:
    """The step in which the first request ends."""
    if not walk.requests:
        return None
    name = f"{walk.requests[0].id}.0"
    return first(ev.Finish, where=lambda event: event.sequence == name)(walk)


def _small(sight: Sight) -> str:
    """The caption of the longest reservation that was too short for somebody."""
    length = estimates(sight.trace)[too_small(sight.trace, sight.index)]
    shown = rows(sight.trace, sight.index, estimate=length)
    stopped = [row for row in shown if row.state == "stopped"]
    peak = shadow.peak(shadow.reports(sight.trace, NAME, estimate=length)[: sight.index + 1])
    key = "small.all" if peak == len(sight.step.sequences) else "small"
    who = sight.scene.join([row.sequence for row in stopped])
    return sight.words(f"lesson.{ID}.{key}", reserve=length, n=len(stopped), s=who, peak=peak)


def does_it_fit(coming: Coming) -> Question | None:
    """A request arrives: is it admitted under the reservation? Judged by what is free before the step."""
    arrived, before = coming.all(ev.Arrive), coming.before
    if not arrived or before is None:
        return None
    usage = shadow.report(coming.trace, before.index, NAME).usage
    free, reserve = usage.free + usage.external, max_model_len_of(coming.trace)
    prompt = next((r for r in coming.trace.requests if r.id == arrived[-1].request), None)
    truth = "yes" if free >= reserve and not usage.waiting else "no"
    held = usage.live + usage.reserved + usage.internal
    given = {"live": usage.live, "held": held, "free": free, "reserve": reserve}
    given["prompt"] = len(prompt.prompt_token_ids) if prompt else 0
    return Question(
        question=coming.say(f"lesson.{ID}.gate", **given),
        options=texts_by_key(coming.lang, f"lesson.{ID}.gate", ("yes", "no"), **given),
        truth=truth,
        because=coming.say(f"lesson.{ID}.gate.because.{truth}", **given),
    )


def how_much_lost(coming: Coming) -> Question | None:
    """The first request ends in the coming step: how many of its reserved slots were never used?"""
    before = coming.before
    name = f"{coming.trace.requests[0].id}.0"
    if before is None or name not in [e.sequence for e in coming.all(ev.Finish)]:
        return None
    used = next(view.written for view in before.sequences if view.id == name)
    used += sum(e.count for e in coming.all(ev.Write) if e.sequence == name)
    reserve = max_model_len_of(coming.trace)
    given = {"s": coming.scene().name(name), "used": used, "reserve": reserve, "lost": reserve - used}
    return Question(
        question=coming.say(f"lesson.{ID}.gate.lost", **given),
        options=number_options(numbers_near(reserve - used, (used, reserve // 2, 0), most=4)),
        truth=reserve - used,
        because=coming.say(f"lesson.{ID}.gate.lost.because", **given),
    )


def _how_many(sight: Sight) -> Question:
    given = numbers(sight)
    fit = int(str(given["fit"]))
    return Question(
        question=sight.words(f"lesson.{ID}.q.fit", **given),
        options=number_options(numbers_near(fit, (fit + 1, 2 * fit, 4 * fit))),
        truth=fit,
        because=sight.words(f"lesson.{ID}.q.fit.because", **given),
    )


LESSON = Lesson(
    id=ID,
    ideas=(2, 3, 7),
    stops=(
        Stop(name="reserve", run=RUN, find=start, numbers=numbers, picture="reservation"),
        Stop(
            name="idle", run=RUN, find=first_refused, numbers=numbers, gate=does_it_fit,
            says_why=True, picture="reservation"
        ),
        Stop(
            name="lost", run=RUN, find=first_over, numbers=_over, gate=how_much_lost, picture="reservation"
        ),
        Stop(name="small", run=RUN, find=end, caption=_small, picture="reservation-knob"),
        Stop(name="paged", run=RUN, find=busiest, numbers=numbers, picture="reservation-paged"),
    ),
    questions=(
        Ask(run=RUN, find=first_refused, make=_how_many),
        Ask(run=RUN, find=first_over, make=choice(ID, "when", "end", ("end", "token", "never"), _over)),
        Ask(run=RUN, find=first_over, make=choice(ID, "worse", "unknown", ("unknown", "big", "slow"), _over)),
    ),
)  # fmt: skip
