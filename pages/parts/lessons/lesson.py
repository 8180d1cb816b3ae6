"""What a lesson is: stops in recorded runs, each found by what happens there. Pure: no drawing, no state.

A stop says in which run it is, at which step (found by a predicate on the run, so that it stays right when
block size or prompt change), what to say there, what to ask before it, and which picture shows it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from core.memory import events as ev
from core.memory.events import Event
from core.memory.views import SequenceView
from core.trace.step import Step
from pages.parts.gates import Gate, Question
from pages.parts.scene import Holders, Scene
from pages.parts.words import t


class Walk(Protocol):
    """What can be walked through: a trace, or any other record whose ``steps`` come one after the other."""

    @property
    def steps(self) -> Sequence[Any]: ...


Find = Callable[[Any], int | None]  # walk -> the step, or None where it does not happen (yet)


@dataclass(frozen=True, slots=True)
class Sight:
    """A step of a walk in one language, with short ways to ask it for numbers. The argument of captions."""

    trace: Any
    index: int
    lang: str

    @property
    def step(self) -> Any:
        """The step that is looked at."""
        return self.trace.steps[self.index]

    @property
    def before(self) -> Any:
        """The step before it; None at the first."""
        return self.trace.steps[self.index - 1] if self.index else None

    @property
    def scene(self) -> Scene:
        """Names, tokens and holders of this step (traces only)."""
        return Scene(self.step, self.before, self.lang, self.trace)

    @property
    def size(self) -> int:
        """Tokens a block."""
        return int(self.trace.meta["block_size"])

    @property
    def pool(self) -> int:
        """Blocks of the pool."""
        return int(self.trace.meta["num_blocks"])

    def all(self, *types: type[Event]) -> list[Any]:
        """The step's events of these types, in order."""
        return [event for event in self.step.events if isinstance(event, types)]

    def holders(self) -> Holders:
        """Who lists which block after this step."""
        return Holders.after(self.step, self.pool)

    def row(self, sequence: str) -> SequenceView:
        """The sequence after this step. Raises StopIteration when it does not exist."""
        found: SequenceView = next(view for view in self.step.sequences if view.id == sequence)
        return found

    def words(self, key: str, **numbers: object) -> str:
        """``t`` in this sight's language."""
        return t(key, self.lang, **numbers)


Numbers = Callable[[Sight], Mapping[str, object]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """One screen of a lesson.

    ``name``: last part of its words, ``lesson.<lesson>.<name>`` and ``lesson.<lesson>.<name>.head``.
    ``run``: a recorded scenario, or a name in the lesson's ``made``. ``find``: its step in the run.
    ``numbers``: what the caption's words need, from the step; or ``caption`` makes the whole text.
    ``gate``: the question asked before the step is shown. ``says_why``: the caption holds the reason for its
    answer, so the verdict stands alone. ``picture``: a name in ``pictures.PICTURES``.
    ``point``: selectors of the things in the stage to ring (see ``pages.parts.lessons.point``).
    ``show``: parts of the stage below the two sides to keep: "strips", "chart".
    """

    name: str
    run: str
    find: Find
    numbers: Numbers | None = None
    caption: Callable[[Sight], str] | None = None
    gate: Gate | None = None
    says_why: bool = False
    picture: str = "stage"
    point: Callable[[Sight], list[str]] | None = None
    show: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Lesson:
    """A lesson: ``id`` is its address and the middle part of its words; ``ideas``: rows of the course text.

    Words: ``lesson.<id>.title``, ``.line`` (one line in the path), ``.ask``, ``.answers``, ``.next`` (the
    lecturer's note). ``questions`` are made from the last stop of the run that each names. ``own``: whether
    it can be run on one's own prompt; the scenario with that request is the first stop's run.
    """

    id: str
    ideas: tuple[int, ...]
    stops: tuple[Stop, ...]
    questions: tuple[Ask, ...] = ()
    made: Mapping[str, Callable[[], Walk]] = field(default_factory=dict)
    own: bool = True

    def text(self, part: str, lang: str, **numbers: object) -> str:
        """One of the lesson's words."""
        return t(f"lesson.{self.id}.{part}", lang, **numbers)

    def head(self, stop: Stop, lang: str) -> str:
        """Two or three words on a stop."""
        return self.text(f"{stop.name}.head", lang)

    def caption(self, stop: Stop, trace: Any, index: int, lang: str) -> str:
        """What is said at a stop; every number in it is of step ``index`` of ``trace``."""
        sight = Sight(trace, index, lang)
        if stop.caption is not None:
            return stop.caption(sight)
        return self.text(stop.name, lang, **(stop.numbers(sight) if stop.numbers else {}))


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A question at the end: made from step ``find`` of ``run``. It is not asked where that run has no such
    step, or where its step leaves nothing to choose between (``make`` gives None)."""

    run: str
    find: Find
    make: Callable[[Sight], Question | None]


# -- predicates ------------------------------------------------------------------------------------------


def start(walk: Walk) -> int | None:
    """The first step."""
    return 0 if walk.steps else None


def end(walk: Any) -> int | None:
    """The last step, once everything is over."""
    last = walk.steps[-1] if walk.steps else None
    over = last is not None and all(s.state == "finished" for s in getattr(last, "sequences", ()))
    return len(walk.steps) - 1 if over else None


def first(*types: type[Event], where: Callable[[Any], bool] = lambda event: True, nth: int = 1) -> Find:
    """The ``nth`` step with an event of one of ``types`` for which ``where`` holds."""

    def find(walk: Any) -> int | None:
        left = nth
        for index, step in enumerate(walk.steps):
            if any(isinstance(event, types) and where(event) for event in step.events):
                left -= 1
                if not left:
                    return index
        return None

    return find


def step_where(holds: Callable[[Step, Step | None], bool], nth: int = 1) -> Find:
    """The ``nth`` step for which ``holds(step, step before or None)``."""

    def find(walk: Any) -> int | None:
        left = nth
        for index, step in enumerate(walk.steps):
            if holds(step, walk.steps[index - 1] if index else None):
                left -= 1
                if not left:
                    return index
        return None

    return find


def after(find: Find, steps: int = 1) -> Find:
    """``steps`` steps after the one that ``find`` finds (negative: before it)."""

    def later(walk: Any) -> int | None:
        at = find(walk)
        return None if at is None or not 0 <= at + steps < len(walk.steps) else at + steps

    return later


def at(index: int) -> Find:
    """Step ``index``, for walks that are not made of memory events."""
    return lambda walk: index if index < len(walk.steps) else None


def first_decode(walk: Any) -> int | None:
    """The first step that only decodes: it writes what the prefill has sampled."""
    return step_where(lambda step, _: step.kind == "decode" and _writes(step))(walk)


def _writes(step: Step) -> bool:
    return any(isinstance(event, ev.Write) for event in step.events)
