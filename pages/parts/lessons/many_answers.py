"""Many answers to one prompt: one prompt's memory and the answers' own tails, against reservations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from core.memory import events as ev
from pages.parts import gates
from pages.parts.gates import Question, number_options, numbers_near
from pages.parts.lessons import common
from pages.parts.lessons.lesson import Ask, Lesson, Sight, Stop, first, start, step_where

RUN = "first-steps"


def _fork(sight: Sight) -> Mapping[str, object]:
    request = sight.trace.requests[0]
    return common.with_(
        common.totals(sight), common.shared(sight), prompt=common.prompt_of(sight), n=request.n,
        computed=common.computed(sight), blocks=len(sight.step.sequences[0].block_table),
    )  # fmt: skip


def _copy(sight: Sight) -> Mapping[str, object]:
    one = sight.all(ev.Copy)[0]
    before = sight.scene.holders_at(one)
    return {
        "s": sight.scene.name(one.sequence), "source": one.source, "target": one.target, "tokens": one.tokens,
        "was": before.ref(one.source), "ref": sight.holders().ref(one.source), "n": len(sight.all(ev.Copy)),
    }  # fmt: skip


def _usage(sight: Sight) -> Mapping[str, object]:
    by_name = {usage.strategy: usage for usage in sight.step.usage}
    paged = by_name["paged"]
    other = next((u for u in sight.step.usage if u.strategy != "paged"), paged)
    taken = other.live + other.reserved + other.internal
    mine = paged.live + paged.reserved + paged.internal
    return common.with_(
        common.totals(sight), live=paged.live, mine=mine, other=taken, waiting=other.waiting,
        capacity=paged.capacity, tokens=sum(view.written for view in sight.step.sequences),
    )  # fmt: skip


def _late(walk: Any) -> int | None:
    """A step in which every answer has a block of its own beyond the prompt's."""

    def grown(step: Any, before: Any) -> bool:
        rows = [view for view in step.sequences if view.state == "running"]
        refs = {block.id: block.ref for block in step.blocks}
        own = [sum(refs[b] == 1 for b in view.block_table) for view in rows]
        return len(rows) > 1 and min(own) > 1

    return step_where(grown)(walk)


def _blocks_for(sight: Sight) -> Question:
    """Blocks for k answers after the first decode step, from the prompt's length: the last one is copied."""
    prompt, size, answers = common.prompt_of(sight), sight.size, 4
    full, part = divmod(prompt, size)
    truth = full + answers
    numbers = {"prompt": prompt, "size": size, "answers": answers, "n": truth, "full": full}
    numbers["naive"] = answers * (full + 1)
    key = "lesson.many-answers.q.blocks.because" + (".part" if part else "")
    return Question(
        question=sight.words("lesson.many-answers.q.blocks", **numbers),
        options=number_options(numbers_near(truth, (int(numbers["naive"]), full + 1, truth + 1))),
        truth=truth,
        because=sight.words(key, **numbers),
    )


def _saved(sight: Sight) -> Question:
    found = common.totals(sight)
    truth = int(str(found["saved"]))
    return Question(
        question=sight.words("lesson.many-answers.q.saved", n=found["tables"], **found),
        options=number_options(numbers_near(truth, (int(str(found["held"])), 0))),
        truth=truth,
        because=sight.words("lesson.many-answers.q.saved.because", n=truth, **found),
    )


LESSON = Lesson(
    id="many-answers",
    ideas=(11,),
    stops=(
        Stop(name="fork", run=RUN, find=start, numbers=_fork, point=common.point_shared),
        Stop(name="count", run=RUN, find=first(ev.Copy), numbers=_copy, gate=gates.count_after,
             says_why=True),
        Stop(name="usage", run=RUN, find=_late, numbers=_usage, show=("strips", "chart")),
        Stop(name="end", run=RUN, find=first(ev.Finish), numbers=common.given_back, gate=gates.blocks_back,
             says_why=True,
             show=("strips", "chart")),
    ),
    questions=(
        Ask(run=RUN, find=start, make=_blocks_for),
        Ask(run=RUN, find=_late, make=_saved),
    ),
)  # fmt: skip
