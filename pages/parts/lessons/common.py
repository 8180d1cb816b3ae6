"""Numbers and predicates that several lessons need: pure functions of a sight or a walk."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from core.memory import events as ev
from pages.parts.gates import Question, texts_by_key
from pages.parts.lessons import point
from pages.parts.lessons.lesson import Numbers, Sight, step_where


def choice(
    lesson: str, part: str, truth: str, names: tuple[str, ...], numbers: Numbers = lambda sight: {}
) -> Callable[[Sight], Question]:
    """A question in words: ``lesson.<lesson>.q.<part>``, its answers ``.<name>``, its reason ``.because``."""
    prefix = f"lesson.{lesson}.q.{part}"

    def make(sight: Sight) -> Question:
        given = numbers(sight)
        return Question(
            question=sight.words(prefix, **given),
            options=texts_by_key(sight.lang, prefix, names, **given),
            truth=truth,
            because=sight.words(f"{prefix}.because", **given),
        )

    return make


def totals(sight: Sight) -> dict[str, object]:
    """Entries in all block tables, and blocks that they name: the difference is what sharing saves."""
    tables = [view.block_table for view in sight.step.sequences if view.block_table]
    held = {block for table in tables for block in table}
    listed = sum(map(len, tables))
    return {"tables": len(tables), "listed": listed, "held": len(held), "saved": listed - len(held)}


def prompt_of(sight: Sight, request: int = 0) -> int:
    """Tokens of a request's prompt."""
    return len(sight.trace.requests[request].prompt_token_ids)


def shared(sight: Sight) -> dict[str, object]:
    """The blocks that the most tables list after this step, and their count."""
    holders = sight.holders()
    most = max((len(owners) for owners in holders.lists.values()), default=0)
    blocks = [b for b, owners in sorted(holders.lists.items()) if len(owners) == most]
    order = [b for view in sight.step.sequences for b in view.block_table if b in blocks]
    blocks = list(dict.fromkeys(order))
    owners = holders.lists[blocks[0]] if blocks else []
    return {
        "ref": most,
        "n": len(blocks),
        "blocks": sight.scene.numbers(blocks),
        "s": sight.scene.join(owners),
    }


def point_shared(sight: Sight) -> list[str]:
    """Rings around the counts of all shared blocks."""
    return [point.count(b) for b, owners in sight.holders().lists.items() if len(owners) > 1]


def point_new(sight: Sight) -> list[str]:
    """Rings around the blocks taken in this step."""
    return [point.card(event.block) for event in sight.all(ev.Allocate)]


def new_blocks(sight: Sight) -> dict[str, object]:
    """The blocks taken in this step and by whom."""
    taken = sight.all(ev.Allocate)
    return {
        "n": len(taken),
        "blocks": sight.scene.numbers([event.block for event in taken]),
        "s": sight.scene.join(list(dict.fromkeys(event.sequence for event in taken))),
        "size": sight.size,
    }


def given_back(sight: Sight) -> dict[str, object]:
    """Who ended in this step, what came back, and how many table entries that were."""
    before = {view.id: view for view in sight.before.sequences} if sight.before else {}
    over = [event.sequence for event in sight.all(ev.Finish)]
    listed = [e for e in sight.all(ev.Release) if e.sequence in over]
    return {
        "s": sight.scene.join(over),
        "n": len(sight.all(ev.Free)) + len(sight.all(ev.Cache)),
        "listed": len(listed),
        "kept": len({e.block for e in listed if e.ref} - {e.block for e in listed if not e.ref}),
        "over": len([name for name in over if name in before]),
    }


def computed(sight: Sight) -> int:
    """Tokens whose keys and values were computed in this step."""
    return sum(event.count for event in sight.all(ev.Write))


def power(value: float) -> str:
    """A small number with one digit, as it is written by hand: 4×10⁻⁵."""
    if not value:
        return "0"
    digit, exponent = f"{value:.0e}".split("e")
    return f"{digit}×10{str(int(exponent)).translate(str.maketrans('-0123456789', '⁻⁰¹²³⁴⁵⁶⁷⁸⁹'))}"


def decode_allocate(walk: Any) -> int | None:
    """The first step that takes a block for a sequence that had blocks before it."""

    def grows(step: Any, before: Any) -> bool:
        had = {view.id for view in before.sequences if view.block_table} if before else set()
        return any(isinstance(e, ev.Allocate) and e.sequence in had for e in step.events)

    return step_where(grows)(walk)


def half_full(walk: Any) -> int | None:
    """The first step, if several tables share a prompt that does not fill its last block."""
    return 0 if walk.steps and _part(walk) and _many(walk) else None


def filled(walk: Any) -> int | None:
    """The first step, if several tables share a prompt that fills its last block."""
    return 0 if walk.steps and not _part(walk) and _many(walk) else None


def _part(walk: Any) -> int:
    return walk.steps[0].sequences[0].written % int(walk.meta["block_size"]) if walk.steps[0].sequences else 0


def _many(walk: Any) -> bool:
    return sum(bool(view.block_table) for view in walk.steps[0].sequences) > 1


def all_take_new(walk: Any) -> int | None:
    """A step in which all running sequences take new blocks behind shared ones, and nothing is copied."""

    def holds(step: Any, before: Any) -> bool:
        if before is None or not any(block.ref > 1 for block in before.blocks):
            return False
        running = {view.id for view in before.sequences if view.state == "running"}
        takes = {e.sequence for e in step.events if isinstance(e, ev.Allocate)}
        copied = any(isinstance(e, ev.Copy) for e in step.events)
        return len(running) > 1 and running <= takes and not copied and _part(walk) == 0

    return step_where(holds)(walk)


def with_(*parts: Mapping[str, object], **more: object) -> dict[str, object]:
    """Several sets of numbers as one."""
    out: dict[str, object] = {}
    for part in parts:
        out |= part
    return out | more
