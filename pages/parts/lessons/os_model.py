"""A small operating system's memory: virtual pages, frames, page faults, fork, copy on write. Pure.

Enough to play what the course text tells, and no more: one level of page table, no disk, no swapping out.

    process P   page 0 -> frame 3  present, writable         frames  3: P        count 1
                page 1 -> (none)   not present                       0..2, 4...: free

Rules (those of a Unix kernel): mapping memory takes no frame; the first touch of a page faults and binds a
free frame; fork shares every frame and takes the right to write away from both sides; a write without the
right faults, and is answered with a copy while the frame has another user, else by giving the right back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class OsEvent(NamedTuple):
    """One thing that happened. ``name``: map, touch, fault, bind, share, copy, allow, write, release, free,
    fork, exit. ``count``: users of the frame after it; ``cause`` of a fault: "absent" | "read-only"."""

    name: str
    process: str
    page: int = -1
    frame: int = -1
    source: int = -1
    count: int = 0
    cause: str = ""


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of a page table. ``frame`` is -1 while the page is not present."""

    frame: int = -1
    present: bool = False
    writable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class OsStep:
    """One operation: what it did, and the whole state after it. ``counts``: users of each frame."""

    index: int
    what: str
    process: str
    page: int
    events: tuple[OsEvent, ...]
    tables: dict[str, tuple[Entry, ...]]
    counts: tuple[int, ...]
    frames: tuple[str, ...]  # what is written in each frame, "" while free


@dataclass(slots=True, kw_only=True)
class OsWalk:
    """A played script: steps like those of a trace, so that a lesson can walk through it."""

    meta: dict[str, Any] = field(default_factory=dict)
    requests: list[Any] = field(default_factory=list)
    steps: list[OsStep] = field(default_factory=list)
    tokens: dict[int, bytes] = field(default_factory=dict)


class Machine:
    """Page tables and frames. Every method is one operation and returns what happened, in order."""

    def __init__(self, frames: int, order: Sequence[int] = ()) -> None:
        """``order``: the first free frames, in order; then the others. Raises ValueError without frames."""
        if frames < 1:
            raise ValueError(f"a machine of {frames} frames was asked for; it needs at least 1.")
        self.free = [*order, *(f for f in range(frames) if f not in order)]
        self.counts = [0] * frames
        self.content = [""] * frames
        self.tables: dict[str, list[Entry]] = {}
        self._events: list[OsEvent] = []

    def _note(self, name: str, process: str, **numbers: Any) -> None:
        self._events.append(OsEvent(name, process, **numbers))

    def _told(self) -> tuple[OsEvent, ...]:
        events, self._events = tuple(self._events), []
        return events

    def _entry(self, process: str, page: int) -> Entry:
        table = self.tables.get(process)
        if table is None or not 0 <= page < len(table):
            raise ValueError(f"process {process!r} has no page {page}: it was never mapped.")
        return table[page]

    def map(self, process: str, pages: int) -> tuple[OsEvent, ...]:
        """A process gets ``pages`` virtual pages, and not one frame."""
        if process in self.tables or pages < 1:
            raise ValueError(
                f"process {process!r} cannot be given {pages} pages: it exists, or that is none."
            )
        self.tables[process] = [Entry() for _ in range(pages)]
        self._note("map", process, count=pages)
        return self._told()

    def _take(self) -> int:
        if not self.free:
            raise ValueError("no frame is free; a real system would now write one out to disk.")
        return self.free.pop(0)

    def read(self, process: str, page: int) -> tuple[OsEvent, ...]:
        """Look at a page; the first time it is bound to a frame."""
        self._note("touch", process, page=page)
        self._present(process, page)
        return self._told()

    def _present(self, process: str, page: int) -> None:
        if self._entry(process, page).present:
            return
        self._note("fault", process, page=page, cause="absent")
        frame = self._take()
        self.counts[frame], self.content[frame] = 1, "0"
        self.tables[process][page] = Entry(frame, True, True)
        self._note("bind", process, page=page, frame=frame, count=1)

    def write(self, process: str, page: int, value: str) -> tuple[OsEvent, ...]:
        """Write into a page: bound at the first touch, copied when the frame is shared."""
        self._note("touch", process, page=page)
        self._present(process, page)
        entry = self._entry(process, page)
        if not entry.writable:
            self._note("fault", process, page=page, frame=entry.frame, cause="read-only")
            entry = self._own(process, page, entry)
        self.content[entry.frame] = value
        self._note("write", process, page=page, frame=entry.frame, count=self.counts[entry.frame])
        return self._told()

    def _own(self, process: str, page: int, entry: Entry) -> Entry:
        """The write was refused: copy a frame that others use, or give the right back to its only user."""
        if self.counts[entry.frame] == 1:
            owned = Entry(entry.frame, True, True)
            self._note("allow", process, page=page, frame=entry.frame, count=1)
        else:
            target = self._take()
            self.counts[entry.frame] -= 1
            self.counts[target], self.content[target] = 1, self.content[entry.frame]
            owned = Entry(target, True, True)
            left = self.counts[entry.frame]
            self._note("copy", process, page=page, frame=target, source=entry.frame, count=left)
        self.tables[process][page] = owned
        return owned

    def fork(self, parent: str, child: str) -> tuple[OsEvent, ...]:
        """The child gets the parent's table: same frames, counts up, nobody may write any more."""
        if child in self.tables or parent not in self.tables:
            raise ValueError(
                f"{parent!r} cannot fork {child!r}: no such parent, or the child exists already."
            )
        self._note("fork", parent)
        for page, entry in enumerate(self.tables[parent]):
            if entry.present:
                self.counts[entry.frame] += 1
                self.tables[parent][page] = Entry(entry.frame, True, False)
                self._note("share", child, page=page, frame=entry.frame, count=self.counts[entry.frame])
        self.tables[child] = list(self.tables[parent])
        return self._told()

    def exit(self, process: str) -> tuple[OsEvent, ...]:
        """The process ends: every count falls, and what nobody uses any more is free."""
        self._note("exit", process)
        for page, entry in enumerate(self.tables.pop(process)):
            if entry.present:
                self.counts[entry.frame] -= 1
                self._note("release", process, page=page, frame=entry.frame, count=self.counts[entry.frame])
                if not self.counts[entry.frame]:
                    self.content[entry.frame] = ""
                    self.free.append(entry.frame)
                    self._note("free", process, frame=entry.frame)
        return self._told()


Operation = tuple[str, str, int, str]  # what ("map", "write", ...), process, page or number, value or child
SCRIPT: tuple[Operation, ...] = (
    ("map", "P", 6, ""),
    ("write", "P", 0, "x"),
    ("write", "P", 0, "y"),
    ("write", "P", 3, "k"),
    ("fork", "P", 0, "Q"),
    ("read", "Q", 0, ""),
    ("write", "Q", 0, "z"),
    ("write", "P", 0, "w"),
    ("exit", "Q", 0, ""),
)


def play(
    script: Sequence[Operation] = SCRIPT, *, frames: int = 8, order: Sequence[int] = (5, 2, 6)
) -> OsWalk:
    """Play a script on a new machine; one step an operation. Raises the machine's ValueErrors."""
    machine, walk = Machine(frames, order), OsWalk(meta={"frames": frames})
    do: dict[str, Callable[[str, int, str], tuple[OsEvent, ...]]] = {
        "map": lambda process, pages, _: machine.map(process, pages),
        "read": lambda process, page, _: machine.read(process, page),
        "write": machine.write,
        "fork": lambda process, _, child: machine.fork(process, child),
        "exit": lambda process, _, __: machine.exit(process),
    }
    for what, process, page, value in script:
        events = do[what](process, page, value)
        walk.steps.append(
            OsStep(
                index=len(walk.steps), what=what, process=process, page=page, events=events,
                tables={name: tuple(table) for name, table in machine.tables.items()},
                counts=tuple(machine.counts), frames=tuple(machine.content),
            )
        )  # fmt: skip
    return walk
