"""The pool runs dry: somebody is preempted; recompute or swap, and the text stays the same."""

from __future__ import annotations

from collections.abc import Mapping

from core.memory import events as ev
from pages.parts import gates
from pages.parts.gates import Question, number_options, numbers_near
from pages.parts.lessons import common, point
from pages.parts.lessons.lesson import Ask, Lesson, Sight, Stop, after, first

RECOMPUTE, SWAP = "pool-runs-dry", "pool-runs-dry-swap"


def _full(sight: Sight) -> Mapping[str, object]:
    rows = [view for view in sight.step.sequences if view.state == "running"]
    ends = [view for view in rows if view.written % sight.size == 0]
    return {
        "pool": sight.pool, "free": sight.holders().free, "n": len(ends),
        "s": sight.scene.join([view.id for view in rows]),
        "next": sight.scene.join([view.id for view in ends]) or "–",
        "blocks": sight.scene.numbers([len(view.block_table) for view in rows]),
    }  # fmt: skip


def _preempted(sight: Sight) -> Mapping[str, object]:
    one = sight.all(ev.Preempt)[0]
    scene = sight.scene
    before = scene.before[one.sequence]
    others = [view for view in sight.step.sequences if view.state == "running"]
    return {
        "s": scene.name(one.sequence), "n": len(before.block_table), "written": before.written,
        "tokens": len(before.token_ids), "other": scene.join([view.id for view in others]),
        "outs": len(sight.all(ev.SwapOut)), "free": sight.holders().free,
    }  # fmt: skip


def _for_blocks(event: ev.Wait) -> bool:
    return event.reason == "blocks"


def _waits(sight: Sight) -> Mapping[str, object]:
    one = sight.all(ev.Wait)[0]
    rows = [view for view in sight.step.sequences if view.request == one.request]
    return {"s": sight.scene.join([view.id for view in rows]), "need": one.need, "n": one.have}


def _resumed(sight: Sight) -> Mapping[str, object]:
    one = sight.all(ev.Resume)[0]
    row = sight.row(one.sequence)
    mine = sum(e.count for e in sight.all(ev.Write) if e.sequence == one.sequence)
    return {
        "s": sight.scene.name(one.sequence), "n": mine, "blocks": len(row.block_table),
        "table": sight.scene.numbers(list(row.block_table)), "ins": len(sight.all(ev.SwapIn)),
        "token": sight.scene.token(row.token_ids[-1]),
    }  # fmt: skip


def _again(sight: Sight) -> Question:
    found = _resumed(sight)
    truth = int(str(found["n"]))
    row = sight.row(sight.all(ev.Resume)[0].sequence)
    prompt = len(next(r for r in sight.trace.requests if r.id == row.request).prompt_token_ids)
    numbers = {**found, "prompt": prompt, "k": truth - prompt}
    return Question(
        question=sight.words("lesson.running-dry.q.again", **numbers),
        options=number_options(numbers_near(truth, (prompt, 1, truth - prompt))),
        truth=truth,
        because=sight.words("lesson.running-dry.q.again.because", **numbers),
    )


def _point_out(sight: Sight) -> list[str]:
    return [f'.host .hostblock[data-h="{e.host_block}"]' for e in sight.all(ev.SwapOut)]


LESSON = Lesson(
    id="running-dry",
    ideas=(),
    stops=(
        Stop(name="full", run=RECOMPUTE, find=after(first(ev.Preempt), -1), numbers=_full),
        Stop(name="preempt", run=RECOMPUTE, find=first(ev.Preempt), numbers=_preempted,
             gate=gates.who_gives_way, says_why=True),
        Stop(name="waits", run=RECOMPUTE, find=first(ev.Wait, where=_for_blocks), numbers=_waits),
        Stop(name="again", run=RECOMPUTE, find=first(ev.Resume), numbers=_resumed,
             gate=gates.tokens_computed),
        Stop(name="out", run=SWAP, find=first(ev.SwapOut), numbers=_preempted, point=_point_out),
        Stop(name="back", run=SWAP, find=first(ev.SwapIn), numbers=_resumed, gate=gates.tokens_computed,
             point=lambda s: [point.card(e.block) for e in s.all(ev.SwapIn)]),
    ),
    questions=(
        Ask(run=RECOMPUTE, find=first(ev.Preempt),
            make=common.choice("running-dry", "lost", "kv", ("kv", "text", "all"), _preempted)),
        Ask(run=RECOMPUTE, find=first(ev.Resume), make=_again),
        Ask(run=RECOMPUTE, find=first(ev.Preempt),
            make=common.choice("running-dry", "fault", "preempt", ("preempt", "fault", "grow"))),
    ),
)  # fmt: skip
