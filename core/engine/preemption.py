"""When the pool runs dry: which group gives way, how, and what it takes to bring it back."""

from __future__ import annotations

from collections import Counter

from core.engine.groups import Group
from core.memory.events import Event, Preempt, Resume
from core.memory.paged import PagedMemory
from core.memory.sequence import Sequence


def preempt(group: Group, memory: PagedMemory, events: list[Event]) -> None:
    """All sequences of the group give their blocks back, as one.

    By swap their content goes to the host; where the host has no room, and by recompute, it is forgotten and
    will be computed again, prompt and answers.
    """
    swap = memory.config.preempt == "swap" and _can_swap(group, memory)
    group.how = "swap" if swap else "recompute"
    for seq in group.live:
        seq.state = "swapped" if swap else "preempted"
        events.append(Preempt(seq.id, group.how))
    if swap:
        memory.swap_out(group.live, events)
        return
    for seq in group.live:
        memory.release(seq, events)
        seq.written = 0
    if group.phase == "decode":
        group.phase = "rebuild"
    group.restore = {}


def _can_swap(group: Group, memory: PagedMemory) -> bool:
    """Whether the host can take the group and the pool could one day take it back.

    Under "append-only" a child may list twins of its parent's blocks; then a group can hold more than it
    would need when computed again, and what is swapped out as it is might never fit.
    """
    distinct = len({block for seq in group.live for block in seq.table})
    back = distinct + blocks_to_catch_up(group, memory)
    return distinct <= memory.host.num_free and back <= memory.pool.num_blocks


def blocks_to_catch_up(group: Group, memory: PagedMemory) -> int:
    """Blocks to be taken until every sequence has written all the tokens it has: new ones and copies.

    That includes the next token's block of each branch, and the copies of shared, partly filled blocks.
    """
    need, size = 0, memory.block_size
    holders: Counter[int] = Counter()
    for seq in group.live:
        waits_for = group.restore.get(seq.id)
        table = seq.host_table or seq.table
        covered = max(len(table), waits_for[1] if waits_for else 0)
        need += memory.blocks_for(len(seq.token_ids)) - covered
        if seq.written % size:
            holders[table[-1]] += 1
    if not memory.config.copy_on_write_disabled:
        need += sum(count - 1 for count in holders.values())
    return need


def blocks_to_resume(group: Group, memory: PagedMemory) -> int:
    """Blocks that must be available before a waiting or preempted group may run."""
    if group.how == "swap":
        back = {block for seq in group.live for block in seq.host_table}
        return len(back) + blocks_to_catch_up(group, memory)
    if group.phase == "rebuild" and memory.config.sharing != "none":
        group.plan_restore(memory.block_size)
    held = sum(1 for block in cached_prefix(group.live[0], memory) if memory.pool.ref[block])
    return blocks_to_catch_up(group, memory) - held


def cached_prefix(seq: Sequence, memory: PagedMemory) -> list[int]:
    """What the prefix cache has of the sequence's text; at least one token is left to compute."""
    if not memory.config.prefix_cache:
        return []
    return memory.find(seq.token_ids, (len(seq.token_ids) - 1) // memory.block_size)


def resume(group: Group, memory: PagedMemory, events: list[Event]) -> None:
    """The group runs again: its blocks come back from the host, or it starts to compute them again."""
    for seq in group.live:
        seq.state = "running"
        events.append(Resume(seq.id, group.how or "recompute"))
        memory.touch(seq)
    if group.how == "swap":
        memory.swap_in(group.live, events)
    else:
        memory.share(group.live[0], cached_prefix(group.live[0], memory), "prefix", events)
    group.how = None


def attach(group: Group, memory: PagedMemory, events: list[Event]) -> None:
    """Give each waiting sequence of a rebuilding group the full blocks that its partner has written by now,
    and what the prefix cache still has of its own text after them."""
    size = memory.block_size
    cause = "fork" if memory.config.sharing == "copy-on-write" else "prefix"
    for seq in group.live:
        partner, count = group.restore.get(seq.id, (None, 0))
        if partner is None or partner.written < count * size:
            continue
        del group.restore[seq.id]
        memory.share(seq, partner.table[:count], cause, events)
        memory.share(seq, cached_prefix(seq, memory)[count:], "prefix", events)
