"""The operating system's pages: table, fault on first touch, fork, copy on write; and what is different."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pages.parts.gates import Coming, Question, number_options, numbers_near, texts_by_key
from pages.parts.lessons import os_model
from pages.parts.lessons.common import choice
from pages.parts.lessons.lesson import Ask, Find, Lesson, Sight, Stop
from pages.parts.lessons.os_model import OsEvent, OsStep

ID = "os-pages"
RUN = "processes"


def find(name: str, *, without: str = "", nth: int = 1) -> Find:
    """The ``nth`` operation with an event ``name`` (and none of ``without``)."""

    def found(walk: Any) -> int | None:
        left = nth
        for index, step in enumerate(walk.steps):
            names = [event.name for event in step.events]
            if name in names and without not in names:
                left -= 1
                if not left:
                    return index
        return None

    return found


def last(walk: Any) -> int | None:
    """The end of the script."""
    return len(walk.steps) - 1 if walk.steps else None


def _events(step: OsStep, *names: str) -> list[OsEvent]:
    return [event for event in step.events if event.name in names]


def numbers(sight: Sight) -> Mapping[str, object]:
    """What the operation did: frames, counts, faults."""
    step: OsStep = sight.step
    touched = _events(step, "bind", "copy", "allow", "write", "share")
    one = touched[0] if touched else OsEvent("", step.process)
    copies = _events(step, "copy")
    table = step.tables.get(step.process, ())
    return {
        "p": step.process,
        "page": step.page,
        "pages": len(table),
        "present": sum(entry.present for entry in table),
        "frame": copies[0].frame if copies else one.frame,
        "source": copies[0].source if copies else one.frame,
        "left": copies[0].count if copies else one.count,
        "n": len(_events(step, "share")),
        "faults": len(_events(step, "fault")),
        "used": sum(1 for count in step.counts if count),
        "freed": len(_events(step, "free")),
        "kept": len([e for e in _events(step, "release") if e.count]),
        "frames": len(step.counts),
        "count": max(step.counts),
    }


def frames_taken(coming: Coming) -> Question | None:
    """How many frames does the coming operation take?"""
    truth = sum(event.name in ("bind", "copy") for event in coming.events)  # type: ignore[attr-defined]
    one: Any = coming.events[0] if coming.events else None
    if one is None or coming.before is None:
        return None
    before: Any = coming.before
    fork = one.name == "fork"
    table = before.tables.get(one.process, ())
    entry = table[one.page] if 0 <= one.page < len(table) else None
    given = {
        "p": one.process, "page": one.page, "n": truth, "present": sum(e.present for e in table),
        "frame": entry.frame if entry is not None else -1,
        "count": before.counts[entry.frame] if entry is not None and entry.present else 0,
    }  # fmt: skip
    part = "fork" if fork else "touch"
    why = "fork" if fork else coming.events[-2].name if len(coming.events) > 1 else "touch"  # type: ignore[attr-defined]
    wrong = (int(str(given["present"])), len(table), 1, 0)
    return Question(
        question=coming.say(f"lesson.{ID}.gate.{part}", **given),
        options=number_options(numbers_near(truth, wrong)),
        truth=truth,
        because=coming.say(f"lesson.{ID}.gate.because.{why}", **given),
    )


def what_happens(coming: Coming) -> Question | None:
    """A write: a copy, a new right, or just the write?"""
    names = [event.name for event in coming.events]  # type: ignore[attr-defined]
    if "write" not in names or coming.before is None:
        return None
    before: Any = coming.before
    one: Any = coming.events[0]
    truth = "copy" if "copy" in names else "bind" if "bind" in names else "place"
    frame = before.tables[one.process][one.page].frame
    done = [e for e in coming.events if e.name in ("copy", "bind", "write")]  # type: ignore[attr-defined]
    given = {"p": one.process, "page": one.page, "frame": frame, "target": done[0].frame}
    given["count"] = before.counts[frame] if frame >= 0 else 0
    return Question(
        question=coming.say(f"lesson.{ID}.gate.write", **given),
        options=texts_by_key(coming.lang, f"lesson.{ID}.gate.write", ("copy", "place", "bind"), **given),
        truth=truth,
        because=coming.say(f"lesson.{ID}.gate.write.because.{truth}", **given),
    )


def _stop(name: str, where: Find, **more: Any) -> Stop:
    return Stop(name=name, run=RUN, find=where, **({"numbers": numbers, "picture": "os-pages"} | more))


LESSON = Lesson(
    id=ID,
    ideas=(6, 10),
    own=False,
    made={RUN: os_model.play},
    stops=(
        _stop("map", find("map")),
        _stop("fault", find("bind"), gate=frames_taken),
        _stop("again", find("write", without="fault")),
        _stop("fork", find("fork"), gate=frames_taken, says_why=True),
        _stop("copy", find("copy"), gate=what_happens, says_why=True),
        _stop("alone", find("allow"), gate=what_happens, says_why=True),
        _stop("exit", find("exit")),
        _stop("same", last, picture="analogy-same"),
        _stop("breaks", last, picture="analogy-breaks"),
    ),
    questions=(
        Ask(run=RUN, find=find("map"), make=choice(ID, "map", "none", ("none", "all", "half"), numbers)),
        Ask(run=RUN, find=last, make=choice(ID, "mmu", "kernel", ("kernel", "mmu", "os"), numbers)),
        Ask(run=RUN, find=last, make=choice(ID, "full", "preempt", ("preempt", "disk", "grow"), numbers)),
    ),
)
