"""Why a prefix hit ended, read off a trace: which earlier text was compared, and where the two part. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from core.memory.events import Evict, Fork, Sample, Share
from core.memory.views import SequenceView
from core.trace.step import Step, Trace

Why = Literal["cap", "partial", "parts", "evicted", "absent"]


@dataclass(frozen=True, slots=True)
class HitEnd:
    """``hit``: tokens found. ``other``: the sequence whose text was compared, "" for "absent".

    ``why`` and ``number``: "cap": the next block is there too, but one token at least is computed, token
    ``number``; "partial": only full blocks are shared, and ``number`` tokens of a block agree; "parts": the
    texts part at token ``number`` (from 0); "evicted": the block that followed, from token ``number`` on, is
    no longer there; "absent": no earlier text goes on at token ``number``.
    """

    hit: int
    why: Why
    number: int
    other: str = ""


def hit_end(trace: Trace, index: int, sequence: str) -> HitEnd | None:
    """How far the text of ``sequence`` was found in step ``index``, and why no further.

    None when the step does not know the sequence, or the trace does not say the block size.
    """
    step, size = trace.steps[index], int(trace.meta.get("block_size", 0))
    text = _text_at_start(step, sequence)
    if text is None or not size:
        return None
    shares = [e for e in step.events if isinstance(e, Share) and e.sequence == sequence]
    hit = sum(e.cause == "prefix" for e in shares) * size
    rest = text[hit : hit + size]
    forked = any(isinstance(e, Fork) and e.child == sequence for e in step.events)
    there = _full_blocks(trace, index, size)
    best = HitEnd(hit, "absent", hit)
    most = -1
    for other in step.sequences:
        if other.id == sequence or other.token_ids[:hit] != text[:hit]:
            continue
        following = other.token_ids[hit : min(hit + size, _written(trace, index, forked, other))]
        common = _common(following, rest)
        if following and common > most:
            most = common
            best = _end(hit, rest, following, common, size, following in there, len(text), other.id)
    return best


def _end(
    hit: int, rest: tuple[int, ...], following: tuple[int, ...], common: int, size: int, there: bool,
    length: int, other: str,
) -> HitEnd:  # fmt: skip
    """The hit beside one other text. ``there``: whether what follows in it stands in a block of its own."""
    if common == size:
        return HitEnd(hit, "cap", length - 1, other) if there else HitEnd(hit, "evicted", hit, other)
    if common in (len(rest), len(following)):
        return HitEnd(hit, "partial", common, other)
    return HitEnd(hit, "parts", hit + common, other)


def _text_at_start(step: Step, sequence: str) -> tuple[int, ...] | None:
    """What the sequence looked for: all its tokens but those that the step sampled."""
    view = next((s for s in step.sequences if s.id == sequence), None)
    if view is None:
        return None
    sampled = sum(isinstance(e, Sample) and e.sequence == sequence for e in step.events)
    return view.token_ids[: len(view.token_ids) - sampled]


def _written(trace: Trace, index: int, forked: bool, other: SequenceView) -> int:
    """Tokens of ``other`` whose keys and values were there: when the step began; for a fork, at its end."""
    before = trace.steps[index - 1].sequences if index and not forked else ()
    return next((s.written for s in before if s.id == other.id), other.written)


def _full_blocks(trace: Trace, index: int, size: int) -> set[tuple[int, ...]]:
    """The contents of the full blocks that were there when the step looked: not those that it evicted."""
    evicted = {e.block for e in trace.steps[index].events if isinstance(e, Evict)}
    pictures = (*(trace.steps[index - 1].blocks if index else ()), *trace.steps[index].blocks)
    return {b.token_ids for b in pictures if b.filled == size and b.id not in evicted}


def _common(one: tuple[int, ...], two: tuple[int, ...]) -> int:
    """Length of the common start."""
    return next(
        (k for k, (a, b) in enumerate(zip(one, two, strict=False)) if a != b), min(len(one), len(two))
    )
