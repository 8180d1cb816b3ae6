"""Everything that the stage draws, as plain data: a pure function of a trace and a place in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from core.trace.step import Trace
from pages.parts.beam_tree import beam_tree
from pages.parts.labels import Labels
from pages.parts.memory_chart import memory_chart
from pages.parts.narration import Narration, sentence
from pages.parts.sides import MAX_POOL, changes, logical_side, physical_side
from pages.parts.strips import Report, strips
from pages.parts.transport import JUMPS, kinds, marks
from pages.parts.words import t

Mode = Literal["recorded", "live"]


def build_payload(
    trace: Trace,
    index: int,
    *,
    lang: str,
    mode: Mode,
    selection: Mapping[str, Any] | None = None,
    title: str | None = None,
    busy: bool = False,
    lecture: bool = False,
    gate: Mapping[str, Any] | None = None,
    lockstep: Sequence[Mapping[str, Report]] | None = None,
    can_step_live: bool = False,
) -> dict[str, Any]:
    """The stage's payload for step ``index`` of ``trace``. JSON-able; nothing in it refers to the trace.

    ``selection``: {"block": id} or {"sequence": id}; None leaves to the browser what it has selected.
    ``gate``: {"id", "question", "kind": "block" | "choice", "options": [{"id", "label"}], "answer", "result":
    {"answer", "truth", "correct", "text"}}: a prediction asked for, and, once "result" is there, its outcome.
    ``lockstep``: per step {strategy: report}, as ``core.compare.lockstep`` gives it.
    ``can_step_live``: whether Step at the end of the trace runs the engine. An index outside the trace is
    taken as its nearest step; a trace without steps gives an empty pool.
    """
    last = len(trace.steps) - 1
    index = min(max(index, 0), max(last, 0))
    payload: dict[str, Any] = {
        "v": 1,
        "index": index,
        "last": max(last, int(trace.meta.get("steps_in_all", 0)) - 1, 0),
        "known": max(last, 0),  # a question hides the steps after this one
        "lang": lang,
        "mode": mode,
        "busy": busy,
        "lecture": lecture,
        "can_step": can_step_live,
        "title": title or trace.meta.get("scenario") or "",
        "about": about(trace, lang),
        "device": "cpu" if str(trace.meta.get("device", "cpu")).startswith("cpu") else "gpu",
        "size": int(trace.meta["block_size"]),
        "all": int(trace.meta["num_blocks"]),
        "pool": min(int(trace.meta["num_blocks"]), MAX_POOL),
        "selection": dict(selection) if selection else None,
        "gate": dict(gate) if gate else None,
    }
    if last < 0:
        return payload | _empty(lang)
    return payload | _step(trace, index, lang, lockstep)


def about(trace: Trace, lang: str) -> list[str]:
    """Model, device, block size and number of blocks, as short texts."""
    meta = trace.meta
    size, blocks = int(meta["block_size"]), int(meta["num_blocks"])
    texts = [str((meta.get("model") or {}).get("name", "")), str(meta.get("device", ""))]
    return [text for text in texts if text] + [
        t("about.size", lang, n=size),
        t("about.blocks", lang, n=blocks),
    ]


def _step(
    trace: Trace, index: int, lang: str, lockstep: Sequence[Mapping[str, Report]] | None
) -> dict[str, Any]:
    labels = Labels(trace)
    step = trace.steps[index]
    there = kinds(step.events)
    found = marks(trace)
    parts: dict[str, Any] = {
        "say": _said(sentence(trace, index, lang), there),
        "marks": {kind: at for kind, at in found.items() if at},
        "ahead": [kind for kind in JUMPS if found[kind] and found[kind][-1] > index],
        "here": [kind for kind in JUMPS if kind in there],
        "queue": step.usage[0].waiting if step.usage else 0,
    }
    parts |= logical_side(trace, index, labels) | physical_side(trace, index, labels)
    parts["did"] = changes(trace, index)
    parts["strips"] = strips(trace, index, lang, lockstep)
    parts["chart"] = memory_chart(trace, lang, lockstep)
    parts["beams"] = beam_tree(trace, index, labels)
    parts["tok"] = labels.table  # last: the parts above put into it what they use
    return parts


def _said(said: Narration, there: frozenset[str]) -> dict[str, Any]:
    also = [kind for kind in JUMPS if kind in there and kind != said.kind]
    return {"kind": said.kind, "head": said.headline, "text": said.text, "also": also}


def _empty(lang: str) -> dict[str, Any]:
    """A trace in which nothing has happened yet."""
    return {
        "say": {"kind": "idle", "head": t("headline.empty", lang), "text": t("step.empty", lang), "also": []},
        "marks": {},
        "ahead": [],
        "here": [],
        "queue": 0,
        "seqs": [],
        "over": [],
        "more": 0,
        "cached": [],
        "others": [],
        "torn": {},
        "ref": {},
        "host": [],
        "used": 0,
        "kept": 0,
        "held_tokens": 0,
        "did": {},
        "strips": [],
        "chart": None,
        "beams": None,
        "tok": [],
    }
