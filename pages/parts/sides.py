"""The two sides of the picture as figures: what each sequence sees, what the device holds. Pure.

Rows are short lists, because a payload travels on every click:

    sequence block   [physical, filled, was]            was: the physical block at this place a step ago, or -1
    pool block       [id, cached, filled, owners, was]  owners: places of sequences; was: ref a step ago, or -1
"""

from __future__ import annotations

from typing import Any

from core.memory import events as ev
from core.memory.views import SequenceView
from core.trace.step import Step, Trace
from pages.parts.labels import Labels, letter

MAX_POOL = 4096  # blocks drawn; a larger pool shows its first ones and says so
MAX_SEQUENCES = 32  # sequences drawn in full
MAX_TOKENS = 1500  # token labels sent in full; beyond that only those of each sequence's last blocks
TAIL_BLOCKS = 2
GONE = ("finished",)


def shown_sequences(step: Step, previous: Step | None) -> tuple[list[int], list[int]]:
    """Places of the sequences to draw, and of those that were over before this step (only named).

    While there are at most four, those that are over keep their place, so that nothing jumps.
    """
    over_before = {s.id for s in previous.sequences if s.state in GONE} if previous else set()
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
    tails = sum(len(view.token_ids) for view in views) > MAX_TOKENS
    rows: list[dict[str, Any]] = []
    for place, view in zip(shown, views, strict=True):
        row = _row(place, view, before.get(view.id), size)
        row |= _tokens(view, views[: len(rows)], labels, _first_token(view, size, tails))
        rows.append(row)
    hidden = len(step.sequences) - len(shown) - len(over)
    return {"seqs": rows, "over": [letter(place) for place in over][-24:], "more": hidden}


def _row(place: int, view: SequenceView, before: SequenceView | None, size: int) -> dict[str, Any]:
    old = before.block_table if before else ()
    table = []
    for logical, physical in enumerate(view.block_table):
        filled = min(max(view.written - logical * size, 0), size)
        was = old[logical] if logical < len(old) and old[logical] != physical else -1
        table.append([physical, filled, was])
    row: dict[str, Any] = {"p": place, "id": view.id, "state": view.state, "n": len(view.token_ids)}
    row |= {"w": view.written, "b": table}
    if before is None:
        row["new"] = True
    elif before.state != view.state:
        row["changed"] = True
    return row


def _first_token(view: SequenceView, size: int, tails: bool) -> int:
    """The first position whose label is sent."""
    if not tails:
        return 0
    return max((len(view.block_table) - TAIL_BLOCKS) * size, 0)


def _tokens(view: SequenceView, earlier: list[SequenceView], labels: Labels, first: int) -> dict[str, Any]:
    """Label indices from ``first`` on; a prefix that an earlier row of the same request has is referred to."""
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
    """The pool: every block that is not free, the host blocks, and how the pool stands."""
    step = trace.steps[index]
    previous = trace.steps[index - 1] if index else None
    owners = _owners(step)
    refs = {block.id: block.ref for block in previous.blocks} if previous else {}
    blocks, cached_tokens = [], {}
    for block in step.blocks:
        if block.id >= MAX_POOL:
            continue
        was = refs.get(block.id, 0)
        is_cached = block.state == "cached"
        mine = owners.get(block.id, [])
        blocks.append([block.id, int(is_cached), block.filled, mine, -1 if was == block.ref else was])
        if is_cached and len(step.blocks) <= 64:
            cached_tokens[block.id] = [labels.index(token) for token in block.token_ids]
    used = sum(1 for block in step.blocks if block.state == "used")
    paged = step.usage[0] if step.usage else None
    return {
        "blocks": blocks,
        "ct": cached_tokens,
        "host": [[block.id, block.filled] for block in step.host_blocks],
        "used": used,
        "cached": len(step.blocks) - used,
        "live": paged.live if paged else sum(b.filled for b in step.blocks if b.state == "used"),
    }


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
