"""A race's results: a table, bars, requests at once over time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import streamlit as st

from core.compare.race_file import RACE_FILE, RecordedRace, load_race
from pages.parts import charts
from pages.parts.bound import is_dark
from pages.parts.say import strategy_name
from pages.parts.words import t

if TYPE_CHECKING:
    from core.compare.race_result import RaceResult

CONFIG = {"displayModeBar": False}
# What each of the five bar charts shows of a result, and how it is written.
BARS: Mapping[str, tuple[Callable[[Any], float], str]] = {
    "mean": (lambda result: result.mean, "{:.2f}"),
    "speed": (lambda result: result.tokens_per_second, "{:.1f}"),
    "first": (lambda result: result.first_token_mean, "{:.2f}"),
    "waited": (lambda result: result.waited, "{:,.0f}"),
    "copied": (lambda result: result.copied_bytes / 1e6, "{:,.1f}"),
}


def show_results(results: Sequence[RaceResult], facts: Mapping[str, Any], lang: str) -> None:
    """Draw them all; three charts in a row. The charts of a recorded race are those of a live one."""
    st.caption(
        t("race.facts", lang, requests=facts["requests"], prompt=f"{facts['prompt']:.0f}",
          new=f"{facts['new']:.0f}", slots=f"{facts['slots']:,}", mb=f"{facts['bytes'] / 1e6:.1f}")
    )  # fmt: skip
    if said := verdict(results, lang):
        st.markdown(f"**{said}**")
    st.table(table(results, lang))
    places = [*st.columns(3), *st.columns(3)]
    for place, name in zip(places, BARS, strict=False):
        with place:
            _bars(name, results, lang)
    with places[-1]:
        _over_time(results, lang)
    st.caption(t("race.look", lang))


def show_recorded(lang: str) -> None:
    """The race that comes with the app, marked as recorded. Raises ValueError when its file is damaged."""
    found = recorded()
    said = t("race.recorded", lang, model=found.model["name"], n=found.machine["cores"])
    with st.container(key="race_recorded"):
        st.markdown(said)
    show_results(found.results, found.facts, lang)


def recorded() -> RecordedRace:
    """Read once a process. Raises ValueError, one sentence."""
    return _read(str(RACE_FILE), RACE_FILE.stat().st_mtime_ns if RACE_FILE.exists() else 0)


@st.cache_resource(max_entries=2, show_spinner=False)
def _read(path: str, changed: int) -> RecordedRace:
    return load_race(Path(path))


def table(results: Sequence[RaceResult], lang: str) -> dict[str, list[str]]:
    """Columns of the table: their names in the language, and a cell a contender."""
    same = {True: "yes", False: "no", None: "unknown"}
    columns: dict[str, list[str]] = {
        "strategy": [strategy_name(r.strategy, lang) for r in results],
        "mean": [f"{r.mean:.2f}" for r in results],
        "peak": [str(r.peak) for r in results],
        "speed": [f"{r.tokens_per_second:.1f}" for r in results],
        "first": [f"{r.first_token_mean:.2f}" for r in results],
        "waited": [f"{r.waited:,}" for r in results],
        "copied": [f"{r.copied_bytes / 1e6:.1f}" for r in results],
        "preempted": [str(r.preempted) for r in results],
        "stopped": [str(len(r.stopped)) for r in results],
        "steps": [str(r.steps) for r in results],
        "seconds": [f"{r.seconds:.1f}" for r in results],
        "same": [t(f"race.same.{same[r.same_texts]}", lang) for r in results],
    }
    return {t(f"race.col.{name}", lang): cells for name, cells in columns.items()}


def verdict(results: Sequence[RaceResult], lang: str) -> str:
    """The most requests at once against the fewest, in words; empty while fewer than two are complete."""
    done = [result for result in results if result.complete]
    if len(done) < 2:
        return ""
    best, worst = max(done, key=lambda r: r.mean), min(done, key=lambda r: r.mean)
    if best.mean == worst.mean or not worst.mean or not worst.tokens_per_second:
        return ""
    return t(
        "race.verdict", lang, best=strategy_name(best.strategy, lang),
        worst=strategy_name(worst.strategy, lang), times=f"{best.mean / worst.mean:.1f}",
        faster=f"{best.tokens_per_second / worst.tokens_per_second:.1f}",
    )  # fmt: skip


def _bars(name: str, results: Sequence[RaceResult], lang: str) -> None:
    value_of, form = BARS[name]
    title = t(f"race.chart.{name}", lang)
    labels = [strategy_name(r.strategy, lang) for r in results]
    values = [value_of(r) for r in results]
    texts = [form.format(value) for value in values]
    figure = charts.bars(
        [r.strategy for r in results], labels, values, texts, title=title, dark=is_dark(), revision=name,
        height=height_for(len(results)),
    )  # fmt: skip
    st.plotly_chart(
        figure, key=f"race_{name}", theme=None, config=CONFIG,
        alt=f"{title}. {charts.spoken(list(zip(labels, texts, strict=True)))}",
    )  # fmt: skip


def height_for(contenders: int) -> int:
    """Pixels of a bar chart: 22 a bar, and its title."""
    return 44 + 22 * max(contenders, 3)


def _over_time(results: Sequence[RaceResult], lang: str) -> None:
    labels = {r.strategy: strategy_name(r.strategy, lang) for r in results}
    lines = {r.strategy: thinned(r.timeline) for r in results}
    title = t("race.chart.time", lang)
    figure = charts.running_over_time(
        lines, labels, t("race.seconds", lang), title=title, dark=is_dark(), height=height_for(len(results))
    )
    st.plotly_chart(
        figure, key="race_time", theme=None, config=CONFIG,
        alt=f"{title}. {charts.spoken([(labels[r.strategy], str(r.peak)) for r in results])}",
    )  # fmt: skip


def thinned(points: Sequence[tuple[float, int]]) -> list[tuple[float, int]]:
    """Only the points where the number changes, and the last one."""
    kept = [
        point for place, point in enumerate(points)
        if place + 1 == len(points) or points[place + 1][1] != point[1]
    ]  # fmt: skip
    return [(0.0, points[0][1]), *kept] if points else []
