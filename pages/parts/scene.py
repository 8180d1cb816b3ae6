"""One step as narration needs it: who is called what, and who held which block when each event happened."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from core.memory import events as ev
from core.memory.events import Event
from core.memory.views import RequestView, SequenceView
from core.trace.step import Step, Trace
from pages.parts.labels import letter, token_label


@dataclass(slots=True)
class Holders:
    """Which sequences list each block, and how many blocks are free, moved along the events of a step."""

    lists: dict[int, list[str]] = field(default_factory=dict)
    cached: set[int] = field(default_factory=set)
    num_blocks: int = 0

    @classmethod
    def after(cls, step: Step | None, num_blocks: int) -> Holders:
        """The state that ``step`` left behind; an empty pool for None."""
        holders = cls(num_blocks=num_blocks)
        for sequence in step.sequences if step else ():
            for block in sequence.block_table:
                holders.lists.setdefault(block, []).append(sequence.id)
        holders.cached = {block.id for block in step.blocks if block.state == "cached"} if step else set()
        return holders

    @property
    def free(self) -> int:
        """Blocks that hold nothing, neither used nor kept for reuse."""
        return self.num_blocks - sum(1 for owners in self.lists.values() if owners) - len(self.cached)

    def ref(self, block: int) -> int:
        """Reference count: how many block tables list the block."""
        return len(self.lists.get(block, ()))

    def apply(self, event: Event) -> None:
        """Move on by one event; events that touch no block change nothing."""
        match event:
            case ev.Allocate(block, sequence, _) | ev.SwapIn(block, _, sequence, _):
                self.lists[block] = [sequence]
            case ev.Share(block, sequence, _, _, _):
                self.cached.discard(block)
                self.lists.setdefault(block, []).append(sequence)
            case ev.Copy(source, target, sequence, _, _):
                self._drop(source, sequence)
                self.lists[target] = [sequence]
            case ev.Release(block, sequence, _):
                self._drop(block, sequence)
            case ev.Cache(block):
                self.cached.add(block)
            case ev.Evict(block):
                self.cached.discard(block)

    def _drop(self, block: int, sequence: str) -> None:
        owners = self.lists.get(block, [])
        if sequence in owners:
            owners.remove(sequence)


@dataclass(slots=True)
class Scene:
    """A step, the step before it and what the trace says around them, with short names for everything."""

    step: Step
    previous: Step | None
    lang: str
    trace: Trace | None = None
    names: dict[str, str] = field(init=False)
    now: dict[str, SequenceView] = field(init=False)
    before: dict[str, SequenceView] = field(init=False)

    def __post_init__(self) -> None:
        self.names = {sequence.id: letter(place) for place, sequence in enumerate(self.step.sequences)}
        self.now = {sequence.id: sequence for sequence in self.step.sequences}
        self.before = {s.id: s for s in self.previous.sequences} if self.previous else {}

    @property
    def num_blocks(self) -> int:
        """Size of the pool; 0 where no trace says it."""
        return int(self.trace.meta.get("num_blocks", 0)) if self.trace else 0

    @property
    def block_size(self) -> int:
        """Tokens a block; 0 where no trace says it."""
        return int(self.trace.meta.get("block_size", 0)) if self.trace else 0

    def name(self, sequence: str) -> str:
        """The letter of a sequence; its id when the step does not know it."""
        return self.names.get(sequence, sequence)

    def join(self, sequences: list[str]) -> str:
        """Letters in a row: "A, B and C" / "A、B、C"; more than five as "A, B, … and P"."""
        letters = [self.name(sequence) for sequence in sequences]
        if len(letters) > 5:
            letters = [*letters[:3], "…", letters[-1]]
        if self.lang == "zh" or len(letters) < 2:
            return "、".join(letters)
        return f"{', '.join(letters[:-1])} and {letters[-1]}"

    def numbers(self, values: list[int]) -> str:
        """Block numbers in a row, cut after six."""
        comma = "、" if self.lang == "zh" else ", "
        shown = comma.join(str(value) for value in values[:6])
        return f"{shown}{comma}…" if len(values) > 6 else shown

    def token(self, token_id: int) -> str:
        """The label of a token, in quotes."""
        data = self.trace.tokens.get(token_id) if self.trace else None
        shown = f"#{token_id}" if data is None else token_label(data).strip()
        return f"“{shown}”" if self.lang == "zh" else f"‘{shown}’"

    def request(self, request: str) -> RequestView | None:
        """The request with this id, where the trace has it."""
        found = (r for r in self.trace.requests if r.id == request) if self.trace else iter(())
        return next(found, None)

    def request_name(self, request: str) -> str:
        """What the screen calls a request: its id, with the letters of its sequences once it has any."""
        mine = [s.id for s in self.step.sequences if s.request == request]
        return f"{request} ({self.join(mine)})" if mine else request

    def walk(self) -> Iterator[tuple[Event, Holders]]:
        """The events in order, each with the holders just before it (the same object, moved along)."""
        holders = Holders.after(self.previous, self.num_blocks)
        for event in self.step.events:
            yield event, holders
            holders.apply(event)

    def holders_at(self, event: Event) -> Holders:
        """The holders just before ``event``; those after the step when it is not one of its events."""
        holders = Holders.after(self.previous, self.num_blocks)
        for other in self.step.events:
            if other is event:
                break
            holders.apply(other)
        return holders
