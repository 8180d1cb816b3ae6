"""Recompute or cache: keys and values of earlier tokens never change, so they are computed once and kept."""

from __future__ import annotations

from collections.abc import Mapping

from core.memory import events as ev
from pages.parts.gates import Coming, Question, number_options, numbers_near
from pages.parts.lessons import common
from pages.parts.lessons.common import choice
from pages.parts.lessons.drawings.recompute import passes, with_cache, without_cache
from pages.parts.lessons.lesson import Ask, Lesson, Sight, Stop, after, end, first_decode, start

ID = "recompute-or-cache"
RUN = "one-answer"


def numbers(sight: Sight) -> Mapping[str, object]:
    """Tokens processed both ways, in this step and in all; what the model's geometry makes of them."""
    rows = passes(sight.trace, sight.index)
    prompt = len(sight.trace.requests[0].prompt_token_ids)
    last = rows[-1]
    slow, fast = without_cache(sight.trace, rows), with_cache(sight.trace, rows)
    return {
        "prompt": prompt,
        "n": len(rows),
        "length": last.length,
        "fresh": last.fresh,
        "kept": last.length - last.fresh,
        "all": slow.tokens,
        "cached": fast.tokens,
        "times": f"{slow.tokens / fast.tokens:.1f}",
        "bytes": int(sight.trace.meta.get("bytes_per_token", 0)),
        "wasted": slow.tokens - fast.tokens,
    }


def proven(sight: Sight) -> tuple[int, float] | None:
    """Steps whose logits were compared with a pass without any cache, and the largest difference; None when
    none was, or when another token would have come out."""
    proofs = [step.proof for step in sight.trace.steps[: sight.index + 1] if step.proof is not None]
    if not proofs or not all(proof.same_argmax for proof in proofs):
        return None
    return len(proofs), max(proof.max_abs_logit_diff for proof in proofs)


def _sum_caption(sight: Sight) -> str:
    told = sight.words(f"lesson.{ID}.sum", **numbers(sight))
    proof = proven(sight)
    if proof is None:
        return told
    return told + sight.words(f"lesson.{ID}.same", n=proof[0], diff=common.power(proof[1]))


def _writes(coming: Coming) -> int:
    return sum(event.count for event in coming.all(ev.Write))


def how_many(coming: Coming) -> Question | None:
    """How many tokens' keys and values does the coming step compute?"""
    truth, before = _writes(coming), coming.before
    if before is None or not truth:
        return None
    kept = before.sequences[0].written
    given = {"kept": kept, "n": truth, "length": kept + truth}
    return Question(
        question=coming.say(f"lesson.{ID}.gate.count", **given),
        options=number_options(numbers_near(truth, (kept, kept + truth, 2 * truth + 1))),
        truth=truth,
        because=coming.say(f"lesson.{ID}.gate.count.because", **given),
    )


def how_many_in_all(coming: Coming) -> Question | None:
    """Tokens processed until the end of the coming step, without a cache."""
    before = coming.before
    if before is None or not _writes(coming):
        return None
    rows = passes(coming.trace, before.index)
    length = before.sequences[0].written + _writes(coming)
    slow = [row.length for row in rows] + [length]
    given = {"n": len(slow), "length": length, "sum": _sum_text(slow), "total": sum(slow)}
    return Question(
        question=coming.say(f"lesson.{ID}.gate.total", **given),
        options=number_options(numbers_near(sum(slow), (length, length * len(slow), sum(slow) - length))),
        truth=sum(slow),
        because=coming.say(f"lesson.{ID}.gate.total.because", **given),
    )


def _sum_text(lengths: list[int]) -> str:
    shown = [str(length) for length in lengths]
    return " + ".join(shown if len(shown) <= 5 else [*shown[:2], "…", shown[-1]])


LESSON = Lesson(
    id=ID,
    ideas=(1,),
    stops=(
        Stop(name="prompt", run=RUN, find=start, numbers=numbers, picture="recompute"),
        Stop(
            name="first", run=RUN, find=first_decode, numbers=numbers, gate=how_many,
            says_why=True, picture="recompute"
        ),
        Stop(name="more", run=RUN, find=after(first_decode, 3), numbers=numbers, picture="recompute"),
        Stop(
            name="sum", run=RUN, find=end, caption=_sum_caption, gate=how_many_in_all, picture="recompute"
        ),
    ),
    questions=(
        Ask(run=RUN, find=end, make=choice(ID, "kept", "kv", ("kv", "q", "out"), numbers)),
        Ask(run=RUN, find=end, make=choice(ID, "why", "past", ("past", "copy", "close"), numbers)),
        Ask(run=RUN, find=end, make=choice(ID, "price", "memory", ("memory", "text", "nothing"), numbers)),
    ),
)  # fmt: skip
