"""The paper's Fig. 2 and Fig. 13 beside ours: simulated piece by piece, each piece remembered."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from core.compare.paper import FIG_2, FIG_13, FULL_RATE, KINDS, RATES, serve
from core.compare.simulate import STRATEGIES, SimResult
from core.compare.workload import ALPACA, SHAREGPT, Lengths
from pages.parts.charts_paper import Beside

SECONDS = {"ShareGPT": 1200.0, "Alpaca": 600.0}  # simulated
LENGTHS: dict[str, Lengths] = {"ShareGPT": SHAREGPT, "Alpaca": ALPACA}


@st.cache_data(max_entries=512, show_spinner=False)
def simulated(workload: str, rate: float, strategy: str, block_size: int) -> SimResult:
    """OPT-13B on one A100-40GB under one strategy: some minutes of serving in under a second."""
    found = serve(
        LENGTHS[workload], rate, SECONDS[workload], 0, None, (strategy,), block_size
    )  # the same requests for every strategy: same seed
    return found[strategy]


def pieces(factor: float) -> list[tuple[str, float]]:
    """The three simulations: Fig. 2, and Fig. 13 for both workloads. ``factor``: times the paper's rates."""
    return [
        (SHAREGPT.name, factor * FULL_RATE),
        (SHAREGPT.name, factor * RATES["ShareGPT"]),
        (ALPACA.name, factor * RATES["Alpaca"]),
    ]


def simulate_all(
    factor: float, block_size: int, progress: Callable[[float], None]
) -> list[dict[str, SimResult]]:
    """All pieces under all strategies, one after the other; ``progress`` gets the share that is done."""
    results: list[dict[str, SimResult]] = []
    for number, (workload, rate) in enumerate(pieces(factor)):
        results.append({})
        for place, name in enumerate(STRATEGIES):
            progress((number * len(STRATEGIES) + place) / (3 * len(STRATEGIES)))
            results[-1][name] = simulated(workload, rate, name, block_size if name == "paged" else 16)
    return results


def figure_2(results: dict[str, SimResult], labels: dict[str, str]) -> list[Beside]:
    """The cells of Fig. 2, in per cent."""
    return [
        Beside(labels[name], kind, value, 100 * getattr(results[name], kind))
        for name, row in FIG_2.items()
        for kind, value in zip(KINDS, row, strict=True)
    ]


def figure_13(workload: str, results: dict[str, SimResult], labels: dict[str, str]) -> list[Beside]:
    """The bars of Fig. 13: requests at once."""
    return [
        Beside(labels[name], name, value, results[name].batched) for name, value in FIG_13[workload].items()
    ]


def worst(cells: list[Beside], relative: bool) -> tuple[float, str]:
    """The largest difference from the paper (points, or per cent of the paper's figure), and where."""
    offs = [
        (abs(100 * (c.ours / c.paper - 1) if relative else c.ours - c.paper), c.label)
        for c in cells
        if c.paper is not None and (c.paper or not relative)
    ]
    return max(offs)
