"""Beam search: beams share their prefix, fork, and are dropped; the paper's rule and today's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from core.memory import events as ev
from pages.parts import gates
from pages.parts.gates import Question, number_options, numbers_near
from pages.parts.lessons import common, point
from pages.parts.lessons.lesson import Ask, Lesson, Sight, Stop, end, start, step_where

RUN = "three-beams"


def dropped(walk: Any) -> int | None:
    """The first step in which one beam is dropped because another one forks."""

    def both(step: Any, before: Any) -> bool:
        lost = any(isinstance(e, ev.Finish) and e.reason == "dropped" for e in step.events)
        return lost and any(isinstance(e, ev.Fork) for e in step.events)

    return step_where(both)(walk)


def copied(walk: Any) -> int | None:
    """The first step in which a beam copies a block and is still there afterwards."""

    def lasting(step: Any, before: Any) -> bool:
        running = {view.id for view in step.sequences if view.state == "running"}
        return any(isinstance(e, ev.Copy) and e.sequence in running for e in step.events)

    return step_where(lasting)(walk)


def _prefix(sight: Sight) -> Mapping[str, object]:
    found = common.shared(sight)
    return common.with_(
        found, prompt=common.prompt_of(sight), width=sight.trace.requests[0].n, size=sight.size
    )


def _apart(sight: Sight) -> Mapping[str, object]:
    return common.with_(common.totals(sight), common.new_blocks(sight), ref=common.shared(sight)["ref"])


def _drop(sight: Sight) -> Mapping[str, object]:
    """Who was dropped, who forked, and what the dropped beam gave back and what it left."""
    scene = sight.scene
    lost = next(e for e in sight.all(ev.Finish) if e.reason == "dropped").sequence
    forks = sight.all(ev.Fork)
    releases = [e for e in sight.all(ev.Release) if e.sequence == lost]
    freed = [e for e in releases if e.ref == 0]
    kept = [e for e in releases if e.ref]
    return {
        "s": scene.name(lost), "n": len(freed), "blocks": scene.numbers([e.block for e in freed]),
        "kept": len(kept), "parent": scene.name(forks[0].parent) if forks else "–",
        "child": scene.name(forks[0].child) if forks else "–", "listed": len(releases),
    }  # fmt: skip


def _copy(sight: Sight) -> Mapping[str, object]:
    one = sight.all(ev.Copy)[0]
    return {
        "s": sight.scene.name(one.sequence), "source": one.source, "target": one.target, "n": one.tokens,
        "was": sight.scene.holders_at(one).ref(one.source),
    }  # fmt: skip


def _end(sight: Sight) -> Mapping[str, object]:
    rows = sight.step.sequences
    width = sight.trace.requests[0].n
    steps = sight.trace.steps[: sight.index + 1]
    copies = sum(isinstance(e, ev.Copy) for step in steps for e in step.events)
    taken = sum(isinstance(e, (ev.Copy, ev.Allocate)) for step in steps for e in step.events)
    return {"made": len(rows), "width": width, "n": copies, "taken": taken}


def _gives_back(sight: Sight) -> Question:
    found = _drop(sight)
    truth = int(str(found["n"]))
    listed = int(str(found["listed"]))
    return Question(
        question=sight.words("lesson.beam-search.q.back", **found),
        options=number_options(numbers_near(truth, (listed, listed - truth))),
        truth=truth,
        because=sight.words("lesson.beam-search.q.back.because", **found),
    )


LESSON = Lesson(
    id="beam-search",
    ideas=(12,),
    stops=(
        Stop(name="prefix", run=RUN, find=start, numbers=_prefix, point=common.point_shared),
        Stop(name="apart", run=RUN, find=common.all_take_new, numbers=_apart, gate=gates.copy_or_not,
             says_why=True),
        Stop(name="drop", run=RUN, find=dropped, numbers=_drop,
             gate=gates.blocks_back, says_why=True),
        Stop(name="copy", run=RUN, find=copied, numbers=_copy, gate=gates.block_copied, says_why=True,
             point=lambda s: [point.card(e.target) for e in s.all(ev.Copy)]),
        Stop(name="end", run=RUN, find=end, numbers=_end),
        Stop(name="today", run=RUN, find=end, numbers=_end),
    ),
    questions=(
        Ask(run=RUN, find=dropped, make=_gives_back),
        Ask(run=RUN, find=end,
            make=common.choice("beam-search", "today", "outside", ("outside", "inside", "gone"))),
    ),
)  # fmt: skip
