"""The small operating system: exact frames, counts, faults; processes see memory of their own."""

from __future__ import annotations

import random

import pytest

from pages.parts.lessons.os_model import Entry, Machine, OsStep, play


def names(events: tuple) -> list[str]:
    return [event.name for event in events]


def held(machine: Machine) -> None:
    """Counts are the table entries that name a frame; free is what nobody names; who may write is alone."""
    entries = [entry for table in machine.tables.values() for entry in table if entry.present]
    for frame, count in enumerate(machine.counts):
        assert count == sum(entry.frame == frame for entry in entries)
        assert (frame in machine.free) == (count == 0)
        assert count or not machine.content[frame]
    assert len(set(machine.free)) == len(machine.free)
    assert all(machine.counts[entry.frame] == 1 for entry in entries if entry.writable)
    absent = [e for table in machine.tables.values() for e in table if not e.present]
    assert all(entry == Entry() for entry in absent)


def test_mapping_takes_no_frame_and_the_first_touch_takes_one() -> None:
    machine = Machine(8, (5, 2))
    machine.map("P", 6)
    assert machine.counts == [0] * 8
    assert names(machine.write("P", 4, "x")) == ["touch", "fault", "bind", "write"]
    assert machine.tables["P"][4] == Entry(5, True, True) and machine.counts[5] == 1
    assert names(machine.write("P", 4, "y")) == ["touch", "write"]
    assert names(machine.read("P", 0)) == ["touch", "fault", "bind"]
    assert machine.tables["P"][0].frame == 2


def test_fork_shares_and_the_first_writer_copies_and_the_last_does_not() -> None:
    machine = Machine(8, (5, 2, 6))
    machine.map("P", 3)
    machine.write("P", 0, "a")
    machine.write("P", 1, "b")
    shares = [event for event in machine.fork("P", "Q") if event.name == "share"]
    assert [(event.frame, event.count) for event in shares] == [(5, 2), (2, 2)]
    assert machine.tables["P"] == machine.tables["Q"]
    copied = machine.write("Q", 0, "c")
    assert names(copied) == ["touch", "fault", "copy", "write"]
    assert (copied[2].source, copied[2].frame, copied[2].count) == (5, 6, 1)
    alone = machine.write("P", 0, "d")
    assert names(alone) == ["touch", "fault", "allow", "write"]
    assert machine.content[5] == "d" and machine.content[6] == "c"
    assert machine.counts[2] == 2 and not machine.tables["P"][1].writable
    assert names(machine.exit("Q")) == ["exit", "release", "free", "release"]
    assert machine.counts == [0, 0, 1, 0, 0, 1, 0, 0]


def test_what_cannot_be_done_is_said_in_a_sentence() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        Machine(0)
    machine = Machine(1)
    machine.map("P", 2)
    machine.write("P", 0, "a")
    with pytest.raises(ValueError, match="no frame is free"):
        machine.write("P", 1, "b")
    with pytest.raises(ValueError, match="no page 7"):
        machine.read("P", 7)
    with pytest.raises(ValueError, match="exists"):
        machine.map("P", 1)
    with pytest.raises(ValueError, match="no such parent"):
        machine.fork("X", "Q")


@pytest.mark.parametrize("seed", range(12))
def test_every_process_sees_its_own_memory(seed: int) -> None:
    """Against processes whose memory is copied as a whole when they fork."""
    rng = random.Random(seed)
    machine, seen = Machine(64), {"P0": dict.fromkeys(range(4), "0")}
    machine.map("P0", 4)
    for number in range(1, 60):
        process = rng.choice(list(seen))
        what = rng.choice(("write", "write", "read", "fork", "exit"))
        page = rng.randrange(4)
        if what == "write":
            machine.write(process, page, str(number))
            seen[process][page] = str(number)
        elif what == "read":
            machine.read(process, page)
        elif what == "fork" and len(seen) < 8:
            machine.fork(process, f"P{number}")
            seen[f"P{number}"] = dict(seen[process])
        elif what == "exit" and len(seen) > 1:
            machine.exit(process)
            del seen[process]
        held(machine)
        for name, pages in seen.items():
            for at, entry in enumerate(machine.tables[name]):
                assert pages[at] == (machine.content[entry.frame] if entry.present else "0")


def test_the_script_shows_each_thing_once() -> None:
    walk = play()
    told = [names(step.events) for step in walk.steps]
    assert [step.index for step in walk.steps] == list(range(9))
    assert ["bind" in events for events in told] == [False, True, False, True] + [False] * 5
    assert [k for k, events in enumerate(told) if "copy" in events] == [6]
    assert [k for k, events in enumerate(told) if "allow" in events] == [7]
    first: OsStep = walk.steps[0]
    assert sum(first.counts) == 0 and len(first.tables["P"]) == 6
