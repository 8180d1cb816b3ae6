"""Figures of the capacity page that stand beside the paper's: pure functions from data to Plotly figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import plotly.graph_objects as go

from pages.parts.charts import STRATEGY, base, look

KIND: Mapping[str, str] = {  # what a slot holds, as the paper's Fig. 2 divides it
    "tokens": "#0072B2",
    "reserved": "#56B4E9",
    "internal": "#E69F00",
    "external": "#CC79A7",
}
HATCH: Mapping[str, str] = {"tokens": "", "reserved": "/", "internal": "x", "external": ""}


class Beside(NamedTuple):
    """One system in one figure of the paper: the paper's value and ours; None where it prints none."""

    label: str
    kind: str
    paper: float | None
    ours: float


def shares(
    cells: Sequence[Beside],
    kinds: Mapping[str, str],
    beside: tuple[str, str],
    *,
    dark: bool,
    height: int = 330,
) -> go.Figure:
    """Fig. 2: for every system two stacked bars, the paper's and ours, in per cent of all slots.

    ``kinds``: kind -> its name, in stacking order; ``beside``: what the two bars of a system are called.
    """
    systems = list(dict.fromkeys(cell.label for cell in cells))
    found = {(cell.label, cell.kind): cell for cell in cells}
    rows = [(system, source) for system in systems for source in (0, 1)]
    axis = [[system for system, _ in rows], [beside[source] for _, source in rows]]
    data = []
    for kind, name in kinds.items():
        values = [
            found[system, kind].ours if source else found[system, kind].paper for system, source in rows
        ]
        data.append(
            go.Bar(
                x=[value or 0 for value in values],
                y=axis,
                name=name,
                orientation="h",
                insidetextanchor="middle",
                text=["" if value is None or value < 4 else f"{value:.1f}" for value in values],
                textposition="inside",
                textangle=0,
                textfont={"color": "#FFFFFF" if kind == "tokens" else "#0B0F14", "size": 12},
                marker={
                    "color": KIND[kind],
                    "line": {"color": look(dark).ground, "width": 1},
                    "pattern": {
                        "shape": HATCH[kind],
                        "fgcolor": "rgba(11,15,20,0.25)",
                        "size": 6,
                        "fillmode": "overlay",
                    },
                },
                hovertemplate="%{y}: %{x:.1f} %<extra>" + name + "</extra>",
            )
        )
    return go.Figure(
        data=data,
        layout=base(
            dark,
            height,
            "shares",
            barmode="stack",
            bargap=0.22,
            xaxis={"range": [0, 100], "ticksuffix": " %", "fixedrange": True},
            yaxis={"autorange": "reversed", "fixedrange": True, "showgrid": False},
        ),
    )


def at_once(
    cells: Sequence[Beside], beside: tuple[str, str], *, title: str, dark: bool, height: int = 240
) -> go.Figure:
    """Fig. 13: requests at once, the paper's and ours side by side. ``kind`` of a cell is its strategy."""
    labels = [cell.label for cell in cells]
    colours = [STRATEGY[cell.kind] for cell in cells]
    common = {
        "x": labels,
        "textposition": "outside",
        "cliponaxis": False,
        "textfont": {"color": look(dark).ink},
    }
    paper = go.Bar(
        name=beside[0],
        y=[cell.paper for cell in cells],
        text=[_short(cell.paper) for cell in cells],
        marker={"color": look(dark).ground, "line": {"color": colours, "width": 2}},
        **common,
    )
    ours = go.Bar(
        name=beside[1],
        y=[cell.ours for cell in cells],
        text=[_short(cell.ours) for cell in cells],
        marker={"color": colours, "line": {"color": colours, "width": 2}},
        **common,
    )
    top = max([cell.ours for cell in cells] + [cell.paper or 0 for cell in cells], default=1.0)
    return go.Figure(
        data=[paper, ours],
        layout=base(
            dark,
            height,
            "at_once",
            barmode="group",
            bargap=0.3,
            bargroupgap=0.06,
            showlegend=False,
            title={"text": title, "font": {"size": 13, "color": look(dark).ink}, "x": 0, "xanchor": "left"},
            xaxis={"fixedrange": True, "showgrid": False},
            yaxis={"range": [0, 1.18 * top], "showticklabels": False, "fixedrange": True, "showgrid": False},
        ),
    )


def _short(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}" if value < 100 else f"{value:.0f}"


def block_sizes(
    sizes: Sequence[int],
    waste: Sequence[float],
    entries: Sequence[float],
    chosen: int,
    names: tuple[str, str],
    *,
    dark: bool,
    height: int = 330,
) -> go.Figure:
    """Waste (per cent, left) against entries of a block table (right, logarithmic) by block size; the chosen
    size stands out on both lines."""
    labels = [str(size) for size in sizes]
    at = list(sizes).index(chosen)
    colours = look(dark)
    marks = [11 if place == at else 6 for place in range(len(sizes))]
    first = "#D55E00" if not dark else "#FF9A4D"
    second = "#0072B2" if not dark else "#6BB8E8"
    left = go.Scatter(
        x=labels,
        y=list(waste),
        name=names[0],
        mode="lines+markers",
        line={"color": first, "width": 2.5},
        marker={"size": marks, "color": first, "opacity": 1, "line": {"width": 0}},
        hovertemplate="%{x}: %{y:.2f} %<extra>" + names[0] + "</extra>",
    )
    right = go.Scatter(
        x=labels,
        y=list(entries),
        name=names[1],
        mode="lines+markers",
        yaxis="y2",
        line={"color": second, "width": 2.5, "dash": "dash"},
        marker={"size": marks, "color": second, "symbol": "square", "opacity": 1, "line": {"width": 0}},
        hovertemplate="%{x}: %{y:.1f}<extra>" + names[1] + "</extra>",
    )
    cursor = {
        "type": "line",
        "x0": at,
        "x1": at,
        "xref": "x",
        "y0": 0,
        "y1": 1,
        "yref": "paper",
        "line": {"color": colours.quiet, "width": 1, "dash": "dot"},
    }
    return go.Figure(
        data=[left, right],
        layout=base(
            dark,
            height,
            "block_sizes",
            shapes=[cursor],
            xaxis={"type": "category", "fixedrange": True, "showgrid": False},
            yaxis={
                "rangemode": "tozero",
                "ticksuffix": " %",
                "fixedrange": True,
                "tickfont": {"color": first},
            },
            yaxis2={
                "overlaying": "y",
                "side": "right",
                "type": "log",
                "showgrid": False,
                "fixedrange": True,
                "tickfont": {"color": second},
                "dtick": 1,
            },
        ),
    )
