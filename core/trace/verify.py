"""What must hold after every step of a trace: the nine rules of the trace format, each checked by itself.

Rules 1, 2, 3, 5 and 7 are read off the recorded pictures. Rules 4, 6 and 8 come from replaying the events,
and rule 6 holds replay and picture against each other. Rule 9 compares two traces of the same run.
Time grows with the length of the file, not faster.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import zip_longest

from core.memory.views import BlockView, SequenceView
from core.trace.pictures import ReplayedBlock, ReplayedSequence
from core.trace.replay import Replay
from core.trace.step import Step, TimeMs, Trace


@dataclass(frozen=True, slots=True)
class Violation:
    """The first rule that does not hold: which, after which step (None: in no step), for whom, and why."""

    rule: int
    step: int | None
    where: str
    sentence: str

    def __str__(self) -> str:
        after = "" if self.step is None else f" after step {self.step}"
        return f"rule {self.rule} does not hold{after}: {self.sentence}."


Finding = tuple[str, str]  # where, sentence


def verify(trace: Trace) -> Violation | None:
    """The first rule, in the first step, that does not hold; None when rules 1 to 8 all hold."""
    state = Replay(trace.meta, trace.requests)
    for step in trace.steps:
        violation = verify_step(state, step)
        if violation is not None:
            return violation
    return None


def verify_step(state: Replay, step: Step) -> Violation | None:
    """The first rule that does not hold after ``step``; moves ``state`` (the replay of those before) on."""
    faults = state.apply(step.events)
    found = {f.rule: (f.where, f.sentence) for f in faults if f.event == faults[0].event}
    picture = _Picture(step, state.block_size, state.num_blocks)
    checks: list[tuple[int, Callable[[], Iterator[Finding]]]] = [
        (1, picture.one_state), (2, picture.counts), (3, picture.tables), (5, picture.tokens),
        (6, partial(_replayed, state, step)), (7, picture.all_given_back),
    ]  # fmt: skip
    for rule, check in checks:
        finding = next(check(), None)
        if finding is not None and (rule != 6 or 6 not in found):
            found[rule] = finding
    if found:
        rule = min(found)
        return Violation(rule, step.index, *found[rule])
    return None


class _Picture:
    """The rules that one recorded picture must keep by itself. Each check yields what it finds wrong."""

    def __init__(self, step: Step, block_size: int, num_blocks: int) -> None:
        self.block_size, self.num_blocks = block_size, num_blocks
        self.sequences = step.sequences
        self.listed = step.blocks
        self.blocks = {block.id: block for block in step.blocks}

    def one_state(self) -> Iterator[Finding]:
        """Rule 1: every block is in exactly one of used, cached, free; ids are 0 to num_blocks - 1."""
        seen: set[int] = set()
        for block in self.listed:
            where = f"block {block.id}"
            if not 0 <= block.id < self.num_blocks:
                yield where, f"{where} is listed, but ids are 0 to {self.num_blocks - 1}"
            if block.id in seen:
                yield where, f"{where} is listed twice"
            seen.add(block.id)
            if (block.state == "cached") != (block.ref == 0):
                yield where, f"{where} is {block.state} at ref {block.ref}"
        for s in self.sequences:
            for block_id in s.block_table:
                if not 0 <= block_id < self.num_blocks:
                    yield s.id, f"{s.id} lists block {block_id}, but ids are 0 to {self.num_blocks - 1}"

    def counts(self) -> Iterator[Finding]:
        """Rule 2: ref = how many block tables list the block; a swapped sequence's table lists none."""
        listed: Counter[int] = Counter()
        for s in self.sequences:
            listed.update(s.block_table)
            if s.state == "swapped" and s.block_table:
                yield s.id, f"{s.id} is swapped out, yet its table lists {len(s.block_table)} blocks"
        for block_id in sorted(listed.keys() | self.blocks.keys()):
            block = self.blocks.get(block_id)
            ref, tables = block.ref if block else 0, listed[block_id]
            if ref != tables:
                what = f"block {block_id} has ref {ref}" if block else f"block {block_id} is free"
                yield f"block {block_id}", f"{what}, but {_tables(tables)}"

    def tables(self) -> Iterator[Finding]:
        """Rule 3: len(block_table) = ceil(written / block_size); all of its blocks but the last are full.

        A swapped sequence has its blocks on the host, and a finished one has given its blocks back.
        """
        for s in self.sequences:
            need = -(-s.written // self.block_size)
            gone = not s.block_table and s.state in ("swapped", "finished")
            if len(s.block_table) != need and not gone:
                table = f"{len(s.block_table)} blocks in its table"
                yield s.id, f"{s.id} has {table} for {s.written} written tokens; it must have {need}"
            for block_id in s.block_table[:-1]:
                filled = self.blocks[block_id].filled if block_id in self.blocks else 0
                if filled != self.block_size:
                    slots = f"{filled} of {self.block_size} slots filled"
                    yield s.id, f"block {block_id} has {slots}, but is not the last of the table of {s.id}"

    def tokens(self) -> Iterator[Finding]:
        """Rule 5: a block's token_ids are those of every sequence that lists it, at those positions."""
        for block in self.listed:
            if block.filled != len(block.token_ids):
                where = f"block {block.id}"
                yield where, f"{where} has {block.filled} slots filled, but {len(block.token_ids)} tokens"
        for s in self.sequences:
            for logical, block_id in enumerate(s.block_table):
                start = logical * self.block_size
                theirs = s.token_ids[start : min(start + self.block_size, s.written)]
                if block_id in self.blocks and self.blocks[block_id].token_ids != theirs:
                    holds = f"block {block_id} holds tokens {_few(self.blocks[block_id].token_ids)}"
                    yield f"block {block_id}", f"{holds}, but {s.id} has {_few(theirs)} from position {start}"

    def all_given_back(self) -> Iterator[Finding]:
        """Rule 7: when all sequences have finished, every ref is 0."""
        if all(s.state == "finished" for s in self.sequences):
            for block in self.listed:
                if block.ref:
                    where = f"block {block.id}"
                    yield where, f"all sequences have finished, but {where} has ref {block.ref}"


def _replayed(state: Replay, step: Step) -> Iterator[Finding]:
    """Rule 6: replaying the events from step 0 gives the same sequences and blocks."""
    pictured = {s.id: s for s in step.sequences}
    for name in state.sequences | pictured:
        difference = _sequence_differs(state.sequences.get(name), pictured.get(name))
        if difference:
            yield name, f"replaying the events gives {name} {difference}"
    for kind, mine, theirs in (
        ("block", state.blocks, {b.id: b for b in step.blocks}),
        ("host block", state.host, {b.id: b for b in step.host_blocks}),
    ):
        for number in sorted(mine.keys() | theirs.keys()):
            difference = _block_differs(mine.get(number), theirs.get(number))
            if difference:
                yield f"{kind} {number}", f"replaying the events gives {kind} {number} {difference}"


def _sequence_differs(mine: ReplayedSequence | None, theirs: SequenceView | None) -> str:
    if mine is None or theirs is None:
        waiting = mine.state == "waiting" if mine else theirs is not None and theirs.state == "waiting"
        # Whether a request that waits has its sequences yet, the format leaves open.
        told, drawn = ("state " + mine.state if mine else "not at all"), ("it" if theirs else "none")
        return "" if waiting else f"{told}, the picture has {drawn}"
    pairs: tuple[tuple[str, object, object], ...] = (
        ("state", mine.state, theirs.state),
        ("request", mine.request, theirs.request),
        ("parent", mine.parent, theirs.parent),
        ("written", mine.written, theirs.written),
        ("block table", tuple(mine.table), theirs.block_table),
        ("tokens", tuple(mine.tokens), theirs.token_ids),
    )
    return _first_unlike(pairs)


def _first_unlike(pairs: Iterable[tuple[str, object, object]]) -> str:
    for what, replayed, drawn in pairs:
        if replayed != drawn:
            return f"{what} {_few(replayed)}, the picture has {_few(drawn)}"
    return ""


def _block_differs(mine: ReplayedBlock | None, theirs: BlockView | None) -> str:
    if mine is None or theirs is None:
        here, there = ("free" if block is None else "in use" for block in (mine, theirs))
        return f"{here}, the picture has it {there}"
    pairs: tuple[tuple[str, object, object], ...] = (
        ("state", "cached" if mine.cached else "used", theirs.state),
        ("ref", mine.ref, theirs.ref),
        ("filled", len(mine.tokens), theirs.filled),
        ("tokens", tuple(mine.tokens), theirs.token_ids),
    )
    return _first_unlike(pairs)


def _few(value: object) -> str:
    """A value for a sentence: long lists by their end, which is where runs differ."""
    if not isinstance(value, tuple):
        return str(value)
    shown = ", ".join(map(str, value[-6:]))
    return f"[{'… ' if len(value) > 6 else ''}{shown}]"


def _tables(count: int) -> str:
    return f"{count} block tables list it" if count != 1 else "1 block table lists it"


def first_difference(a: Trace, b: Trace) -> Violation | None:
    """Rule 9: the same configuration, seed and device give the same trace but for ``time_ms``."""
    for what in ("meta", "requests", "tokens"):
        if getattr(a, what) != getattr(b, what):
            return Violation(9, None, what, f"{what} of the two traces differ")
    for index, (left, right) in enumerate(zip_longest(a.steps, b.steps)):
        if left is None or right is None:
            lengths = f"one trace has {len(a.steps)} steps, the other {len(b.steps)}"
            return Violation(9, index, "steps", lengths)
        if replace(left, time_ms=TimeMs()) != replace(right, time_ms=TimeMs()):
            parts = ("kind", "events", "sequences", "blocks", "host_blocks", "usage", "proof")
            part = next((p for p in parts if getattr(left, p) != getattr(right, p)), "index")
            return Violation(9, index, part, f"{part} of the two traces differ")
    return None


def same_but_for_times(a: Trace, b: Trace) -> bool:
    """Whether two traces are the same but for how long their steps took (rule 9)."""
    return first_difference(a, b) is None
