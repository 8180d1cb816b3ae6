"""The two sides of the picture as figures: what each sequence sees, what the device holds. Pure.

A payload travels on every click, so nothing is said twice: a sequence's table is a list of physical blocks
(how full each is follows from ``written``), and who lists a block follows from the tables that are drawn.
"""

from __future__ import annotations

from typing import Any

from core.memory import events as ev
from core.memory.views import SequenceView
from core.trace.step import Step, Trace
from pages.parts.labels import Labels, letter

MAX_POOL = 4096  # blocks drawn; a larger pool shows its first ones and says so
MAX_SEQUENCES = 32  # sequences drawn in full
MAX_TOKENS = 1000  # token labels sent in full; beyond that only those of each sequence's last blocks
MAX_SPOKEN = 8  # sequences whose tokens there is room for; with more, only each one's last block is sent
TAIL_BLOCKS = 2


def shown_sequences(step: Step, previous: Step | None) -> tuple[list[int], list[int]]:
    """Places of the sequences to draw, and of those that were over before this step (only named).

    While there are at most four, those that are over keep their place, so that nothing jumps.
    """
    over_before = {s.id for s in previous.sequences if s.state == "finished"} if previous else set()
    places = range(len(step.sequences))
    if len(step.sequences) <= 4:
        return list(places), []
    alive = [p for p in places if step.sequences[p].id not in over_before]
    return alive[:MAX_SEQUENCES], [p for p in places if step.sequences[p].id in over_before]


def logical_side(trace: Trace, index: int, labels: Labels) -> dict[str, Any]:
    """Every sequence with its state, its counts, its blocks in order and its tokens."""
    step = trace.steps[index]
    previous = trace.steps[index - 1] if index else None
    shown, over = shown_sequences(step, previous)
    before = {s.id: s for s in previous.sequences} if previous else {}
    size = int(trace.meta["block_size"])
    views = [step.sequences[place] for place in shown]
    tail = 1 if len(views) > MAX_SPOKEN else TAIL_BLOCKS
    if len(views) <= MAX_SPOKEN and sum(len(view.token_ids) for view in views) <= MAX_TOKENS:
        tail = MAX_TOKENS
    rows: list[dict[str, Any]] = []
    for place, view in zip(shown, views, strict=True):
        row = _row(place, view, before.get(view.id))
        row |= _tokens(view, views[: len(rows)], labels, max(len(view.block_table) - tail, 0) * size)
        rows.append(row)
    hidden = len(step.sequences) - len(shown) - len(over)
    return {"seqs": rows, "over": [letter(place) for place in over][-24:], "more": hidden}


def _row(place: int, view: SequenceView, before: SequenceView | None) -> dict[str, Any]:
    """``was``: {logical: physical block at this place a step ago} where it is another one now."""
    row: dict[str, Any] = {"p": place, "id": view.id, "state": view.state, "n": len(view.token_ids)}
    row |= {"w": view.written, "b": list(view.block_table)}
    old = before.block_table if before else ()
    pairs = enumerate(zip(old, view.block_table, strict=False))
    if was := {logical: one for logical, (one, two) in pairs if one != two}:
        row["was"] = was
    if before is None:
        row["new"] = True
    elif before.state != view.state:
        row["changed"] = True
    return row


def _tokens(view: SequenceView, earlier: list[SequenceView], labels: Labels, first: int) -> dict[str, Any]:
    """Label indices from ``first`` on; a prefix that an earlier row of the request has is referred to."""
    like, same = -1, 0
    for place, other in enumerate(earlier):
        if first == 0 and other.request == view.request:
            common = _common(view.token_ids, other.token_ids)
            if common > same:
                like, same = place, common
    own = [labels.index(token) for token in view.token_ids[max(first, same) :]]
    sent: dict[str, Any] = {"t": own, "t0": first}
    return sent | {"like": like, "same": same} if like >= 0 else sent


def _common(one: tuple[int, ...], two: tuple[int, ...]) -> int:
    length = 0
    for a, b in zip(one, two, strict=False):
        if a != b:
            break
        length += 1
    return length


def physical_side(trace: Trace, index: int, labels: Labels) -> dict[str, Any]:
    """The pool beyond what the tables say: cached blocks, blocks of sequences not drawn, changed counts.

    {"cached": [[id, filled, labels]], "others": [[id, filled, owners]], "torn": {id: labels} of blocks that
    hold other tokens than a table that lists them says, "ref": {id: count a step ago},
    "host": [[id, filled, labels, owners]], "used", "kept": blocks in use and cached, "held_tokens": slots
    with a token}
    """
    step = trace.steps[index]
    previous = trace.steps[index - 1] if index else None
    before = {block.id: block.ref for block in previous.blocks} if previous else {}
    shown, _ = shown_sequences(step, previous)
    drawn = {block for place in shown for block in step.sequences[place].block_table}
    pool = [block for block in step.blocks if block.id < MAX_POOL]
    cached = [block for block in pool if block.state == "cached"]
    spoken = cached if len(cached) <= MAX_SPOKEN * 4 else []
    hidden = [block for block in pool if block.state == "used" and block.id not in drawn]
    owners = _owners(step) if hidden else {}
    used = sum(1 for block in step.blocks if block.state == "used")
    torn = _torn(step, int(trace.meta["block_size"]))
    return {
        "cached": [
            [block.id, block.filled, [labels.index(token) for token in block.token_ids] if spoken else []]
            for block in cached
        ],
        "others": [[block.id, block.filled, owners.get(block.id, [])] for block in hidden],
        "torn": {
            block.id: [labels.index(token) for token in block.token_ids] for block in pool if block.id in torn
        },
        "ref": {block.id: before[block.id] for block in pool if before.get(block.id, block.ref) != block.ref},
        "host": _host(trace, index, labels),
        "used": used,
        "kept": len(step.blocks) - used,
        "held_tokens": sum(block.filled for block in step.blocks if block.state == "used"),
    }


def _torn(step: Step, size: int) -> set[int]:
    """Blocks in which a sequence finds other tokens than its own: so it is where copy-on-write is off."""
    held = {block.id: block.token_ids for block in step.blocks}
    found = set()
    for view in step.sequences:
        for logical, block in enumerate(view.block_table):
            own = view.token_ids[logical * size : min((logical + 1) * size, view.written)]
            if own and held.get(block, own)[: len(own)] != own:
                found.add(block)
    return found


def _host(trace: Trace, index: int, labels: Labels) -> list[list[Any]]:
    """Blocks in host memory: how full, their tokens, and the sequences that listed them when they went."""
    step = trace.steps[index]
    spoken = len(step.host_blocks) <= MAX_SPOKEN * 2
    owners: dict[int, list[int]] = {}
    for later in range(index, 0, -1) if step.host_blocks else ():
        listed = _owners(trace.steps[later - 1])
        for event in trace.steps[later].events:
            if isinstance(event, ev.SwapOut):
                owners.setdefault(event.host_block, listed.get(event.block, []))
    away = {place for place, view in enumerate(step.sequences) if view.state == "swapped"}
    return [
        [
            block.id,
            block.filled,
            [labels.index(token) for token in block.token_ids] if spoken else [],
            [place for place in owners.get(block.id, []) if place in away],
        ]
        for block in step.host_blocks
    ]


def _owners(step: Step) -> dict[int, list[int]]:
    owners: dict[int, list[int]] = {}
    for place, view in enumerate(step.sequences):
        for block in view.block_table:
            owners.setdefault(block, []).append(place)
    return owners


def changes(trace: Trace, index: int) -> dict[str, Any]:
    """What this step did to blocks: copies, writes, new ones, those given back, those swapped.

    A block that was taken and given back within the step is not among the new ones.
    """
    step = trace.steps[index]
    place = {view.id: number for number, view in enumerate(step.sequences)}
    held = {block.id for block in step.blocks}
    found: dict[str, list[Any]] = {"copy": [], "write": [], "new": [], "gone": [], "out": [], "in": []}
    for event in step.events:
        match event:
            case ev.Copy(source, target, sequence, logical, tokens):
                found["copy"].append([source, target, tokens, place.get(sequence, -1), logical])
            case ev.Write(_, _, block, offset, count):
                found["write"].append([block, offset, count])
            case ev.Allocate(block, _, _) if block in held:
                found["new"].append(block)
            case ev.Free(block) | ev.Evict(block) if block not in held:
                found["gone"].append(block)
            case ev.SwapOut(block, host_block):
                found["out"].append([block, host_block])
            case ev.SwapIn(block, host_block, _, _):
                found["in"].append([host_block, block])
    return {kind: rows for kind, rows in found.items() if rows}
