"""The event log of a run, filtered by kind and sequence, and what differs from the step before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import streamlit as st

from core.memory.events import Event
from core.trace.step import Step, Trace
from pages.parts.labels import letter
from pages.parts.lessons.state import Study
from pages.parts.lessons.walk import Way
from pages.parts.narration import narrate
from pages.parts.words import t


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the log. ``owner``: the letter of the sequence it is about, or ""."""

    step: int
    number: int
    kind: str
    owner: str
    event: Event


def entries(trace: Trace) -> list[Entry]:
    """Every event of the run in order; those of contiguous strategies are left out."""
    found = []
    for index, step in enumerate(trace.steps):
        names = {view.id: letter(place) for place, view in enumerate(step.sequences)}
        for number, event in enumerate(step.events):
            if not hasattr(event, "strategy"):
                owner = getattr(event, "sequence", getattr(event, "child", ""))
                found.append(Entry(index, number, event.name, names.get(owner, ""), event))
    return found


def filtered(found: list[Entry], kinds: list[str], owners: list[str]) -> list[Entry]:
    """The entries of these kinds and sequences; an empty list takes all."""
    return [e for e in found if (not kinds or e.kind in kinds) and (not owners or e.owner in owners)]


def differences(trace: Trace, index: int, lang: str) -> list[str]:
    """What differs from the step before, computed from the two pictures: tables, counts, lengths."""
    step = trace.steps[index]
    before = trace.steps[index - 1] if index else None
    return _sequences(step, before, lang) + _blocks(step, before, lang)


def _sequences(step: Step, before: Step | None, lang: str) -> list[str]:
    old = {view.id: view for view in before.sequences} if before else {}
    lines = []
    for place, view in enumerate(step.sequences):
        was, name = old.get(view.id), letter(place)
        if was is None:
            numbers = {"n": len(view.token_ids), "table": list(view.block_table)}
            lines.append(t("lessons.diff.new", lang, s=name, **numbers))
            continue
        if view.state != was.state:
            lines.append(t("lessons.diff.state", lang, s=name, state=t(f"stage.state.{view.state}", lang)))
        if (len(view.token_ids), view.written) != (len(was.token_ids), was.written):
            numbers = {"a": len(was.token_ids), "b": len(view.token_ids), "c": was.written, "d": view.written}
            lines.append(t("lessons.diff.length", lang, s=name, **numbers))
        if view.block_table != was.block_table:
            tables = {"old": list(was.block_table), "new": list(view.block_table)}
            lines.append(t("lessons.diff.table", lang, s=name, **tables))
    return lines


def _blocks(step: Step, before: Step | None, lang: str) -> list[str]:
    old = {block.id: block for block in before.blocks} if before else {}
    now = {block.id: block for block in step.blocks}
    lines = []
    for block in sorted(old.keys() | now.keys()):
        one, two = old.get(block), now.get(block)
        if one is None and two is not None:
            lines.append(t("lessons.diff.block.new", lang, block=block, ref=two.ref, filled=two.filled))
        elif two is None:
            lines.append(t("lessons.diff.block.gone", lang, block=block))
        elif one is not None and (one.ref, one.filled, one.state) != (two.ref, two.filled, two.state):
            numbers = {"a": one.ref, "b": two.ref, "c": one.filled, "d": two.filled}
            lines.append(t("lessons.diff.block", lang, block=block, **numbers))
    return lines


def show(trace: Any, state: Study, way: Way, lang: str) -> None:
    """A dialog with both; a click on a line goes to its step."""

    @st.dialog(t("lessons.log", lang), width="large")
    def body() -> None:
        if not isinstance(trace, Trace):
            st.caption(t("lessons.log.none", lang))
            return
        index = min(state.place.step, len(trace.steps) - 1)
        st.caption(t("lessons.diff", lang, k=index))
        st.markdown("\n".join(f"- {line}" for line in differences(trace, index, lang)[:12]) or "–")
        _table(trace, state, way, lang)

    body()


def _table(trace: Trace, state: Study, way: Way, lang: str) -> None:
    found = entries(trace)
    left, right = st.columns(2)
    kinds = left.multiselect(
        t("lessons.log.kind", lang),
        sorted({e.kind for e in found}),
        format_func=lambda kind: t(f"lessons.kind.{kind}", lang),
        placeholder=t("lessons.log.all", lang),
    )
    letters = sorted({e.owner for e in found if e.owner}, key=lambda name: (len(name), name))
    owners = right.multiselect(t("lessons.log.owner", lang), letters, placeholder=t("lessons.log.all", lang))
    rows = filtered(found, kinds, owners)
    columns = [t(f"lessons.log.{name}", lang) for name in ("step", "kind", "owner", "text")]
    data = [_row(trace, entry, lang) for entry in rows]
    picked = st.dataframe(
        [dict(zip(columns, row, strict=True)) for row in data],
        hide_index=True, height=300, on_select="rerun", selection_mode="single-row", key="log_rows",
column_config={
            **{name: st.column_config.Column(width=90) for name in columns[:3]},
            columns[3]: st.column_config.TextColumn(width=860),
        },
    )  # fmt: skip
    chosen = picked["selection"]["rows"] if rows else []
    if chosen and chosen[0] < len(rows):
        entry = rows[chosen[0]]
        state.place = way.near(state.place, entry.step)
        st.rerun()


def _row(trace: Trace, entry: Entry, lang: str) -> tuple[int, str, str, str]:
    before = trace.steps[entry.step - 1] if entry.step else None
    text = narrate(entry.event, trace.steps[entry.step], before, lang, trace)
    return entry.step, t(f"lessons.kind.{entry.kind}", lang), entry.owner, text
