"""Below the picture: why paging makes attention no faster, what a step reads, and the roofline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import streamlit as st

from pages.parts.kernel_page_check import ask, asked
from pages.parts.words import t

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from core.engine.peek import Peek
    from kernels.roofline import Point, Roofline, Work
    from kernels.trace_decode import DecodeTrace

ACCENT, BLUE, ORANGE = "#B00055", "#0072B2", "#D55E00"


def size(num_bytes: float) -> str:
    """Bytes in words of three digits: 512 B, 27.6 KB, 1.2 MB."""
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("KB", 1e3)):
        if num_bytes >= scale:
            return f"{num_bytes / scale:,.1f} {unit}"
    return f"{num_bytes:,.0f} B"


def bytes_text(found: Peek, told: DecodeTrace, lang: str) -> str:
    """What the step reads, counted from its own lengths."""
    from kernels.roofline import work

    geometry, each = found.geometry, found.q.element_size()
    full = [found.rows[i].kv_len for i in found.decoding]

    def of(width: int | None) -> Work:
        lens = [n if width is None else min(n, width) for n in full]
        return work(lens, geometry.query_heads, geometry.kv_heads, geometry.head_dim, each)

    layer, every = of(found.options["window"]), sum(of(width).bytes for width in geometry.windows)
    keys = told.kv_len - told.first
    entries = -(-told.kv_len // found.k_cache.shape[1])
    mine = told.bytes_read * geometry.kv_heads
    group = geometry.query_heads // geometry.kv_heads
    return "\n\n".join(
        (
            t(
                "kernel.bytes.row", lang, kv=told.kv_head, keys=keys, dim=geometry.head_dim, each=each,
                bytes=size(told.bytes_read), seqs=len(full), heads=geometry.kv_heads, layer=size(layer.bytes),
                layers=geometry.layers, all=size(every),
            ),
            t(
                "kernel.bytes.table", lang, entries=entries, bytes=size(4 * entries),
                share=f"{4 * entries / mine:.2%}",
            ),
            t("kernel.bytes.intensity", lang, each=each, group=group, intensity=f"{layer.intensity:g}"),
        )
    )  # fmt: skip


def roofline_figure(found: Roofline, lang: str) -> go.Figure:
    """Memory's slope, arithmetic's ceiling, the intensity of decode, and the two measured points."""
    import plotly.graph_objects as go

    at = found.this.work.intensity
    ridge = found.peak / found.copy
    x = [min(at, ridge) / 8, ridge, max(at, ridge) * 8]
    y = [found.roof(i) for i in x]
    figure = go.Figure()
    figure.add_scatter(
        x=x[:2], y=y[:2], mode="lines", line={"color": BLUE, "width": 3},
        name=t("kernel.roof.memory", lang, copy=f"{found.copy:,.1f}"),
    )  # fmt: skip
    figure.add_scatter(
        x=x[1:], y=y[1:], mode="lines", line={"color": ORANGE, "width": 3},
        name=t("kernel.roof.compute", lang, peak=f"{found.peak:,.0f}"),
    )  # fmt: skip
    for key, symbol, point in (("this", "circle", found.this), ("long", "diamond", found.long)):
        figure.add_scatter(**_mark(key, symbol, point, lang))
    axis = {"type": "log", "showgrid": True, "gridcolor": "rgba(128,128,128,0.25)", "dtick": 1}
    figure.update_xaxes(title=t("kernel.roof.x", lang), **axis)
    figure.update_yaxes(title=t("kernel.roof.y", lang), **axis)
    figure.update_layout(
        height=330, margin={"l": 10, "r": 10, "t": 10, "b": 10}, uirevision="roofline",
        legend={"orientation": "h", "y": -0.25, "x": 0}, hovermode="closest",
    )  # fmt: skip
    return figure


def _mark(key: str, symbol: str, point: Point, lang: str) -> dict[str, Any]:
    name = t(
        f"kernel.roof.{key}", lang, keys=point.keys // (point.seqs if key == "long" else 1), seqs=point.seqs
    )
    hover = f"{point.us:,.0f} µs · {point.gigabytes:,.2f} GB/s · {point.gflops:,.2f} GFLOP/s"
    return {
        "x": [point.work.intensity], "y": [point.gflops], "mode": "markers", "name": f"{name}: {hover}",
        "marker": {"size": 13, "symbol": symbol, "color": ACCENT, "line": {"width": 1.5, "color": "white"}},
        "hovertext": [hover], "hoverinfo": "text",
    }  # fmt: skip


def why(lang: str) -> None:
    """Why paging makes attention no faster, and what the look-up was measured to cost."""
    st.markdown(f"##### {t('kernel.why.title', lang)}")
    st.markdown(t("kernel.why.text", lang))
    st.markdown(t("kernel.why.cost", lang))


def show_cost(found: Peek, told: DecodeTrace, lang: str) -> None:
    """The two columns below the picture."""
    left, right = st.columns((1, 1), gap="large")
    with left:
        why(lang)
        st.markdown(f"##### {t('kernel.bytes.title', lang)}")
        st.markdown(bytes_text(found, told, lang))
    with right:
        st.markdown(f"##### {t('kernel.roof.title', lang)}")
        _roofline(found, lang)


def _roofline(found: Peek, lang: str) -> None:
    st.button(
        t("kernel.roof.measure", lang), key="kernel_measure", on_click=ask, args=("measure",),
        help=t("kernel.roof.measure.help", lang),
    )  # fmt: skip
    if asked("measure"):
        from kernels.roofline import measure

        st.session_state.roofline = measure(found.q, found.k_cache, found.v_cache, found.batch, found.options)
    roof: Roofline | None = st.session_state.get("roofline")
    if roof is None:
        st.caption(t("kernel.roof.none", lang))
        return
    figures = {"copy": f"{roof.copy:,.1f}", "peak": f"{roof.peak:,.0f}"}
    if roof.device == "cpu":
        st.caption(t("kernel.roof.cpu", lang, n=roof.threads, **figures))
    else:
        st.caption(t("kernel.roof.gpu", lang, card=roof.device, **figures))
    st.plotly_chart(roofline_figure(roof, lang), key="kernel_roofline", config={"displayModeBar": False})
    if roof.this.gflops < 0.1 * roof.roof(roof.this.work.intensity):
        st.caption(t("kernel.roof.small", lang, us=f"{roof.this.us:,.0f}"))
