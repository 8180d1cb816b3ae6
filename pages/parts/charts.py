"""What the figures of the race and capacity pages share, and their bars and lines. Pure functions.

Every colour is set here, for light and for dark: Streamlit's theme would recolour text and not what it stands
on. Marks are few and each figure has its text alternative made from the same data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import plotly.graph_objects as go

# One colour a strategy, the same as in the comparison's picture.
STRATEGY: Mapping[str, str] = {
    "no cache": "#8A8F98",
    "grow by one": "#A6761D",
    "reserve max": "#CC79A7",
    "reserve power of two": "#D55E00",
    "exact": "#E69F00",
    "doubling": "#7B61C4",
    "promised pages": "#009E73",
    "paged without sharing": "#56B4E9",
    "paged": "#0072B2",
}

FONT = '"Source Sans", "Noto Sans CJK SC", "PingFang SC", "Microsoft YaHei", sans-serif'


class Look(NamedTuple):
    """Colours of what surrounds the marks."""

    ink: str
    quiet: str
    grid: str
    ground: str


LIGHT = Look("#1F2933", "#52606D", "#DDE2E8", "#FFFFFF")
DARK = Look("#E6EBF1", "#AEB9C5", "#323C48", "#12161C")


def look(dark: bool) -> Look:
    """The surroundings for a theme."""
    return DARK if dark else LIGHT


def base(dark: bool, height: int, revision: str, **layout: Any) -> dict[str, Any]:
    """What all figures share. ``revision``: zoom is kept as long as this text is the same."""
    colours = look(dark)
    axis = {
        "gridcolor": colours.grid,
        "linecolor": colours.grid,
        "zerolinecolor": colours.grid,
        "tickfont": {"color": colours.ink, "size": 12},
        "title": {"font": {"color": colours.quiet, "size": 12}},
        "automargin": True,
    }
    common = {
        "template": "none",
        "height": height,
        "uirevision": revision,
        "margin": {"l": 8, "r": 8, "t": 28, "b": 8},
        "paper_bgcolor": colours.ground,
        "plot_bgcolor": colours.ground,
        "font": {"color": colours.ink, "size": 12, "family": FONT},
        "hovermode": "closest",
        "legend": {
            "orientation": "h",
            "traceorder": "normal",
            "y": 1.0,
            "yanchor": "bottom",
            "x": 0,
            "font": {"color": colours.ink, "size": 12},
        },
    }
    for name in ("xaxis", "yaxis", "yaxis2"):
        if name in layout or name != "yaxis2":
            common[name] = merge(axis, layout.pop(name, {}))
    return common | layout


def merge(base: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Nested dictionaries laid over each other."""
    result = dict(base)
    for key, value in more.items():
        old = result.get(key)
        result[key] = merge(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return result


def bars(
    names: Sequence[str],
    labels: Sequence[str],
    values: Sequence[float | None],
    texts: Sequence[str],
    *,
    title: str,
    dark: bool,
    height: int = 200,
    revision: str = "bars",
    room: float = 1.28,
    size: int = 12,
) -> go.Figure:
    """One horizontal bar a strategy, its value written at its end; None has no bar. From top to bottom.

    ``room``: the axis is that many times as long as the longest bar, so that its text fits. ``size``: of its
    texts, in pixels.
    """
    shown = [0 if value is None else value for value in values]
    bar = go.Bar(
        x=shown,
        y=list(labels),
        orientation="h",
        text=list(texts),
        textposition="outside",
        cliponaxis=False,
        textfont={"color": look(dark).ink, "size": size},
        hovertemplate="%{y}: %{text}<extra></extra>",
        marker={"color": [STRATEGY.get(name, look(dark).quiet) for name in names]},
    )
    end = max(shown, default=0.0) * room or 1.0
    return go.Figure(
        data=[bar],
        layout=base(
            dark,
            height,
            revision,
            showlegend=False,
            bargap=0.3,
            title={
                "text": title,
                "font": {"size": size + 1, "color": look(dark).ink},
                "x": 0,
                "xanchor": "left",
            },
            xaxis={"range": [0, end], "showticklabels": False, "showgrid": False, "fixedrange": True},
            yaxis={
                "autorange": "reversed",
                "fixedrange": True,
                "showgrid": False,
                "tickfont": {"size": size},
            },
        ),
    )


def running_over_time(
    lines: Mapping[str, Sequence[tuple[float, int]]],
    labels: Mapping[str, str],
    unit: str,
    *,
    title: str,
    dark: bool,
    height: int = 200,
) -> go.Figure:
    """Requests running over the seconds of each contender's own run, as steps."""
    data = []
    for name, points in lines.items():
        data.append(
            go.Scatter(
                x=[seconds for seconds, _ in points],
                y=[running for _, running in points],
                name=labels[name],
                mode="lines",
                line={"shape": "vh", "color": STRATEGY[name], "width": 3 if name == "paged" else 1.8},
                hovertemplate="%{x:.2f} s: %{y}<extra>" + labels[name] + "</extra>",
            )
        )
    return go.Figure(
        data=data,
        layout=base(
            dark,
            height,
            "running_over_time",
            showlegend=False,
            title={"text": title, "font": {"size": 13, "color": look(dark).ink}, "x": 0, "xanchor": "left"},
            xaxis={"title": {"text": unit}, "rangemode": "tozero", "showgrid": False},
            yaxis={"rangemode": "tozero"},
        ),
    )


def spoken(pairs: Sequence[tuple[str, str]]) -> str:
    """A figure's text alternative: what it shows, value by value."""
    return "; ".join(f"{label}: {value}" for label, value in pairs)
