"""The parts first: token, slot, logical block, physical block, block table, reference count."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from core.memory import events as ev
from pages.parts.gates import Question, number_options, numbers_near
from pages.parts.lessons import common, point
from pages.parts.lessons.lesson import Ask, Lesson, Sight, Stop, start, step_where

RUN = "first-steps"


def quiet(walk: Any) -> int | None:
    """The first step in which tables share blocks and none of them changes, if there is one with the last
    block of A written in part; else the first step."""
    size = int(walk.meta["block_size"])

    def calm(step: Any, before: Any) -> bool:
        changed = any(isinstance(e, (ev.Allocate, ev.Copy, ev.Share, ev.Release)) for e in step.events)
        return not changed and any(block.ref > 1 for block in step.blocks)

    def part(step: Any, before: Any) -> bool:
        return calm(step, before) and 0 < step.sequences[0].written % size < size - 1

    found = (find(walk) for find in (step_where(part), step_where(calm), start))
    return next((index for index in found if index is not None), None)


def _first(sight: Sight) -> Mapping[str, object]:
    """Sequence A: its tokens, its blocks, and what the pool is."""
    row = sight.step.sequences[0]
    table = list(row.block_table)
    last = len(table) - 1
    holders = sight.holders()
    place = min(1, row.written - 1)
    meta, model = sight.trace.meta, sight.trace.meta.get("model") or {}
    slot = int(meta.get("bytes_per_token", 0))
    numbers = 2 * model.get("layers", 0) * model.get("kv_heads", 0) * model.get("head_dim", 0)
    return {
        "token": sight.scene.token(row.token_ids[place]),
        "n": len(row.token_ids),
        "written": row.written,
        "size": sight.size,
        "bytes": f"{slot:,}",
        "each": slot // max(numbers, 1),
        "layers": model.get("layers", 0),
        "heads": model.get("kv_heads", 0),
        "dim": model.get("head_dim", 0),
        "logical": min(1, last),
        "from_": min(1, last) * sight.size,
        "to": min((min(1, last) + 1) * sight.size, row.written) - 1,
        "block": table[0],
        "pool": sight.pool,
        "slots": sight.pool * sight.size,
        "table": sight.scene.numbers(table),
        "blocks": len(table),
        "ref": holders.ref(table[0]),
        "s": sight.scene.join(holders.lists[table[0]]),
    }


def _stop(name: str, where: object) -> Stop:
    return Stop(name=name, run=RUN, find=quiet, numbers=_first, point=where)  # type: ignore[arg-type]


def _empty_slot(sight: Sight) -> list[str]:
    """The first empty slot of A in the pool; where its blocks are full, the last one that is written."""
    row = sight.step.sequences[0]
    place = row.written if row.written % sight.size else row.written - 1
    return [point.place(row.block_table[place // sight.size], place % sight.size)]


def _token(sight: Sight) -> list[str]:
    place = min(1, sight.step.sequences[0].written - 1)
    return [point.slot(0, place // sight.size, place % sight.size)]


def _table(sight: Sight) -> list[str]:
    return [point.entry(0, k) for k in range(len(sight.step.sequences[0].block_table))]


def _slots(sight: Sight) -> Question:
    numbers = {"pool": sight.pool, "size": sight.size, "n": sight.pool * sight.size}
    truth = sight.pool * sight.size
    return Question(
        question=sight.words("lesson.parts.q.slots", **numbers),
        options=number_options(numbers_near(truth, (sight.pool, sight.pool + sight.size), low=1)),
        truth=truth,
        because=sight.words("lesson.parts.q.slots.because", **numbers),
    )


def _listed(sight: Sight) -> Mapping[str, object]:
    block = sight.step.sequences[0].block_table[0]
    return {"block": block, "ref": sight.holders().ref(block)}


LESSON = Lesson(
    id="parts",
    ideas=(),
    stops=(
        _stop("token", _token),
        _stop("slot", _empty_slot),
        _stop("logical", lambda s: [point.logical(0, min(1, len(s.step.sequences[0].block_table) - 1))]),
        _stop("physical", lambda s: [point.card(s.step.sequences[0].block_table[0])]),
        _stop("table", _table),
        _stop("ref", common.point_shared),
    ),
    questions=(
        Ask(run=RUN, find=quiet, make=_slots),
        Ask(
            run=RUN,
            find=quiet,
            make=common.choice("parts", "ref", "tables", ("tables", "tokens", "reads"), _listed),
        ),
    ),
)
