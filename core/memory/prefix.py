"""Finding full blocks again by their content: a tree of blocks, hashed over all tokens before them.

A node stands for one full block in one context. Its key is (parent node, tokens): Python's dict hashes that
pair and, on a hit, compares both, so that a collision of hashes never gives a wrong block. A parent's number
stands for everything before it, which makes the hash a chain. Several physical blocks may carry the same
node: duplicates stay where they are, so that block tables only ever grow at their end.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq
from dataclasses import dataclass, field
from typing import Literal

ROOT = 0  # the empty text

HitEnd = Literal["partial", "parts", "cap", "absent"]


@dataclass(frozen=True, slots=True)
class Hit:
    """What a look-up found and why it went no further.

    ``why``: "partial": only full blocks are shared, the rest has ``number`` of ``block_size`` tokens;
    "parts": the texts part at token ``number`` (counted from 0); "cap": the next block is there too, but at
    least one token must be computed, token ``number``; "absent": nothing continues the text at ``number``.
    """

    blocks: tuple[int, ...]
    tokens: int
    why: HitEnd
    number: int
    block_size: int


@dataclass(slots=True)
class _Node:
    parent: int
    tokens: tuple[int, ...]
    blocks: dict[int, None] = field(default_factory=dict)  # in order of registration


class PrefixIndex:
    """Content -> physical blocks. Registers only what it is told exists; all operations touch one block."""

    def __init__(self, block_size: int) -> None:
        self.block_size = block_size
        self._ids: dict[tuple[int, tuple[int, ...]], int] = {}
        self._nodes: dict[int, _Node] = {}
        self._children: dict[int, dict[int, None]] = {}
        self._node_of: dict[int, int] = {}
        self._next = ROOT + 1

    def __contains__(self, block: int) -> bool:
        return block in self._node_of

    def __len__(self) -> int:
        return len(self._node_of)

    def node_of(self, block: int) -> int | None:
        """The node that a registered block carries."""
        return self._node_of.get(block)

    def register(self, block: int, before: int | None, tokens: tuple[int, ...]) -> None:
        """Publish a full block whose keys and values exist; ``before`` is the block in front of it.

        Registering a block again is ignored. A block whose predecessor is not registered stays private.
        """
        parent = ROOT if before is None else self._node_of.get(before)
        if block in self._node_of or parent is None:
            return
        key = (parent, tokens)
        node = self._ids.get(key)
        if node is None:
            node = self._ids[key] = self._next
            self._next += 1
            self._nodes[node] = _Node(parent, tokens)
            self._children.setdefault(parent, {})[node] = None
        self._nodes[node].blocks[block] = None
        self._node_of[block] = node

    def forget(self, block: int) -> None:
        """Take a block out; the last block of a node takes the node with it. Unknown blocks are ignored."""
        node = self._node_of.pop(block, None)
        if node is None:
            return
        entry = self._nodes[node]
        del entry.blocks[block]
        if entry.blocks:
            return
        del self._nodes[node], self._ids[entry.parent, entry.tokens]
        siblings = self._children[entry.parent]
        del siblings[node]
        if not siblings:
            del self._children[entry.parent]

    def lookup(self, token_ids: Seq[int], max_blocks: int) -> list[int]:
        """The longest run of registered blocks that spells the start of ``token_ids``, up to ``max_blocks``.

        Of duplicates the one registered first is given.
        """
        size, node, found = self.block_size, ROOT, []
        for start in range(0, max_blocks * size, size):
            child = self._ids.get((node, tuple(token_ids[start : start + size])))
            if child is None:
                break
            node = child
            found.append(next(iter(self._nodes[node].blocks)))
        return found

    def explain(self, token_ids: Seq[int]) -> Hit:
        """The hit that a request with this prompt would get now, and why it ends there."""
        size, total = self.block_size, len(token_ids)
        blocks = self.lookup(token_ids, max(total - 1, 0) // size)
        tokens = len(blocks) * size
        node = self._node_of[blocks[-1]] if blocks else ROOT
        rest = tuple(token_ids[tokens : tokens + size])
        if len(rest) == size and (node, rest) in self._ids:
            return Hit(tuple(blocks), tokens, "cap", total - 1, size)
        others = [self._nodes[child].tokens for child in self._children.get(node, ())]
        common = max((_common(other, rest) for other in others), default=0)
        if len(rest) < size and (not others or common == len(rest)):
            return Hit(tuple(blocks), tokens, "partial", len(rest), size)
        return Hit(tuple(blocks), tokens, "parts" if others else "absent", tokens + common, size)


def _common(a: Seq[int], b: Seq[int]) -> int:
    """Length of the common start."""
    n = 0
    for x, y in zip(a, b, strict=False):
        if x != y:
            break
        n += 1
    return n
