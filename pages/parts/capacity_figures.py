"""The paper's Fig. 2 and Fig. 13 on the capacity page: paper and ours side by side, and why they differ."""

from __future__ import annotations

import streamlit as st

from core.compare.paper import KINDS, PAPER_NAMES, RATES
from pages.parts import charts, charts_paper
from pages.parts.bound import bound, is_dark
from pages.parts.capacity_paper import figure_2, figure_13, simulate_all, worst
from pages.parts.charts_paper import Beside
from pages.parts.words import t

FACTORS = (0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0)  # times the paper's
SIZES = (1, 4, 8, 16, 32, 64, 128)
CONFIG = {"displayModeBar": False}


def show_figures(lang: str) -> None:
    """Simulate what is not known yet, then draw all three figures."""
    mine = st.session_state.capacity
    with st.container(horizontal=True, vertical_alignment="bottom", gap="large"):
        st.select_slider(
            t("capacity.paper.rate", lang), FACTORS, width=300, **bound("cap", mine, "rate"),
            format_func=lambda n: t("capacity.paper.rate.paper", lang) if n == 1 else t(
                "capacity.paper.rate.times", lang, n=f"{n:g}"),
        )  # fmt: skip
        st.select_slider(
            t("capacity.paper.size", lang), SIZES, width=300, **bound("cap", mine, "simulated_size")
        )
        st.caption(t("capacity.paper.setup", lang))
    place = st.empty()
    label = t("capacity.paper.progress", lang, name="OPT-13B")
    results = simulate_all(
        mine.rate, mine.simulated_size, lambda share: place.progress(share, label) and None
    )
    place.empty()
    shares = figure_2(results[0], PAPER_NAMES)
    batched = {
        name: figure_13(name, found, PAPER_NAMES) for name, found in zip(RATES, results[1:], strict=True)
    }
    left, right = st.columns((6, 5), gap="medium")
    with left:
        _shares(shares, lang)
    with right:
        for name, cells in batched.items():
            _at_once(name, cells, lang)
    if (mine.rate, mine.simulated_size) == (1.0, 16):
        points, where = worst(shares, relative=False)
        percent, where13 = worst(batched["ShareGPT"], relative=True)
        off = {"points": f"{points:.1f}", "where": where, "percent": f"{percent:.1f}", "where13": where13}
        st.markdown(t("capacity.paper.worst", lang, **off))
    else:
        st.markdown(t("capacity.paper.changed", lang))
    with st.expander(t("capacity.paper.why", lang)):
        st.markdown(t("capacity.paper.reasons", lang))


def _beside(lang: str) -> tuple[str, str]:
    return t("capacity.paper.paper", lang), t("capacity.paper.ours", lang)


def _shares(cells: list[Beside], lang: str) -> None:
    title = t("capacity.paper.fig2", lang)
    kinds = {kind: t(f"capacity.paper.kind.{kind}", lang) for kind in KINDS}
    st.markdown(f"**{title}**")
    st.plotly_chart(
        charts_paper.shares(cells, kinds, _beside(lang), dark=is_dark(), height=440),
        key="figure_2", theme=None, config=CONFIG, alt=f"{title}. {told(cells, kinds, _beside(lang))}",
    )  # fmt: skip


def _at_once(name: str, cells: list[Beside], lang: str) -> None:
    title = t("capacity.paper.fig13", lang, name=name)
    st.plotly_chart(
        charts_paper.at_once(cells, _beside(lang), title=title, dark=is_dark(), height=225),
        key=f"figure_13_{name}", theme=None, config=CONFIG, alt=f"{title}. {told(cells, {}, _beside(lang))}",
    )  # fmt: skip


def told(cells: list[Beside], kinds: dict[str, str], beside: tuple[str, str]) -> str:
    """Every value of a figure in words: the paper's where it has one, and ours."""
    pairs = []
    for cell in cells:
        paper = "" if cell.paper is None else f"{beside[0]} {cell.paper:g}, "
        kind = f" {kinds[cell.kind]}" if cell.kind in kinds else ""
        pairs.append((f"{cell.label}{kind}", f"{paper}{beside[1]} {cell.ours:.1f}"))
    return charts.spoken(pairs)
