"""Paged attention: logical blocks, a table, physical blocks on demand; sampled is not yet written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from core.memory import events as ev
from pages.parts import gates
from pages.parts.gates import Question, number_options, numbers_near
from pages.parts.lessons import common, point
from pages.parts.lessons.lesson import Ask, Lesson, Sight, Stop, first, first_decode, start, step_where

RUN = "two-blocks"


def _prompt(sight: Sight) -> Mapping[str, object]:
    row = sight.step.sequences[0]
    table = list(row.block_table)
    return {
        "n": row.written,
        "size": sight.size,
        "blocks": len(table),
        "table": sight.scene.numbers(table),
        "first": table[0],
        "last": len(table) - 1,
        "physical": table[-1],
        "filled": row.written - (len(table) - 1) * sight.size,
        "token": sight.scene.token(row.token_ids[-1]),
        "length": len(row.token_ids),
    }


def _written(sight: Sight) -> Mapping[str, object]:
    write = sight.all(ev.Write)[0]
    row = sight.row(write.sequence)
    return {
        "token": sight.scene.token(row.token_ids[write.position]),
        "block": write.block,
        "slot": write.offset,
        "next": sight.scene.token(row.token_ids[-1]),
        "n": len(row.token_ids),
        "written": row.written,
    }


def _filled(walk: Any) -> int | None:
    """The first decode step that writes the last slot of a block without taking one; the writer goes on."""
    size = int(walk.meta["block_size"])

    def fills(step: Any, before: Any) -> bool:
        writes = [e for e in step.events if isinstance(e, ev.Write)]
        going = {view.id for view in step.sequences if view.state == "running"}
        taken = any(isinstance(e, ev.Allocate) for e in step.events)
        last = [e.sequence for e in writes if e.offset + e.count == size and e.sequence in going]
        return step.kind == "decode" and bool(last) and not taken

    return step_where(fills)(walk)


def _full(sight: Sight) -> Mapping[str, object]:
    rows = [s for s in sight.step.sequences if s.state == "running" and s.written % sight.size == 0]
    row = rows[0]
    return {
        "block": row.block_table[-1],
        "size": sight.size,
        "n": len(row.block_table),
        "written": row.written,
        "length": len(row.token_ids),
        "token": sight.scene.token(row.token_ids[-1]),
    }


def _new(sight: Sight) -> Mapping[str, object]:
    taken = sight.all(ev.Allocate)[0]
    row = sight.row(taken.sequence)
    return {
        "block": taken.block,
        "logical": taken.logical,
        "table": sight.scene.numbers(list(row.block_table)),
        "token": sight.scene.token(row.token_ids[row.written - 1]),
        "n": sight.holders().free,
    }


def _over(sight: Sight) -> Mapping[str, object]:
    row = sight.row(sight.all(ev.Finish)[0].sequence)
    request = next(r for r in sight.trace.requests if r.id == row.request)
    prompt = len(request.prompt_token_ids)
    return common.with_(
        common.given_back(sight),
        prompt=prompt,
        new=len(row.token_ids) - prompt,
        written=row.written,
        s=sight.scene.name(row.id),
    )


def _ghost(sight: Sight) -> list[str]:
    return [f"{point.row(0)} .ghost"]


def _point_write(sight: Sight) -> list[str]:
    write = sight.all(ev.Write)[0]
    return [point.place(write.block, write.offset)]


def _slots(sight: Sight) -> Question:
    request = sight.trace.requests[0]
    prompt, new = len(request.prompt_token_ids), request.max_new_tokens
    truth = prompt + new - 1
    numbers = {"prompt": prompt, "new": new, "n": truth, "size": sight.size}
    return Question(
        question=sight.words("lesson.paged-attention.q.slots", **numbers),
        options=number_options(numbers_near(truth, (prompt + new, prompt, new))),
        truth=truth,
        because=sight.words("lesson.paged-attention.q.slots.because", **numbers),
    )


def _taken(sight: Sight) -> Mapping[str, object]:
    taken = sight.all(ev.Allocate)[0]
    return {"block": taken.block, "logical": taken.logical, "size": sight.size}


def _where(sight: Sight) -> Question:
    """The slot of a position: table[position // size], position % size."""
    row = sight.step.sequences[0]
    position = row.written - 1
    truth = row.block_table[position // sight.size]
    wrong = [*row.block_table, position // sight.size, position]
    numbers = {"position": position, "size": sight.size, "logical": position // sight.size, "block": truth}
    numbers["offset"] = position % sight.size
    return Question(
        question=sight.words("lesson.paged-attention.q.where", **numbers),
        options=number_options(numbers_near(truth, wrong)),
        truth=truth,
        because=sight.words("lesson.paged-attention.q.where.because", **numbers),
    )


LESSON = Lesson(
    id="paged-attention",
    ideas=(9,),
    stops=(
        Stop(name="prompt", run=RUN, find=start, numbers=_prompt,
             point=lambda s: [point.entry(0, k) for k in range(len(s.step.sequences[0].block_table))]),
        Stop(name="sampled", run=RUN, find=start, numbers=_prompt, point=_ghost),
        Stop(name="written", run=RUN, find=first_decode, numbers=_written, point=_point_write,
             gate=gates.copy_or_not),
        Stop(name="full", run=RUN, find=_filled, numbers=_full, gate=gates.copy_or_not),
        Stop(name="new", run=RUN, find=common.decode_allocate, numbers=_new, point=common.point_new,
             gate=gates.block_taken),
        Stop(name="over", run=RUN, find=first(ev.Finish), numbers=_over, gate=gates.blocks_back),
    ),
    questions=(
        Ask(run=RUN, find=common.decode_allocate,
            make=common.choice("paged-attention", "when", "write", ("write", "full", "sample"), _taken)),
        Ask(run=RUN, find=start, make=_where),
        Ask(run=RUN, find=start, make=_slots),
    ),
)  # fmt: skip
