"""Sharing and reference counts: one prompt, two answers; the tables name the same blocks."""

from __future__ import annotations

from collections.abc import Mapping

from core.memory import events as ev
from pages.parts import gates
from pages.parts.gates import Question, number_options, numbers_near
from pages.parts.lessons import common
from pages.parts.lessons.lesson import Ask, Lesson, Sight, Stop, first, start

RUN = "two-translations"


def _fork(sight: Sight) -> Mapping[str, object]:
    return common.with_(common.totals(sight), common.shared(sight), prompt=common.prompt_of(sight))


def _apart(sight: Sight) -> Mapping[str, object]:
    return common.with_(common.totals(sight), common.new_blocks(sight), shared=common.shared(sight)["n"])


def _end(sight: Sight) -> Mapping[str, object]:
    return common.given_back(sight)


def _answers(sight: Sight) -> Mapping[str, object]:
    return {"n": common.shared(sight)["ref"], "prompt": common.prompt_of(sight)}


def _without(sight: Sight) -> Question:
    found = common.totals(sight)
    truth, held, saved = (int(str(found[name])) for name in ("listed", "held", "saved"))
    tables = [view.block_table for view in sight.step.sequences if view.block_table]
    each = sight.scene.numbers(sorted({len(table) for table in tables}))
    same = len(set.intersection(*map(set, tables)))
    return Question(
        question=sight.words("lesson.sharing.q.without", n=found["tables"], each=each, same=same),
        options=number_options(numbers_near(truth, (held, truth + saved))),
        truth=truth,
        because=sight.words("lesson.sharing.q.without.because", n=found["saved"], **found),
    )


def _leaves(sight: Sight) -> Question:
    """If the first sequence ended now, how many blocks would come back? Those that only it lists."""
    row = next(view for view in sight.step.sequences if view.state == "running")
    holders = sight.holders()
    truth = sum(1 for block in row.block_table if holders.ref(block) == 1)
    others = {owner for block in row.block_table for owner in holders.lists[block]} - {row.id}
    numbers = {"s": sight.scene.name(row.id), "n": truth, "listed": len(row.block_table)}
    numbers |= {"shared": len(row.block_table) - truth, "other": sight.scene.join(sorted(others))}
    return Question(
        question=sight.words("lesson.sharing.q.leaves", **numbers),
        options=number_options(numbers_near(truth, (len(row.block_table), len(row.block_table) - truth, 0))),
        truth=truth,
        because=sight.words("lesson.sharing.q.leaves.because", **numbers),
    )


LESSON = Lesson(
    id="sharing",
    ideas=(10, 11),
    stops=(
        Stop(name="fork", run=RUN, find=start, numbers=_fork, point=common.point_shared),
        Stop(name="apart", run=RUN, find=common.all_take_new, numbers=_apart, point=common.point_new,
             gate=gates.copy_or_not, says_why=True),
        Stop(name="end", run=RUN, find=first(ev.Finish), numbers=_end, gate=gates.blocks_back, says_why=True),
    ),
    questions=(
        Ask(run=RUN, find=common.all_take_new, make=_without),
        Ask(run=RUN, find=common.all_take_new, make=_leaves),
        Ask(run=RUN, find=start,
            make=common.choice("sharing", "computed", "once", ("once", "each", "never"), _answers)),
    ),
)  # fmt: skip
