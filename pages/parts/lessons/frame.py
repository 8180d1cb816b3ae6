"""What the lesson page shows at a place: the question or the picture with its caption. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

from core.trace.step import Trace
from pages.parts.gates import Question, coming, cut
from pages.parts.lessons import point
from pages.parts.lessons.lesson import Lesson, Sight, Stop
from pages.parts.lessons.pictures import picture
from pages.parts.lessons.walk import Place, Way, has_next
from pages.parts.narration import narrate, sentence
from pages.parts.payload import build_payload
from pages.parts.words import t


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """One screen of a lesson: which stop, of which trace and step, in which state of its question.

    ``given``: the answer to the stop's question, None while it is open. ``skipped``: its answer is shown
    although nobody gave one. ``asked``: a question about a step that does not exist yet (live). ``gates``:
    whether questions are asked.
    """

    lesson: Lesson
    way: Way
    place: Place
    trace: Any
    lang: str
    mode: Literal["recorded", "live"] = "recorded"
    given: Any = None
    skipped: bool = False
    gates: bool = True
    asked: Question | None = None
    lecture: bool = False
    busy: bool = False
    selected: Any = None

    @property
    def stop(self) -> Stop:
        """The stop that the place belongs to."""
        return self.lesson.stops[self.place.stop]

    @property
    def index(self) -> int:
        """The step of the place, within the trace."""
        return min(self.place.step, max(len(self.trace.steps) - 1, 0))

    def question(self) -> Question | None:
        """The stop's question, if the place is on the stop and it has one that can be asked."""
        if self.asked is not None:
            return self.asked
        on_stop = self.way.on_stop(self.place) and self.stop.gate is not None
        if not on_stop or not self.gates or self.stop.gate is None:
            return None
        return self.stop.gate(coming(self.trace, self.place.step, self.lang))

    def asking(self) -> bool:
        """Whether the question is open: then nothing of the coming step may be shown."""
        return self.given is None and not self.skipped and self.question() is not None

    def gate(self) -> dict[str, Any] | None:
        """The question as the picture draws it, with prediction and truth once it is answered; with the truth
        alone once Step has passed it by."""
        quiet = self.place.event is not None and not self.asking()
        question = None if quiet else self.question()
        if question is None:
            return None
        asked = question.payload(f"{self.lesson.id}.{self.place.stop}", self.given, told=self.skipped)
        if self.stop.says_why and "result" in asked:
            asked["result"]["text"] = ""
        return asked

    def said(self) -> tuple[str, str]:
        """Headline and text: the stop's caption, one event's sentence, or what the step did."""
        if self.place.event is not None:
            step = self.trace.steps[self.index]
            before = self.trace.steps[self.index - 1] if self.index else None
            event = step.events[min(self.place.event, len(step.events) - 1)]
            number = t("lessons.event", self.lang, k=self.place.event + 1, n=len(step.events))
            return number, narrate(event, step, before, self.lang, self.trace)
        if self.way.on_stop(self.place):
            text = self.lesson.caption(self.stop, self.trace, self.index, self.lang)
            return self.lesson.head(self.stop, self.lang), text
        if self.way.stops[self.place.stop][1] is None:
            key = "lessons.not_yet" if self.way.open else "lessons.never"
            return self.lesson.head(self.stop, self.lang), t(key, self.lang)
        told = sentence(self.trace, self.index, self.lang)
        return told.headline, told.text

    def seen(self) -> Trace:
        """The run as far as it may be told: while a question is open, what came before."""
        hidden = self.asking() and self.asked is None
        return cut(self.trace, self.place.step) if hidden else self.trace

    def points(self) -> list[str]:
        """What is ringed in the stage."""
        if self.place.event is not None:
            return point.of_event(self.trace.steps[self.index].events[self.place.event])
        if self.stop.point is None or not self.way.on_stop(self.place) or self.asking():
            return []
        return self.stop.point(Sight(self.trace, self.index, self.lang))


def stage_payload(frame: Frame) -> dict[str, Any]:
    """The stage's payload for a frame; while a question is open, only of what came before it."""
    asking, asked = frame.asking(), frame.gate()
    trace = frame.seen()
    index = min(frame.index, len(trace.steps) - 1)
    payload = build_payload(
        trace,
        index,
        lang=frame.lang,
        mode=frame.mode,
        title=frame.lesson.text("title", frame.lang),
        selection=frame.selected,
        busy=frame.busy,
        lecture=frame.lecture,
        gate=asked,
        can_step_live=True,
    )
    head, text = ("", "") if asking else frame.said()
    payload |= _common(frame) | {"say": {"kind": "lesson", "head": head, "text": text, "also": []}}
    payload["calm"], payload["point"] = True, frame.points()
    number, of = frame.way.run(frame.place.stop)
    payload["run"] = {"r": number, "of": of} if of > 1 else None
    payload["most"] = _most(frame.trace) if frame.lecture else None
    if "strips" not in frame.stop.show:
        payload["strips"] = []
    if "chart" not in frame.stop.show:
        payload["chart"] = None
    return payload


def _most(trace: Trace) -> list[int]:
    """Blocks of each sequence in the step that has the most: lecture mode draws the rows as large as these
    allow, so that the size stays the same over the whole run."""
    tables = [[len(view.block_table) for view in step.sequences if view.block_table] for step in trace.steps]
    return max(tables, key=sum, default=[])


def sheet_payload(frame: Frame) -> dict[str, Any]:
    """The sheet's payload for a frame whose picture is a drawing."""
    asking = frame.asking()
    index = max(frame.place.step - 1, 0) if asking and frame.asked is None else frame.index
    head, text = ("", "") if asking else frame.said()
    shown = frame.trace
    if asking and isinstance(shown, Trace):
        shown = cut(shown, index + 1)
    if asking:  # an axis is as long as afterwards, and what is asked about can be marked
        told = {"steps_in_all": len(frame.trace.steps), "asked": index + 1}
        shown = replace(shown, meta=shown.meta | told)
    return _common(frame) | {
        "index": index,
        "title": frame.lesson.text("title", frame.lang),
        "lang": frame.lang,
        "lecture": frame.lecture,
        "about": _about(frame),
        "say": {"head": head, "text": text},
        "gate": frame.gate(),
        "drawing": picture(frame.stop.picture)(shown, index, frame.lang),
        "words": _sheet_words(frame.lang),
    }


def _about(frame: Frame) -> list[str]:
    """Recorded or live, and which of the lesson's runs where it has several."""
    number, of = frame.way.run(frame.place.stop)
    kind = t("lessons.recorded" if frame.mode == "recorded" else "stage.live", frame.lang)
    return [kind, t("lessons.run", frame.lang, r=number, of=of)] if of > 1 else [kind]


def _sheet_words(lang: str) -> dict[str, str]:
    keys = ("step", "back", "pick", "skip", "unanswered", "right", "wrong")
    plain = {key: t(f"stage.{key}", lang) for key in keys}
    told = {"predicted": {"answer": "{answer}"}, "was_so": {"truth": "{truth}"}}
    return plain | {key: t(f"stage.{key}", lang, **names) for key, names in told.items()}


def _common(frame: Frame) -> dict[str, Any]:
    first = frame.place.stop == 0 and frame.place.step == frame.way.at(0).step and frame.place.event is None
    return {"can_step": has_next(frame.way, frame.place) and not frame.busy, "can_back": not first}
