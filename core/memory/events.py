"""The vocabulary: one frozen dataclass for each thing that can happen to KV memory in a step.

Names and fields are those of the trace format, version 1. An event carries exactly what is needed to
replay it: see ``core.trace.replay``. Slots are counted in tokens; blocks and sequences are ids.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, ClassVar


@dataclass(frozen=True, slots=True)
class Event:
    """Base of all events. ``name`` is the value of the key "event" in a trace file."""

    name: ClassVar[str] = ""

    def to_dict(self) -> dict[str, Any]:
        """The event as the trace file writes it: {"event": name, field: value, ...}."""
        return {"event": self.name} | {f.name: getattr(self, f.name) for f in fields(self)}


@dataclass(frozen=True, slots=True)
class Arrive(Event):
    """A request has been handed in."""

    name: ClassVar[str] = "arrive"
    request: str


@dataclass(frozen=True, slots=True)
class Wait(Event):
    """The request at the head of the queue is not admitted in this step: it needs more than there is."""

    name: ClassVar[str] = "wait"
    request: str
    need: int
    have: int
    reason: str


@dataclass(frozen=True, slots=True)
class Reject(Event):
    """The request can never be served and is refused on arrival."""

    name: ClassVar[str] = "reject"
    request: str
    need: int
    have: int
    reason: str


@dataclass(frozen=True, slots=True)
class Admit(Event):
    """The request leaves the queue and runs."""

    name: ClassVar[str] = "admit"
    request: str


@dataclass(frozen=True, slots=True)
class Fork(Event):
    """``child`` begins as a copy of ``parent``; its blocks follow as Share events."""

    name: ClassVar[str] = "fork"
    parent: str
    child: str


@dataclass(frozen=True, slots=True)
class Allocate(Event):
    """A free block (ref 1) is appended to the sequence's block table as logical block ``logical``."""

    name: ClassVar[str] = "allocate"
    block: int
    sequence: str
    logical: int


@dataclass(frozen=True, slots=True)
class Share(Event):
    """A block that holds these tokens already is appended to the table; ``ref`` is the count after it."""

    name: ClassVar[str] = "share"
    block: int
    sequence: str
    logical: int
    ref: int
    cause: str  # "fork" | "prefix" | "swap"


@dataclass(frozen=True, slots=True)
class Copy(Event):
    """Copy-on-write: ``target`` (ref 1) replaces ``source`` in the table; source's ref falls by 1."""

    name: ClassVar[str] = "copy"
    source: int
    target: int
    sequence: str
    logical: int
    tokens: int


@dataclass(frozen=True, slots=True)
class Write(Event):
    """``count`` consecutive tokens' keys and values are written within one block."""

    name: ClassVar[str] = "write"
    sequence: str
    position: int
    block: int
    offset: int
    count: int


@dataclass(frozen=True, slots=True)
class Release(Event):
    """The last block of the sequence's table is taken off it; ``ref`` is the count after it."""

    name: ClassVar[str] = "release"
    block: int
    sequence: str
    ref: int


@dataclass(frozen=True, slots=True)
class Free(Event):
    """The count of a block has reached 0 and its content is forgotten."""

    name: ClassVar[str] = "free"
    block: int


@dataclass(frozen=True, slots=True)
class Cache(Event):
    """The count of a full block has reached 0; it stays findable by its content until it is evicted."""

    name: ClassVar[str] = "cache"
    block: int


@dataclass(frozen=True, slots=True)
class Evict(Event):
    """A cached block's content is forgotten because its slots are needed."""

    name: ClassVar[str] = "evict"
    block: int


@dataclass(frozen=True, slots=True)
class Preempt(Event):
    """The sequence gives up its blocks so that an earlier request can go on."""

    name: ClassVar[str] = "preempt"
    sequence: str
    how: str  # "recompute" | "swap"


@dataclass(frozen=True, slots=True)
class Resume(Event):
    """A preempted sequence runs again."""

    name: ClassVar[str] = "resume"
    sequence: str
    how: str


@dataclass(frozen=True, slots=True)
class SwapOut(Event):
    """A block is copied to the host, once, however many sequences share it; the releases follow."""

    name: ClassVar[str] = "swap_out"
    block: int
    host_block: int


@dataclass(frozen=True, slots=True)
class SwapIn(Event):
    """A host block is copied back into a free block (ref 1), which is appended to the table."""

    name: ClassVar[str] = "swap_in"
    block: int
    host_block: int
    sequence: str
    logical: int


@dataclass(frozen=True, slots=True)
class Sample(Event):
    """A token has been chosen. Its keys and values are written in the next step, not in this one."""

    name: ClassVar[str] = "sample"
    sequence: str
    token_id: int
    text: str


@dataclass(frozen=True, slots=True)
class Finish(Event):
    """The sequence is over."""

    name: ClassVar[str] = "finish"
    sequence: str
    reason: str  # "length" | "stop" | "dropped" | "cancelled" | "out_of_memory"


@dataclass(frozen=True, slots=True)
class Reserve(Event):
    """A contiguous strategy takes the slots [start, start + length) for the sequence."""

    name: ClassVar[str] = "reserve"
    strategy: str
    sequence: str
    start: int
    length: int


@dataclass(frozen=True, slots=True)
class Grow(Event):
    """A contiguous strategy moves to a larger run and copies ``copied`` tokens."""

    name: ClassVar[str] = "grow"
    strategy: str
    sequence: str
    start: int
    length: int
    old_start: int
    old_length: int
    copied: int


@dataclass(frozen=True, slots=True)
class GiveBack(Event):
    """A contiguous strategy returns the run [start, start + length)."""

    name: ClassVar[str] = "give_back"
    strategy: str
    sequence: str
    start: int
    length: int


EVENT_TYPES: dict[str, type[Event]] = {
    cls.name: cls
    for cls in (
        Arrive, Wait, Reject, Admit, Fork, Allocate, Share, Copy, Write, Release, Free, Cache, Evict,
        Preempt, Resume, SwapOut, SwapIn, Sample, Finish, Reserve, Grow, GiveBack,
    )
}  # fmt: skip


def event_from_dict(data: dict[str, Any]) -> Event | None:
    """Read one event of a trace file. Unknown events give None (a reader ignores what it does not know).

    Raises ValueError with a sentence when a known event lacks a field or a field has the wrong type.
    """
    name = data.get("event")
    cls = EVENT_TYPES.get(name) if isinstance(name, str) else None
    if cls is None:
        return None
    values = {}
    for f in fields(cls):
        kind = int if f.type == "int" else str
        value = data.get(f.name)
        if not isinstance(value, kind) or isinstance(value, bool):
            raise ValueError(f'event "{name}" needs "{f.name}" as {kind.__name__}, found {value!r}')
        values[f.name] = value
    return cls(**values)
