"""Rebuild every block table, count and slot of a run from its events alone.

This is the proof that events and pictures tell the same story: what each event implies is written down
here once, as trace_format.md says it, and nothing is looked up in the recorded pictures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from core.memory import events as ev
from core.memory.views import BlockView, RequestView, SequenceView, Usage
from core.trace.file import TraceError
from core.trace.pictures import (
    Fault,
    ReplayedBlock,
    ReplayedSequence,
    block_views,
    paged_usage,
    sequence_views,
)
from core.trace.step import Trace


class Replay:
    """The state of a run, moved on by :meth:`apply`, one step's events at a time.

    Never raises for what a trace claims: an event that cannot be as it says becomes a Fault, and the state
    is then as close to the event's words as it can be.
    """

    def __init__(self, meta: Mapping[str, Any], requests: Iterable[RequestView]) -> None:
        self.block_size: int = meta["block_size"]
        self.num_blocks: int = meta["num_blocks"]
        self.requests = {request.id: request for request in requests}
        self.sequences: dict[str, ReplayedSequence] = {}
        self._of_request: dict[str, list[ReplayedSequence]] = {}
        self.blocks: dict[int, ReplayedBlock] = {}
        self.host: dict[int, ReplayedBlock] = {}
        self.copied = 0
        self._moved: dict[int, int] = {}  # block -> host block, in this step
        self._faults: list[Fault] = []
        self._at = 0  # place of the event in hand
        self._apply: dict[type[ev.Event], Callable[[Any], None]] = {
            ev.Arrive: self._arrive, ev.Admit: self._admit, ev.Reject: self._reject, ev.Fork: self._fork,
            ev.Allocate: self._allocate, ev.Share: self._share, ev.Copy: self._copy, ev.Write: self._write,
            ev.Release: self._release, ev.Free: self._free, ev.Cache: self._cache, ev.Evict: self._evict,
            ev.Preempt: self._preempt, ev.Resume: self._resume, ev.SwapOut: self._swap_out,
            ev.SwapIn: self._swap_in, ev.Sample: self._sample, ev.Finish: self._finish,
        }  # fmt: skip

    def apply(self, events: Iterable[ev.Event]) -> list[Fault]:
        """Move on by one step. Gives what did not fit, in the order of the events; [] is as it should be."""
        self._faults, self._moved = [], {}
        for self._at, event in enumerate(events):
            handler = self._apply.get(type(event))
            if handler is not None:  # waits and contiguous strategies touch no block
                handler(event)
        return self._faults

    def usage(self) -> Usage:
        """The paged figures that follow from the events so far."""
        return paged_usage(
            self.sequences.values(),
            self.blocks,
            self.requests,
            block_size=self.block_size,
            num_blocks=self.num_blocks,
            copied=self.copied,
        )

    def _fault(self, rule: int, where: str, sentence: str) -> None:
        self._faults.append(Fault(self._at, rule, where, sentence))

    # Sequences

    def _sequence(self, name: str) -> ReplayedSequence:
        """The sequence of this name. One never heard of is taken for a further answer of its request."""
        known = self.sequences.get(name)
        if known is None:
            request = name.rsplit(".", 1)[0]
            if request not in self.requests:
                self._fault(6, name, f"an event names {name}, which no request and no fork has made")
            known = self._begin(name, request)
        return known

    def _begin(self, name: str, request: str) -> ReplayedSequence:
        view = self.requests.get(request)
        tokens = list(view.prompt_token_ids) if view else []
        return self._add(ReplayedSequence(name, request, None, "running", tokens))

    def _add(self, sequence: ReplayedSequence) -> ReplayedSequence:
        self.sequences[sequence.id] = sequence
        self._of_request.setdefault(sequence.request, []).append(sequence)
        return sequence

    def _arrive(self, event: ev.Arrive) -> None:
        self._begin(f"{event.request}.0", event.request).state = "waiting"

    def _admit(self, event: ev.Admit) -> None:
        for sequence in self._of_request.get(event.request) or [self._sequence(f"{event.request}.0")]:
            if sequence.state == "waiting":
                sequence.state = "running"

    def _reject(self, event: ev.Reject) -> None:
        for sequence in self._of_request.pop(event.request, []):
            self.sequences.pop(sequence.id, None)

    def _fork(self, event: ev.Fork) -> None:
        parent = self._sequence(event.parent)
        if event.child in self.sequences:
            self._fault(6, event.child, f"{event.child} is forked from {event.parent}, but exists already")
        tokens = list(parent.tokens)
        self._add(ReplayedSequence(event.child, parent.request, event.parent, parent.state, tokens))

    def _sample(self, event: ev.Sample) -> None:
        self._sequence(event.sequence).tokens.append(event.token_id)

    def _preempt(self, event: ev.Preempt) -> None:
        sequence = self._sequence(event.sequence)
        sequence.state = "swapped" if event.how == "swap" else "preempted"
        if event.how == "recompute":
            sequence.written = 0

    def _resume(self, event: ev.Resume) -> None:
        self._sequence(event.sequence).state = "running"

    def _finish(self, event: ev.Finish) -> None:
        sequence = self._sequence(event.sequence)
        sequence.state = "finished"
        for host_block in sequence.host:  # cancelled while it was swapped out
            self._leave_host(host_block)
        sequence.host.clear()

    # Blocks

    def _take_free(self, block: int, ref: int = 1) -> ReplayedBlock:
        if block in self.blocks:
            state = "cached, and was not evicted first" if self.blocks[block].cached else "in use"
            self._fault(6, f"block {block}", f"block {block} is taken as a free one, but is {state}")
        self.blocks[block] = taken = ReplayedBlock(ref=ref)
        return taken

    def _held(self, block: int, doing: str) -> ReplayedBlock:
        held = self.blocks.get(block)
        if held is None:
            self._fault(6, f"block {block}", f"block {block} is {doing}, but is free")
            held = ReplayedBlock(ref=0)
        return held

    def _append(self, name: str, logical: int, block: int) -> ReplayedSequence:
        sequence = self._sequence(name)
        if logical != len(sequence.table):
            told = f"block {block} becomes logical block {logical} of {name}"
            self._fault(6, name, f"{told}, whose table has {len(sequence.table)} blocks")
        sequence.table.append(block)
        return sequence

    def _allocate(self, event: ev.Allocate) -> None:
        self._take_free(event.block)
        self._append(event.sequence, event.logical, event.block)

    def _share(self, event: ev.Share) -> None:
        block = self._held(event.block, "shared")
        if block.cached and event.cause != "prefix":
            told = f"block {event.block} is shared by {event.cause}"
            self._fault(6, f"block {event.block}", f"{told}, but is cached: nobody has it to share")
        block.cached = False
        block.ref += 1
        self._count(event.block, block, event.ref)
        start = len(self._sequence(event.sequence).table) * self.block_size
        sequence = self._append(event.sequence, event.logical, event.block)
        if event.cause == "swap":
            self._come_back(sequence, None)
            return
        if start != sequence.written:
            told = f"a share covers {event.sequence} from position {start}"
            self._fault(8, event.sequence, f"{told}, when position {sequence.written} is next")
        sequence.written = start + len(block.tokens)

    def _count(self, number: int, block: ReplayedBlock, told: int) -> None:
        if block.ref != told:
            sentence = f"an event says ref {told} of block {number}, but {block.ref} block tables list it"
            self._fault(2, f"block {number}", sentence)

    def _copy(self, event: ev.Copy) -> None:
        sequence, source = self._sequence(event.sequence), self._held(event.source, "copied")
        target = self._take_free(event.target)
        target.tokens = source.tokens[: event.tokens]
        self.copied += event.tokens
        source.ref -= 1
        if len(target.tokens) != event.tokens:
            told = f"{event.tokens} tokens are copied from block {event.source}"
            self._fault(6, f"block {event.source}", f"{told}, which holds {len(source.tokens)}")
        if sequence.table[event.logical : event.logical + 1] != [event.source]:
            told = f"block {event.target} takes the place of block {event.source}"
            self._fault(6, event.sequence, f"{told}, which is not logical block {event.logical} of it")
            return
        sequence.table[event.logical] = event.target

    def _write(self, event: ev.Write) -> None:
        sequence, name = self._sequence(event.sequence), event.sequence
        block = self.blocks.get(event.block, ReplayedBlock(ref=0))
        end = event.position + event.count
        if block.ref != 1 or block.cached:
            state = "cached" if block.cached else f"at ref {block.ref}"
            told = f"{name} writes into block {event.block}"
            self._fault(4, f"block {event.block}", f"{told}, which is {state}")
        if event.position != sequence.written or event.count < 1:
            told = f"positions {event.position} to {end - 1} of {name} are written"
            self._fault(8, name, f"{told} when position {sequence.written} is next")
        logical, offset = divmod(event.position, self.block_size)
        at_home = sequence.table[logical : logical + 1] == [event.block] and offset == event.offset
        if not at_home or offset + event.count > self.block_size or end > len(sequence.tokens):
            told = f"{event.count} tokens go to slot {event.offset} of block {event.block}"
            self._fault(6, name, f"{told}, which is not the place of position {event.position} of {name}")
        tokens = sequence.tokens[event.position : end]
        block.tokens[event.offset : event.offset + event.count] = tokens
        sequence.written = max(sequence.written, end)

    def _release(self, event: ev.Release) -> None:
        sequence, block = self._sequence(event.sequence), self._held(event.block, "released")
        if sequence.table[-1:] != [event.block]:
            where = f"is not the last of the table of {event.sequence}"
            self._fault(6, event.sequence, f"block {event.block} is released, but {where}")
        else:
            sequence.table.pop()
        block.ref -= 1
        self._count(event.block, block, event.ref)
        if sequence.state == "swapped" and event.block in self._moved:
            sequence.host.insert(0, self._moved[event.block])
            self.host[sequence.host[0]].ref += 1

    def _at_zero(self, number: int, becoming: str) -> ReplayedBlock:
        block = self._held(number, f"made {becoming}")
        if block.ref or block.cached:
            state = "cached" if block.cached else f"at ref {block.ref}"
            self._fault(6, f"block {number}", f"block {number} becomes {becoming}, but is {state}")
        return block

    def _free(self, event: ev.Free) -> None:
        self._at_zero(event.block, "free")
        self.blocks.pop(event.block, None)

    def _cache(self, event: ev.Cache) -> None:
        self._at_zero(event.block, "cached").cached = True

    def _evict(self, event: ev.Evict) -> None:
        if not self._held(event.block, "evicted").cached:
            self._fault(6, f"block {event.block}", f"block {event.block} is evicted, but is not cached")
        self.blocks.pop(event.block, None)

    # The host

    def _swap_out(self, event: ev.SwapOut) -> None:
        block = self._held(event.block, "swapped out")
        if event.host_block in self.host:
            where = f"host block {event.host_block}"
            self._fault(6, where, f"block {event.block} is swapped out to {where}, which is in use")
        self.host[event.host_block] = ReplayedBlock(list(block.tokens), ref=0)
        self._moved[event.block] = event.host_block

    def _swap_in(self, event: ev.SwapIn) -> None:
        block = self._take_free(event.block)
        host = self.host.get(event.host_block)
        if host is None:
            where = f"host block {event.host_block}"
            self._fault(6, where, f"{where} is swapped in, but holds nothing")
        else:
            block.tokens = list(host.tokens)
        self._come_back(self._append(event.sequence, event.logical, event.block), event.host_block)

    def _come_back(self, sequence: ReplayedSequence, host_block: int | None) -> None:
        """The next block of a swapped sequence is on the device again: the host's is held once less."""
        expected = sequence.host.pop(0) if sequence.host else None
        if expected is None or host_block not in (None, expected):
            told = "a block" if host_block is None else f"host block {host_block}"
            self._fault(6, sequence.id, f"{told} comes back to {sequence.id}, which waits for {expected}")
        if expected is not None:
            self._leave_host(expected)

    def _leave_host(self, host_block: int) -> None:
        held = self.host.get(host_block)
        if held is not None:
            held.ref -= 1
            if held.ref <= 0:
                del self.host[host_block]


def replay(trace: Trace) -> Iterator[tuple[tuple[SequenceView, ...], tuple[BlockView, ...]]]:
    """The sequences and blocks after each step, rebuilt from the events alone.

    Raises TraceError at an event that cannot have happened as it is told (rule 6). Writes into shared blocks
    (rule 4) and written-twice positions (rule 8) can be replayed; ``core.trace.verify`` finds them.
    """
    state = Replay(trace.meta, trace.requests)
    for step in trace.steps:
        for fault in state.apply(step.events):
            if fault.rule == 6:
                raise TraceError(f"step {step.index}: {fault.sentence}.", 6)
        yield sequence_views(state.sequences.values()), block_views(state.blocks)
