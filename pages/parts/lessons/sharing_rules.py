"""Two sharing rules side by side: copy-on-write (paper, vLLM V0) and append-only tables (vLLM V1)."""

from __future__ import annotations

from collections.abc import Mapping

from core.memory import events as ev
from pages.parts import gates
from pages.parts.gates import Question, number_options, numbers_near
from pages.parts.lessons import common
from pages.parts.lessons.lesson import Ask, Lesson, Sight, Stop, after, start

COPY, APPEND = "half-full-block", "answers-append-only"


def _start(sight: Sight) -> Mapping[str, object]:
    """How many blocks all answers list, and who has the half-full one."""
    rows = sight.step.sequences
    last = rows[0].block_table[-1]
    holders = sight.holders()
    behind = [view.id for view in rows if view.written < rows[0].written]
    return common.with_(
        common.totals(sight), last=last, ref=holders.ref(last), size=sight.size, prompt=rows[0].written,
        full=rows[0].written // sight.size, answers=len(rows),
        n=rows[0].written % sight.size, behind=sight.scene.join(behind) or "–",
    )  # fmt: skip


def _step(sight: Sight) -> Mapping[str, object]:
    """What the first decode step costs: tokens computed, tokens copied, blocks taken."""
    copies = sight.all(ev.Copy)
    rows = sight.step.sequences
    return {
        "n": len(copies), "copied": sum(e.tokens for e in copies), "computed": common.computed(sight),
        "taken": len(sight.all(ev.Copy, ev.Allocate)), "answers": len(rows),
        "held": common.totals(sight)["held"],
    }  # fmt: skip


def _same(sight: Sight) -> Mapping[str, object]:
    return common.with_(common.totals(sight), answers=len(sight.step.sequences))


def _extra(sight: Sight) -> Question:
    """How many tokens are computed in the first decode step under append-only tables?"""
    rows = sight.step.sequences
    truth = common.computed(sight)
    part = common.prompt_of(sight) % sight.size
    numbers = {"answers": len(rows), "n": truth, "part": part, "others": len(rows) - 1}
    return Question(
        question=sight.words("lesson.sharing-rules.q.computed", size=sight.size, **numbers),
        options=number_options(numbers_near(truth, (len(rows), len(rows) * common.prompt_of(sight)))),
        truth=truth,
        because=sight.words("lesson.sharing-rules.q.computed.because", **numbers),
    )


LESSON = Lesson(
    id="sharing-rules",
    ideas=(11,),
    stops=(
        Stop(name="copy_start", run=COPY, find=common.half_full, numbers=_start, point=common.point_shared),
        Stop(name="append_start", run=APPEND, find=common.half_full, numbers=_start,
             point=common.point_shared),
        Stop(name="copy_step", run=COPY, find=after(common.half_full), numbers=_step,
             gate=gates.how_many_copies),
        Stop(name="append_step", run=APPEND, find=after(common.half_full), numbers=_step,
             gate=gates.tokens_computed),
        Stop(name="same", run=APPEND, find=after(common.half_full, 2), numbers=_same),
    ),
    questions=(
        Ask(run=APPEND, find=after(common.half_full), make=_extra),
        Ask(run=APPEND, find=start,
            make=common.choice("sharing-rules", "which", "partial", ("partial", "never", "always"))),
    ),
)  # fmt: skip
