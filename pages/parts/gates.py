"""Predict, then see: questions about the coming step, made from its plan and the state before it. Pure.

The truth comes from the events of the step (recorded: the next step's; live: those of the plan), the wrong
answers from the state; none of them is ever equal to the truth.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from core.memory import events as ev
from core.memory.events import Event
from core.trace.step import Step, Trace
from pages.parts.scene import Holders, Scene
from pages.parts.words import t

Answer = int | str


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """``kind``: answered by clicking a block ("block") or one of ``options`` (id, text).

    ``right``: every answer that counts as right; the truth is one of them. ``because``: one sentence.
    ``also``: the verdict on such an answer that is not the truth.
    """

    question: str
    truth: Answer
    because: str
    kind: Literal["block", "choice"] = "choice"
    options: tuple[tuple[Answer, str], ...] = ()
    right: frozenset[Answer] = frozenset()
    also: str = ""

    def __post_init__(self) -> None:
        ids = [option for option, _ in self.options]
        if len(set(ids)) != len(ids) or (self.kind == "choice" and ids.count(self.truth) != 1):
            raise ValueError(f"the options {ids} must differ and hold the truth {self.truth!r} once.")

    def is_right(self, answer: Answer) -> bool:
        """Whether ``answer`` counts as right."""
        return answer == self.truth or answer in self.right

    def known(self, answer: Any) -> bool:
        """Whether ``answer`` is one that this question can be given (it comes from a browser)."""
        if self.kind == "block":
            return isinstance(answer, int) and not isinstance(answer, bool) and answer >= 0
        return any(answer == option and type(answer) is type(option) for option, _ in self.options)

    def payload(self, name: str, answer: Answer | None = None, *, told: bool = False) -> dict[str, Any]:
        """The question as the stage draws it; with ``answer``: prediction and truth side by side.

        ``told``: the truth was asked for without a prediction; then "answer" and "correct" are None.
        """
        asked: dict[str, Any] = {
            "id": name,
            "question": self.question,
            "kind": self.kind,
            "options": [{"id": option, "label": label} for option, label in self.options],
            "answer": answer,
        }
        if answer is not None or told:
            asked["result"] = {
                "answer": answer,
                "truth": self.truth,
                "correct": None if answer is None else self.is_right(answer),
                "text": self.because,
            }
            if answer is not None and answer != self.truth and self.is_right(answer):
                asked["result"]["also"] = self.also
        return asked


@dataclass(frozen=True, slots=True)
class Coming:
    """The step that is about to happen: ``trace`` as far as it is known, and the ``events`` planned."""

    trace: Trace
    events: Sequence[Event]
    lang: str

    @property
    def before(self) -> Step | None:
        """The last step that is on the screen; None before the first."""
        return self.trace.steps[-1] if self.trace.steps else None

    @property
    def holders(self) -> Holders:
        """Who lists what before the step."""
        return Holders.after(self.before, int(self.trace.meta["num_blocks"]))

    @property
    def size(self) -> int:
        """Tokens a block."""
        return int(self.trace.meta["block_size"])

    def all(self, *types: type[Event]) -> list[Any]:
        """The planned events of these types."""
        return [event for event in self.events if isinstance(event, types)]

    def scene(self) -> Scene:
        """Names of sequences and tokens, as they are before the step."""
        steps = self.trace.steps
        if not steps:
            raise ValueError("nothing has happened yet; there is nobody to name.")
        return Scene(steps[-1], steps[-2] if len(steps) > 1 else None, self.lang, self.trace)

    def say(self, key: str, **numbers: object) -> str:
        """``t`` in the language of the screen."""
        return t(key, self.lang, **numbers)


Gate = Callable[[Coming], Question | None]  # None: there is nothing to ask about this step


def coming(trace: Trace, index: int, lang: str) -> Coming:
    """What a recorded step looks like before it happens: the trace is cut off there."""
    return Coming(cut(trace, index), trace.steps[index].events, lang)


def planned(trace: Trace, events: Sequence[Event], lang: str) -> Coming:
    """The coming step of a live run: the trace so far and the events of ``session.plan()``."""
    return Coming(trace, events, lang)


def cut(trace: Trace, steps: int) -> Trace:
    """The trace as it was after its first ``steps`` steps: what may be shown before the answer.

    Its meta says under "steps_in_all" how long it really is: a time line keeps its length at a question.
    """
    meta = trace.meta | {"steps_in_all": len(trace.steps)}
    return Trace(meta=meta, requests=trace.requests, steps=trace.steps[:steps], tokens=trace.tokens)


def numbers_near(truth: int, wrong: Iterable[int], *, low: int = 0, most: int = 4) -> tuple[int, ...]:
    """``truth`` among plausible other numbers, in order: those of ``wrong``, then neighbours.

    Distinct, none below ``low``, ``most`` at the most; at least two.
    """
    chosen = [truth]
    for number in (*wrong, truth + 1, truth - 1, truth + 2, truth + 3):
        if number >= low and number not in chosen and len(chosen) < most:
            chosen.append(number)
    return tuple(sorted(chosen))


def number_options(numbers: Iterable[int]) -> tuple[tuple[Answer, str], ...]:
    """Options whose text is the number itself."""
    return tuple((number, str(number)) for number in numbers)


def texts_by_key(
    lang: str, prefix: str, names: Iterable[str], **numbers: object
) -> tuple[tuple[Answer, str], ...]:
    """Options whose words are ``<prefix>.<name>``; the name is the id."""
    return tuple((name, t(f"{prefix}.{name}", lang, **numbers)) for name in names)


# -- the kinds of questions ------------------------------------------------------------------------------


def copy_or_not(coming: Coming) -> Question | None:
    """Somebody writes into a shared block, or needs a new one: is there a copy, a new block, neither?"""
    scene = coming.scene()
    holders = coming.holders
    writer = _first_writer(coming)
    if writer is None:
        return None
    copies = [e for e in coming.all(ev.Copy) if e.sequence == writer]
    fresh = [e for e in coming.all(ev.Allocate) if e.sequence == writer]
    truth = "copy" if copies else "new" if fresh else "place"
    last = next(s for s in coming.before.sequences if s.id == writer).block_table[-1]  # type: ignore[union-attr]
    ref = holders.ref(last)
    filled = next((b.filled for b in coming.before.blocks if b.id == last), 0)  # type: ignore[union-attr]
    numbers = {"s": scene.name(writer), "block": last, "ref": ref, "filled": filled, "size": coming.size}
    numbers["target"] = copies[0].target if copies else fresh[0].block if fresh else last
    return Question(
        question=coming.say("gate.copy_or_not", **numbers),
        options=texts_by_key(coming.lang, "gate.copy_or_not", ("copy", "place", "new"), **numbers),
        truth=truth,
        because=coming.say(f"gate.copy_or_not.because.{truth}", **numbers),
    )


def _first_writer(coming: Coming) -> str | None:
    """Whose table is touched first in this step; else the first sequence that runs."""
    touched = [e.sequence for e in coming.all(ev.Copy, ev.Allocate)]
    running = [s for s in (coming.before.sequences if coming.before else ()) if s.state == "running"]
    named = [s.id for s in running if s.block_table and (not touched or s.id == touched[0])]
    return named[0] if named else None


def how_many_copies(coming: Coming) -> Question | None:
    """Several sequences share a block that all of them are about to write: how many copies are made?"""
    holders, scene = coming.holders, coming.scene()
    last = [s.block_table[-1] for s in scene.step.sequences if s.state == "running" and s.block_table]
    shared = max(last, key=last.count, default=None)
    if shared is None or last.count(shared) < 2:
        return None
    copies = coming.all(ev.Copy)
    sharers = holders.ref(shared)
    blocks = len(next(s for s in scene.step.sequences if shared in s.block_table).block_table)
    truth = len(copies)
    owners = holders.lists[shared]
    key = "gate.copies.because" if truth else "gate.copies.because.none"
    return Question(
        question=coming.say("gate.copies", s=scene.join(owners), n=sharers, block=shared),
        options=number_options(numbers_near(truth, (sharers, 0, sharers - 1, blocks * (sharers - 1)))),
        truth=truth,
        because=coming.say(key, n=truth, sharers=sharers, block=shared, size=coming.size),
    )


def block_copied(coming: Coming) -> Question | None:
    """Which block has to be copied? Answered on the map."""
    copies = coming.all(ev.Copy)
    if not copies:
        return None
    scene, copy = coming.scene(), copies[0]
    numbers = {"s": scene.name(copy.sequence), "block": copy.source, "ref": coming.holders.ref(copy.source)}
    return Question(
        kind="block",
        question=coming.say("gate.block_copied", **numbers),
        truth=copy.source,
        right=frozenset(e.source for e in copies),
        also=coming.say("gate.also"),
        because=coming.say("gate.block_copied.because", target=copy.target, **numbers),
    )


def block_taken(coming: Coming) -> Question | None:
    """Which physical block will be taken next? Any free one would do; it is the first of the free list."""
    taken = coming.all(ev.Allocate, ev.Copy)
    if not taken:
        return None
    block = taken[0].target if isinstance(taken[0], ev.Copy) else taken[0].block
    holders = coming.holders
    busy = {b for b, owners in holders.lists.items() if owners} | holders.cached
    free = frozenset(b for b in range(holders.num_blocks) if b not in busy)
    who = coming.scene().name(taken[0].sequence) if coming.trace.steps else "A"
    return Question(
        kind="block",
        question=coming.say("gate.block_taken", s=who),
        truth=block,
        right=free,
        also=coming.say("gate.also"),
        because=coming.say("gate.block_taken.because", block=block, n=len(free)),
    )


def count_after(coming: Coming) -> Question | None:
    """The count of the block that the most tables list: what is it after this step?"""
    holders = coming.holders
    ranked = sorted((-len(owners), block) for block, owners in holders.lists.items() if len(owners) > 1)
    watched = _watched(coming, [block for _, block in ranked])
    if watched is None:
        return None
    now = holders.ref(watched)
    for event in coming.events:
        holders.apply(event)
    truth = holders.ref(watched)
    return Question(
        question=coming.say("gate.count_after", block=watched, ref=now),
        options=number_options(numbers_near(truth, (now, now + 1, now - 1, 0))),
        truth=truth,
        because=coming.say("gate.count_after.because", block=watched, ref=truth, was=now),
    )


def _watched(coming: Coming, shared: list[int]) -> int | None:
    """The block to ask about: one whose count this step changes, else the most shared one."""
    changed = [e.source for e in coming.all(ev.Copy)]
    changed += [e.block for e in coming.all(ev.Release, ev.Share)]
    return next((block for block in changed if coming.holders.ref(block)), shared[0] if shared else None)


def who_gives_way(coming: Coming) -> Question | None:
    """The pool is empty: which sequence is preempted?"""
    preempted = coming.all(ev.Preempt)
    if not preempted:
        return None
    scene = coming.scene()
    running = [s for s in scene.step.sequences if s.state == "running"]
    truth = preempted[0].sequence
    victim = next(s for s in running if s.id == truth)
    options: list[tuple[Answer, str]] = [(s.id, scene.name(s.id)) for s in running]
    options.append(("nobody", coming.say("gate.preempt.nobody")))
    key = "gate.preempt.because" if len(running) > 1 else "gate.preempt.because.alone"
    free = coming.holders.free
    return Question(
        question=coming.say("gate.preempt" if free else "gate.preempt.none", n=free),
        options=tuple(options),
        truth=truth,
        because=coming.say(key, s=scene.name(truth), n=len(victim.block_table)),
    )


def blocks_back(coming: Coming) -> Question | None:
    """A sequence ends, or a beam is dropped: how many blocks come back to the free list?"""
    releases, back = coming.all(ev.Release), coming.all(ev.Free, ev.Cache)
    over = coming.all(ev.Finish)
    if not over:
        return None
    scene = coming.scene()
    dropped = ".dropped" if all(e.reason == "dropped" for e in over) else ""
    listed = sum(len(s.block_table) for s in scene.step.sequences if s.id in {e.sequence for e in over})
    truth = len(back)
    return Question(
        question=coming.say(f"gate.back{dropped}", s=scene.join([e.sequence for e in over]), n=len(over)),
        options=number_options(numbers_near(truth, (listed, len(releases), 0))),
        truth=truth,
        because=coming.say(f"gate.back.because{dropped}", n=truth, listed=listed),
    )


def hits(coming: Coming) -> Question | None:
    """A prompt arrives: how many of its blocks are found in the cache?"""
    admitted = coming.all(ev.Admit)
    if not admitted:
        return None
    request = next(r for r in coming.trace.requests if r.id == admitted[-1].request)
    prompt, size = len(request.prompt_token_ids), coming.size
    sequence = f"{request.id}.0"
    truth = sum(1 for e in coming.all(ev.Share) if e.sequence == sequence and e.cause == "prefix")
    full = prompt // size
    numbers = {"n": truth, "prompt": prompt, "full": full, "size": size, "tokens": truth * size}
    key = "gate.hits.because" if truth else "gate.hits.because.none"
    return Question(
        question=coming.say("gate.hits", **numbers),
        options=number_options(numbers_near(truth, (0, full, -(-prompt // size)))),
        truth=truth,
        because=coming.say(key, **numbers),
    )


def tokens_computed(coming: Coming) -> Question | None:
    """How many tokens are computed in this step? None where the writes are not known yet (a live plan)."""
    truth = sum(event.count for event in coming.all(ev.Write))
    if not truth or coming.before is None:
        return None
    back = {event.sequence for event in coming.all(ev.Resume)}
    rows = [s for s in coming.before.sequences if s.state == "running" or s.id in back]
    lengths = [len(s.token_ids) for s in rows]
    who = coming.scene().join([s.id for s in rows])
    copies = len(coming.all(ev.Copy, ev.SwapIn))
    return Question(
        question=coming.say("gate.computed", s=who, n=len(rows)),
        options=number_options(numbers_near(truth, (len(rows), sum(lengths), max(lengths)), low=1)),
        truth=truth,
        because=coming.say("gate.computed.because" + (".moved" if copies else ""), n=truth, copies=copies),
    )
