"""Prefix reuse: a prompt with a known beginning finds its blocks; with one word in front it finds none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from core.memory import events as ev
from pages.parts import gates
from pages.parts.gates import Question, number_options, numbers_near
from pages.parts.lessons import common, point
from pages.parts.lessons.lesson import Ask, Lesson, Sight, Stop, first, start, step_where

MANY, MOVED = "system-prompt", "prefix-moved"


def _hit(event: ev.Share) -> bool:
    return event.cause == "prefix"


def _first(sight: Sight) -> Mapping[str, object]:
    prompt = common.prompt_of(sight)
    mine = sight.step.sequences[0].id
    computed = sum(e.count for e in sight.all(ev.Write) if e.sequence == mine)
    return {"n": computed, "prompt": prompt, "full": prompt // sight.size, "size": sight.size}


def _found(sight: Sight) -> Mapping[str, object]:
    """What the newcomer found, what it still computes, and where the hit ended and why."""
    hits = [e for e in sight.all(ev.Share) if e.cause == "prefix"]
    sequence = hits[0].sequence
    mine = [e for e in hits if e.sequence == sequence]
    row = sight.row(sequence)
    request = next(r for r in sight.trace.requests if r.id == row.request)
    prompt = len(request.prompt_token_ids)
    same = _common(request.prompt_token_ids, _before(sight, request.id))
    return {
        "s": sight.scene.name(sequence), "n": len(mine), "tokens": len(mine) * sight.size, "prompt": prompt,
        "rest": prompt - len(mine) * sight.size, "ref": mine[0].ref, "same": same, "size": sight.size,
    }  # fmt: skip


def _said(name: str) -> Callable[[Sight], str]:
    """The caption of a hit, and why it ends where it ends."""

    def caption(sight: Sight) -> str:
        found = _found(sight)
        same, prompt, size = (int(str(found[key])) for key in ("same", "prompt", "size"))
        why = "gone" if int(str(found["n"])) < min(same, prompt - 1) // size else "differs"
        why = "whole" if why == "differs" and same >= prompt else why
        sequence = next(e.sequence for e in sight.all(ev.Share) if e.cause == "prefix")
        token = sight.scene.token(sight.row(sequence).token_ids[min(same, prompt - 1)])
        text = sight.words(f"lesson.prefix-reuse.{name}", **found)
        return text + sight.words(f"lesson.prefix-reuse.why.{why}", token=token, **found)

    return caption


def _before(sight: Sight, request: str) -> list[tuple[int, ...]]:
    """The prompts that were computed before this request's."""
    earlier = []
    for one in sight.trace.requests:
        if one.id == request:
            break
        earlier.append(one.prompt_token_ids)
    return earlier


def _common(prompt: tuple[int, ...], earlier: list[tuple[int, ...]]) -> int:
    """The longest beginning that the prompt has in common with an earlier one, in tokens."""
    best = 0
    for other in earlier:
        pairs = zip(prompt, other, strict=False)
        best = max(best, next((k for k, (a, b) in enumerate(pairs) if a != b), min(len(prompt), len(other))))
    return best


def _missed_step(walk: Any) -> int | None:
    """A later request that is admitted and finds nothing."""

    def missed(step: Any, before: Any) -> bool:
        admitted = any(isinstance(e, ev.Admit) for e in step.events)
        found = any(isinstance(e, ev.Share) and e.cause == "prefix" for e in step.events)
        return before is not None and admitted and not found

    return step_where(missed)(walk)


def _missed(sight: Sight) -> Mapping[str, object]:
    request = next(r for r in sight.trace.requests if r.id == sight.all(ev.Admit)[-1].request)
    prompt = request.prompt_token_ids
    earlier = _before(sight, request.id)
    mine = sum(e.count for e in sight.all(ev.Write) if e.sequence == f"{request.id}.0")
    return {
        "n": _common(prompt, earlier), "length": len(prompt), "computed": mine,
        "first": sight.scene.token(prompt[0]),
    }  # fmt: skip


def _moved(sight: Sight) -> str:
    """The caption of a miss; that the words are the same is said only where they are."""
    words = ".words" if _same_words(sight) else ""
    return sight.words(f"lesson.prefix-reuse.moved{words}", **_missed(sight))


def _same_words(sight: Sight) -> bool:
    """Whether the newcomer's words are those of another prompt, in another order."""
    request = next(r for r in sight.trace.requests if r.id == sight.all(ev.Admit)[-1].request)
    texts = [sorted(r.prompt_text.lower().split()) for r in sight.trace.requests if r.id != request.id]
    return sorted(request.prompt_text.lower().split()) in texts


def _front(sight: Sight) -> Question | None:
    """The same words, one moved to the front: why is nothing found? Asked only where it is so."""
    ask = common.choice("prefix-reuse", "front", "chain", ("chain", "length", "evicted"), _missed)
    return ask(sight) if _same_words(sight) else None


def _ended_kept(walk: Any) -> int | None:
    """A sequence ends and full blocks of it are kept."""

    def both(step: Any, before: Any) -> bool:
        kinds = {type(event) for event in step.events}
        return ev.Cache in kinds and ev.Finish in kinds

    return step_where(both)(walk)


def _kept(sight: Sight) -> str:
    """The caption of blocks that are kept; what was freed at once is said only where there is any."""
    kept, freed = sight.all(ev.Cache), sight.all(ev.Free)
    scene, key = sight.scene, "lesson.prefix-reuse.kept"
    over = scene.join(list(dict.fromkeys(e.sequence for e in sight.all(ev.Finish))))
    text = sight.words(key, s=over, n=len(kept), blocks=scene.numbers([e.block for e in kept]))
    return text + (sight.words(f"{key}.freed", freed=len(freed)) if freed else "")


def _how_many(sight: Sight) -> Question | None:
    """Two prompts that have ``same`` tokens in common: how many blocks are shared? Asked only where no
    such block had been evicted."""
    found = _found(sight)
    same = int(str(found["same"]))
    truth = int(str(found["n"]))
    if truth != min(same, int(str(found["prompt"])) - 1) // sight.size:
        return None
    numbers = {**found, "blocks": truth, "n": same}
    return Question(
        question=sight.words("lesson.prefix-reuse.q.blocks", **numbers),
        options=number_options(numbers_near(truth, (same, -(-same // sight.size), 0))),
        truth=truth,
        because=sight.words("lesson.prefix-reuse.q.blocks.because", **numbers),
    )


def _point_hit(sight: Sight) -> list[str]:
    return [point.card(e.block) for e in sight.all(ev.Share) if e.cause == "prefix"]


LESSON = Lesson(
    id="prefix-reuse",
    ideas=(),
    stops=(
        Stop(name="first", run=MANY, find=start, numbers=_first),
        Stop(name="hit", run=MANY, find=first(ev.Share, where=_hit), caption=_said("hit"),
             point=_point_hit, gate=gates.hits, says_why=True),
        Stop(name="kept", run=MANY, find=_ended_kept, caption=_kept,
             point=lambda s: [point.card(e.block) for e in s.all(ev.Cache)]),
        Stop(name="other_end", run=MOVED, find=first(ev.Share, where=_hit), caption=_said("other_end"),
             point=_point_hit, gate=gates.hits, says_why=True),
        Stop(name="moved", run=MOVED, find=_missed_step, caption=_moved, gate=gates.hits, says_why=True),
    ),
    questions=(
        Ask(run=MOVED, find=_missed_step, make=_front),
        Ask(run=MANY, find=first(ev.Share, where=_hit), make=_how_many),
        Ask(run=MANY, find=first(ev.Share, where=_hit),
            make=common.choice("prefix-reuse", "speed", "prefill", ("prefill", "decode", "both"), _found)),
    ),
)  # fmt: skip
