"""Blocks found by content: the whole past counts, duplicates stay, and a hit can say why it ended."""

from core.memory.prefix import PrefixIndex


def chain(index: PrefixIndex, blocks: list[int], tokens: list[int]) -> None:
    size = index.block_size
    for i, block in enumerate(blocks):
        before = blocks[i - 1] if i else None
        index.register(block, before, tuple(tokens[i * size : (i + 1) * size]))


def test_the_same_tokens_after_another_past_are_another_block() -> None:
    index = PrefixIndex(2)
    chain(index, [5, 6], [1, 1, 2, 2])
    chain(index, [7, 8], [9, 9, 2, 2])
    assert index.lookup([1, 1, 2, 2], 2) == [5, 6]
    assert index.lookup([9, 9, 2, 2], 2) == [7, 8]
    assert index.lookup([2, 2, 2, 2], 2) == []
    assert index.lookup([1, 1, 2, 2], 1) == [5]


def test_a_hash_alone_is_never_believed() -> None:
    """hash(-1) == hash(-2) in CPython; the tokens are compared all the same."""
    index = PrefixIndex(1)
    index.register(0, None, (-1,))
    assert hash((0, (-1,))) == hash((0, (-2,)))
    assert index.lookup([-2], 1) == []
    assert index.lookup([-1], 1) == [0]


def test_duplicates_stay_and_the_first_is_given() -> None:
    index = PrefixIndex(2)
    chain(index, [3, 4], [1, 2, 3, 4])
    chain(index, [8, 9], [1, 2, 3, 4])
    assert len(index) == 4
    assert index.lookup([1, 2, 3, 4], 2) == [3, 4]
    index.forget(4)
    assert index.lookup([1, 2, 3, 4], 2) == [3, 9]
    index.forget(9)
    assert index.lookup([1, 2, 3, 4], 2) == [3]
    index.forget(9)  # already gone
    assert len(index) == 2


def test_a_block_behind_an_unknown_one_stays_private() -> None:
    index = PrefixIndex(2)
    index.register(1, 0, (3, 4))
    assert 1 not in index and len(index) == 0


def test_why_a_hit_ended() -> None:
    index = PrefixIndex(4)
    assert index.explain([1, 2, 3, 4, 5]).why == "absent"
    chain(index, [7, 3], [1, 2, 3, 4, 5, 6, 7, 8])

    hit = index.explain([1, 2, 3, 4, 5, 6, 7])  # 3 of 4 tokens in its last block
    assert (hit.blocks, hit.tokens, hit.why, hit.number, hit.block_size) == ((7,), 4, "partial", 3, 4)
    hit = index.explain([1, 2, 3, 4, 5, 6, 7, 8])  # all there, but one token must be computed
    assert (hit.blocks, hit.tokens, hit.why, hit.number) == ((7,), 4, "cap", 7)
    hit = index.explain([1, 2, 3, 4, 5, 9, 7, 8, 9])  # parts at token 5
    assert (hit.blocks, hit.tokens, hit.why, hit.number) == ((7,), 4, "parts", 5)
    hit = index.explain([9, 2, 3, 4, 5])
    assert (hit.blocks, hit.why, hit.number) == ((), "parts", 0)
    hit = index.explain([1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5])  # nothing was ever behind token 8
    assert (hit.blocks, hit.tokens, hit.why, hit.number) == ((7, 3), 8, "absent", 8)
    hit = index.explain([1, 2, 3, 4, 5, 6, 7, 8, 1, 2])
    assert (hit.blocks, hit.why, hit.number) == ((7, 3), "partial", 2)
