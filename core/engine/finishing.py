"""How sequences end: state, blocks, and the group's place in the queues."""

from __future__ import annotations

from core.engine.groups import Group
from core.engine.state import State
from core.memory.events import Event, Finish
from core.memory.sequence import Sequence


def finish_sequence(state: State, group: Group, seq: Sequence, reason: str, events: list[Event]) -> None:
    """The sequence is over: its blocks go back, on the device and on the host; its tokens stay."""
    events.append(Finish(seq.id, reason))
    seq.state = "finished"
    group.live.remove(seq)
    state.memory.release(seq, events)
    state.memory.drop_host(seq)
    if not group.live:
        state.drop(group)


def finish_group(state: State, group: Group, reason: str, events: list[Event]) -> None:
    """All living sequences of the group are over; a beam search keeps what it has as its result."""
    if group.beams is not None:
        group.beams.give_up()
    for seq in tuple(group.live):
        finish_sequence(state, group, seq, reason, events)
