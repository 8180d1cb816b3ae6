"""Copy-on-write: a half-full block that is shared has to be copied before it is written; a full one never."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from core.memory import events as ev
from pages.parts import gates
from pages.parts.gates import Question, number_options, numbers_near
from pages.parts.lessons import common, point
from pages.parts.lessons.lesson import Ask, Lesson, Sight, Stop, after, first, start, step_where

HALF, FULL, OFF = "half-full-block", "full-block", "no-copy-on-write"


def _shared(sight: Sight) -> Mapping[str, object]:
    """The last block that several tables list: whose, how full, how many."""
    row = sight.step.sequences[0]
    block = row.block_table[-1]
    holders = sight.holders()
    return {
        "prompt": row.written,
        "n": len(row.block_table),
        "size": sight.size,
        "block": block,
        "ref": holders.ref(block),
        "filled": row.written - (len(row.block_table) - 1) * sight.size,
        "s": sight.scene.join(holders.lists[block]),
    }


def _copies(sight: Sight) -> Mapping[str, object]:
    copies = sight.all(ev.Copy)
    scene, one = sight.scene, copies[0]
    before = sight.scene.holders_at(one)
    return {
        "n": len(copies),
        "writers": len(before.lists[one.source]),
        "s": scene.name(one.sequence),
        "source": one.source,
        "target": one.target,
        "tokens": one.tokens,
        "was": before.ref(one.source),
        "ref": sight.holders().ref(one.source),
    }


def _after_copy(sight: Sight) -> Mapping[str, object]:
    rows = [s for s in sight.step.sequences if s.block_table]
    held = {block for s in rows for block in s.block_table}
    listed = sum(len(s.block_table) for s in rows)
    return {"n": len(rows), "held": len(held), "listed": listed}


def _no_copy(sight: Sight) -> Mapping[str, object]:
    fresh = sight.all(ev.Allocate)
    return {
        "n": len(fresh),
        "blocks": sight.scene.numbers([e.block for e in fresh]),
        "size": sight.size,
        "copies": len(sight.all(ev.Copy)),
    }


def _off(sight: Sight) -> Mapping[str, object]:
    """Everybody writes into one slot: whose logits moved, by the step's own comparison with a dense pass."""
    *lost, last = _one_slot(sight)
    moved = sight.step.proof.by_sequence if sight.step.proof else {}
    return {
        "n": len(lost) + 1,
        "block": last.block,
        "last": sight.scene.name(last.sequence),
        "token": sight.scene.token(sight.row(last.sequence).token_ids[last.position]),
        "moved": sight.scene.join([e.sequence for e in lost]),
        "worst": f"{max((moved.get(e.sequence, 0.0) for e in lost), default=0.0):.1f}",
        "best": common.power(moved.get(last.sequence, 0.0)),
    }


def _one_slot(sight: Sight) -> list[ev.Write]:
    """The writes that fall into one and the same block, in order; the last one stays."""
    writes = sight.all(ev.Write)
    block = next(e.block for e in writes if sight.holders().ref(e.block) > 1)
    return [e for e in writes if e.block == block]


def _point_lost(sight: Sight) -> list[str]:
    """The slot that was overwritten: in the pool, and where those whose token it was see it."""
    places = {view.id: place for place, view in enumerate(sight.step.sequences)}
    *lost, last = _one_slot(sight)
    seen = [point.slot(places[e.sequence], e.position // sight.size, e.offset) for e in lost]
    return [*seen, point.place(last.block, last.offset)]


def shared_write(walk: Any) -> int | None:
    """A step in which several sequences write into the same block."""

    def clash(step: Any, before: Any) -> bool:
        blocks = [e.block for e in step.events if isinstance(e, ev.Write)]
        return before is not None and len(blocks) != len(set(blocks))

    return step_where(clash)(walk)


def _point_shared(sight: Sight) -> list[str]:
    return [point.card(sight.step.sequences[0].block_table[-1])]


def _point_copy(sight: Sight) -> list[str]:
    one = sight.all(ev.Copy)[0]
    return [point.count(one.source), point.count(one.target)]


def _which_copied(sight: Sight) -> Question:
    copies = sight.all(ev.Copy)
    source = copies[0].source
    prompt = len(sight.trace.requests[0].prompt_token_ids)
    listed = -(-prompt // sight.size)
    writers = len(copies) + 1
    numbers = {"n": writers, "copies": len(copies), "block": source, "all": listed * (writers - 1)}
    return Question(
        question=sight.words("lesson.copy-on-write.q.count", **numbers),
        options=number_options(numbers_near(len(copies), (writers, listed, numbers["all"]))),
        truth=len(copies),
        because=sight.words("lesson.copy-on-write.q.count.because", **numbers),
    )


def _prompt_length(sight: Sight) -> Question | None:
    """Which prompt length never makes a copy under this block size? With blocks of one slot: every one."""
    size = sight.size
    if size == 1:
        return None
    prompt = len(sight.trace.requests[0].prompt_token_ids)
    truth = -(-prompt // size) * size
    wrong = [n for n in (truth + 1, truth - 1, truth + size - 1, truth + 2) if n % size]
    options = numbers_near(truth, wrong, low=1)
    options = tuple(n for n in options if n == truth or n % size)
    return Question(
        question=sight.words("lesson.copy-on-write.q.length", size=size),
        options=number_options(options),
        truth=truth,
        because=sight.words("lesson.copy-on-write.q.length.because", size=size, n=truth),
    )


def _copied(sight: Sight) -> Mapping[str, object]:
    one = sight.all(ev.Copy)[0]
    return {"tokens": one.tokens, "block": one.source}


LESSON = Lesson(
    id="copy-on-write",
    ideas=(10, 11),
    stops=(
        Stop(name="half", run=HALF, find=common.half_full, numbers=_shared, point=_point_shared),
        Stop(
            name="copy", run=HALF, find=first(ev.Copy), numbers=_copies, gate=gates.how_many_copies,
            says_why=True,
            point=_point_copy,
        ),
        Stop(name="after", run=HALF, find=after(first(ev.Copy)), numbers=_after_copy, gate=gates.copy_or_not),
        Stop(name="off", run=OFF, find=shared_write, numbers=_off, point=_point_lost),
        Stop(name="full", run=FULL, find=common.filled, numbers=_shared, point=_point_shared),
        Stop(
            name="no_copy", run=FULL, find=common.all_take_new, numbers=_no_copy,
            gate=gates.copy_or_not, says_why=True,
        ),
    ),
    questions=(
        Ask(run=HALF, find=first(ev.Copy), make=_which_copied),
        Ask(run=HALF, find=first(ev.Copy),
            make=common.choice("copy-on-write", "what", "block", ("block", "all", "nothing"), _copied)),
        Ask(run=HALF, find=start, make=_prompt_length),
    ),
)  # fmt: skip
