"""What the scheduler remembers between steps: the three queues, and what is asked for and not done yet."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from core.config import EngineConfig
from core.engine.groups import Group
from core.memory.events import Event
from core.memory.paged import PagedMemory
from core.memory.sequence import Sequence
from core.memory.usage import paged_usage
from core.memory.views import Usage


@dataclass(slots=True)
class State:
    """Groups by where they are. All queues are in order of arrival.

    Whoever is preempted arrived later than everybody who runs, and earlier than everybody who waits.
    """

    config: EngineConfig
    memory: PagedMemory
    groups: dict[str, Group] = field(default_factory=dict)  # every request ever accepted
    future: list[Group] = field(default_factory=list)  # handed in, not arrived yet
    waiting: deque[Group] = field(default_factory=deque)
    preempted: deque[Group] = field(default_factory=deque)
    running: list[Group] = field(default_factory=list)
    cancels: list[str] = field(default_factory=list)
    refusals: list[Event] = field(default_factory=list)
    index: int = 0  # of the next step
    arrivals: int = 0

    @property
    def watermark_blocks(self) -> int:
        """Blocks that an admission must leave free while others run, rounded down."""
        return int(self.config.watermark * self.config.num_blocks)

    @property
    def num_running(self) -> int:
        """Sequences that run, or will when what runs has all its answers or beams."""
        return sum(group.width for group in self.running)

    def usage(self) -> Usage:
        """The paged figures now."""
        return paged_usage(
            self.memory.pool,
            copied=self.memory.copied_tokens,
            running=sum(len(g.live) for g in self.running),
            waiting=len(self.waiting) + len(self.preempted),
        )

    def set_state(self, seq: Sequence, to: str) -> None:
        """Change a sequence's state and remember to draw it anew."""
        seq.state = to  # type: ignore[assignment]
        self.memory.touch(seq)

    def drop(self, group: Group) -> None:
        """Take a group out of whichever queue it is in."""
        for queue in (self.running, self.preempted, self.waiting, self.future):
            if group in queue:
                queue.remove(group)

    def stuck(self) -> str:
        """One sentence for a step in which nothing moves although somebody is there."""
        pool = self.memory.pool
        return (
            f"No progress at step {self.index}: {len(self.running)} requests run, {len(self.preempted)} are "
            f"preempted, {len(self.waiting)} wait, and of {pool.num_blocks} blocks {pool.num_used} are held."
        )
