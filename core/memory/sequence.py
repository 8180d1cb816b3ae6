"""A sequence as the allocator sees it: its tokens, how many are written, and its block table."""

from __future__ import annotations

from dataclasses import dataclass, field

from core.memory.views import SequenceState, SequenceView


@dataclass(slots=True, eq=False)
class Sequence:
    """One answer (or beam) of a request. Mutable; only its allocator and its scheduler touch it.

    ``len(token_ids)`` and ``written`` differ by one while it decodes: a sampled token's keys and values are
    written in the next step. ``limit``: the most slots that it can ever fill.
    """

    id: str
    request: str
    parent: str | None
    limit: int
    token_ids: list[int]
    state: SequenceState = "waiting"
    written: int = 0
    table: list[int] = field(default_factory=list)
    host_table: list[int] = field(default_factory=list)  # while swapped out
    registered: int = 0  # leading blocks that have been offered to the prefix index
    logprob: float | None = None
    table_view: tuple[int, ...] | None = None  # frozen copy of ``table``, None when it has changed
    view: SequenceView | None = None  # the picture after the last commit

    @property
    def pending(self) -> int:
        """Tokens that are known but not written yet."""
        return len(self.token_ids) - self.written

    @property
    def block_table(self) -> tuple[int, ...]:
        """The physical blocks in logical order, frozen and shared until the table changes."""
        if self.table_view is None:
            self.table_view = tuple(self.table)
        return self.table_view

    def picture(self) -> SequenceView:
        """A frozen view; parts that have not changed are those of the view before."""
        old, tokens = self.view, self.token_ids
        same = old is not None and len(old.token_ids) == len(tokens)  # tokens are only ever appended
        self.view = SequenceView(
            id=self.id,
            request=self.request,
            parent=self.parent,
            state=self.state,
            token_ids=old.token_ids if same and old is not None else tuple(tokens),
            written=self.written,
            block_table=self.block_table,
            logprob=self.logprob,
        )
        return self.view


def common_prefix(a: list[int], b: list[int]) -> int:
    """How many tokens two texts have in common from their start."""
    limit = min(len(a), len(b))
    if a[:limit] == b[:limit]:
        return limit
    return next(i for i in range(limit) if a[i] != b[i])
