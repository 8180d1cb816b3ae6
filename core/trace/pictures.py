"""The state that replay moves on, what can be wrong with it, and the pictures that a step would hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from core.memory.views import BlockView, RequestView, SequenceState, SequenceView, Usage


@dataclass(slots=True)
class ReplayedSequence:
    """A sequence as far as the events have told. ``host`` lists the host blocks that it waits for."""

    id: str
    request: str
    parent: str | None
    state: SequenceState
    tokens: list[int]
    written: int = 0
    table: list[int] = field(default_factory=list)
    host: list[int] = field(default_factory=list)


@dataclass(slots=True)
class ReplayedBlock:
    """A block that is not free: what its filled slots hold, and how many tables list it."""

    tokens: list[int] = field(default_factory=list)
    ref: int = 1
    cached: bool = False


@dataclass(frozen=True, slots=True)
class Fault:
    """An event that does not fit what came before it: the rule of the format it breaks, whom, and why.

    ``event`` is its place in the step. Those after the first may well be its consequences.
    """

    event: int
    rule: int
    where: str
    sentence: str


def sequence_views(sequences: Iterable[ReplayedSequence]) -> tuple[SequenceView, ...]:
    """The sequences as a step shows them. ``logprob`` is null: no event tells it."""
    return tuple(
        SequenceView(
            id=s.id,
            request=s.request,
            parent=s.parent,
            state=s.state,
            token_ids=tuple(s.tokens),
            written=s.written,
            block_table=tuple(s.table),
        )
        for s in sequences
    )


def block_views(blocks: Mapping[int, ReplayedBlock]) -> tuple[BlockView, ...]:
    """The blocks as a step shows them, in order of id."""
    return tuple(
        BlockView(
            id=number,
            state="cached" if block.cached else "used",
            ref=block.ref,
            filled=len(block.tokens),
            token_ids=tuple(block.tokens),
        )
        for number, block in sorted(blocks.items())
    )


def _usable(
    sequences: Iterable[ReplayedSequence], requests: Mapping[str, RequestView], block_size: int
) -> dict[int, int]:
    """For each listed block, how many of its slots some sequence that lists it may ever fill."""
    usable: dict[int, int] = {}
    for s in sequences:
        end = requests[s.request].max_written if s.table and s.request in requests else 0
        for logical, block in enumerate(s.table):
            most = min(block_size, end - logical * block_size)
            usable[block] = max(usable.get(block, 0), most)
    return usable


def paged_usage(
    sequences: Iterable[ReplayedSequence],
    blocks: Mapping[int, ReplayedBlock],
    requests: Mapping[str, RequestView],
    *,
    block_size: int,
    num_blocks: int,
    copied: int,
) -> Usage:
    """The paged figures in token slots, as they follow from the events alone."""
    sequences = list(sequences)
    usable = _usable(sequences, requests, block_size)
    used = {number: block for number, block in blocks.items() if not block.cached}
    live = sum(len(block.tokens) for block in used.values())
    held = sum(max(len(block.tokens), usable.get(number, 0)) for number, block in used.items())
    waiting = {s.request for s in sequences if s.state not in ("running", "finished")}
    return Usage(
        strategy="paged",
        capacity=num_blocks * block_size,
        live=live,
        reserved=held - live,
        internal=len(used) * block_size - held,
        cached=(len(blocks) - len(used)) * block_size,
        free=(num_blocks - len(blocks)) * block_size,
        copied=copied,
        running=sum(s.state == "running" for s in sequences),
        waiting=len(waiting),
    )
