"""The picture after the last commit: frozen views, of which only what has changed is made anew."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from core.memory.paged import PagedMemory
from core.memory.views import BlockView, SequenceView, Usage


class Snapshot:
    """Views of sequences, blocks and host blocks. ``update`` costs only what changed since the last one."""

    def __init__(self, usage: Usage) -> None:
        self.usage = usage
        self._sequences: dict[str, SequenceView] = {}  # in order of creation
        self._blocks: dict[int, BlockView] = {}
        self._host: dict[int, BlockView] = {}
        self._tuples: dict[str, tuple[object, ...]] = {}

    def update(self, memory: PagedMemory, usage: Usage) -> None:
        """Take over what changed. Marks of change in ``memory`` are cleared."""
        for seq in memory.touched.values():
            self._sequences[seq.id] = seq.picture()
        memory.touched = {}
        _refresh(self._blocks, memory.pool.changed, memory.pool.view)
        _refresh(self._host, memory.host.changed, memory.host.view)
        self.usage = usage
        self._tuples = {}

    def sequences(self) -> tuple[SequenceView, ...]:
        """All sequences ever created, in order of creation."""
        return self._once("sequences", lambda: self._sequences.values())  # type: ignore[return-value]

    def blocks(self) -> tuple[BlockView, ...]:
        """All blocks that are not free, in order of id."""
        return self._once("blocks", lambda: _sorted(self._blocks))  # type: ignore[return-value]

    def host_blocks(self) -> tuple[BlockView, ...]:
        """All host blocks that are not free, in order of id."""
        return self._once("host", lambda: _sorted(self._host))  # type: ignore[return-value]

    def _once(self, name: str, make: Callable[[], Iterable[object]]) -> tuple[object, ...]:
        if name not in self._tuples:
            self._tuples[name] = tuple(make())
        return self._tuples[name]


def _sorted(views: dict[int, BlockView]) -> Iterable[BlockView]:
    return (views[block] for block in sorted(views))


def _refresh(views: dict[int, BlockView], changed: set[int], view: Callable[[int], BlockView | None]) -> None:
    for block in changed:
        new = view(block)
        if new is None:
            views.pop(block, None)
        elif views.get(block) != new:
            views[block] = new
    changed.clear()
