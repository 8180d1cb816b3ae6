"""The capacity page: the calculator, the block size, the paper's figures. Draws; callbacks change."""

from __future__ import annotations

from typing import Any

import streamlit as st

from core.compare.block_size import SIZES, BlockSizeRow, sweep
from core.compare.capacity import DTYPE_BYTES
from core.compare.catalogue import CARDS, MODELS
from core.compare.workload import KINDS, draw
from pages.parts import charts, charts_paper
from pages.parts.address import show_address
from pages.parts.bound import bound, is_dark
from pages.parts.capacity_figures import show_figures
from pages.parts.capacity_numbers import (
    ERROR_MODEL,
    FACTORS,
    OWN,
    Choices,
    error_numbers,
    room_of,
    rows_of,
    shape_of,
)
from pages.parts.guard import sentence_on_error
from pages.parts.say import strategy_name
from pages.parts.shell import language_switch
from pages.parts.words import t

PARTS = ("calculator", "blocks", "paper")
NUMBERS: dict[str, tuple[int, int]] = {
    "layers": (1, 512), "kv_heads": (1, 512), "head_dim": (1, 1024), "windowed": (0, 512),
    "window": (1, 1 << 20), "prompt": (1, 1 << 20), "new": (1, 1 << 20), "max_len": (2, 1 << 20),
}  # fmt: skip


def choices() -> Choices:
    """This tab's numbers, made on first use."""
    if "capacity" not in st.session_state:
        st.session_state.capacity = Choices()
    return st.session_state.capacity


def show() -> None:
    """One run of the page."""
    lang = st.session_state.lang
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="top_line"):
        st.markdown(f"### {t('capacity.title', lang)}")
        st.segmented_control(
            t("capacity.part", lang), PARTS, required=True, label_visibility="collapsed", width="content",
            format_func=lambda part: t(f"capacity.part.{part}", lang), **bound("cap", choices(), "part"),
        )  # fmt: skip
        st.space("stretch")
        language_switch()
    with sentence_on_error():
        {"calculator": _calculator, "blocks": _blocks, "paper": show_figures}[choices().part](lang)
    show_address(lang=lang, lesson=None, step=None)


def _number(name: str, lang: str, then: Any = None) -> None:
    low, high = NUMBERS[name]
    words = "capacity." + name
    st.number_input(
        t(words, lang), low, high, step=1, help=t(f"{words}.help", lang) if name in HELPED else None,
        **bound("cap", choices(), name, then),
    )  # fmt: skip


HELPED = ("kv_heads", "windowed", "max_len")


def _calculator(lang: str) -> None:
    left, right = st.columns((5, 8), gap="large")
    mine = choices()
    with left:
        _inputs(lang)
        st.space("small")
        _find_the_error(mine, lang)
    with right:
        _formula(mine, lang)
        room = room_of(mine)
        usable = mine.cards * mine.memory * (1 << 30) * mine.utilisation / 1e11
        if room <= 0:
            st.warning(t("capacity.no_room", lang, weights=f"{mine.weights:,.1f}", usable=f"{usable:,.1f}"))
        else:
            _room(mine, room, lang)
            _requests(mine, lang)


def _inputs(lang: str) -> None:
    mine = choices()

    def name_of(name: str) -> str:
        return t("capacity.own", lang) if name == OWN else name

    columns = st.columns(2)
    with columns[0]:
        st.selectbox(t("capacity.model", lang), [*MODELS, OWN], format_func=name_of,
                     **bound("cap", mine, "model", mine.take_model))  # fmt: skip
    with columns[1]:
        st.selectbox(t("capacity.card", lang), [*CARDS, OWN], format_func=name_of,
                     **bound("cap", mine, "card", mine.take_card))  # fmt: skip
    columns = st.columns(3)
    with columns[0]:
        _number("layers", lang, mine.own_model)
        _number("prompt", lang)
    with columns[1]:
        _number("kv_heads", lang, mine.own_model)
        _number("new", lang)
    with columns[2]:
        _number("head_dim", lang, mine.own_model)
        _number("max_len", lang)
    with st.expander(t("capacity.more", lang), icon=":material/tune:"):
        _more(mine, lang)


def _more(mine: Choices, lang: str) -> None:
    """What follows from the model and the card, and is rarely changed."""
    columns = st.columns(3)
    with columns[0]:
        st.number_input(t("capacity.weights", lang), 0.0, 1e5, step=0.5, **bound("cap", mine, "weights"))
        st.selectbox(t("capacity.dtype", lang), list(DTYPE_BYTES), **bound("cap", mine, "dtype"))
    with columns[1]:
        st.number_input(t("capacity.memory", lang), 0.5, 1e4, step=1.0,
                        **bound("cap", mine, "memory", mine.own_card))  # fmt: skip
        _number("windowed", lang, mine.own_model)
    with columns[2]:
        st.number_input(t("capacity.cards", lang), 1, 1024, step=1, **bound("cap", mine, "cards"))
        _number("window", lang, mine.own_model)
    st.selectbox(t("capacity.block_size", lang), SIZES, **bound("cap", mine, "block_size"))
    st.slider(t("capacity.utilisation", lang), 10, 100, step=1, **bound("cap", mine, "utilisation"))


def _formula(mine: Choices, lang: str) -> None:
    """2 x layers x KV heads x head dimension x bytes, each number with its name under it."""
    values = (2, mine.layers, mine.kv_heads, mine.head_dim, DTYPE_BYTES[mine.dtype])
    parts = [
        f"<span><b>{value:,}</b><i>{t(f'capacity.factor.{name}', lang)}</i></span>"
        for name, value in zip(FACTORS, values, strict=True)
    ]
    total, theme = shape_of(mine).bytes_per_token, " dark" if is_dark() else ""
    result = f"<span class='total'><b>{total:,}</b><i>{t('capacity.factor.result', lang)}</i></span>"
    st.html(
        f"<div class='formula{theme}' role='math' aria-label='{t('capacity.formula', lang)}'>"
        + "<em>×</em>".join(parts) + "<em>=</em>" + result + "</div>"
    )  # fmt: skip


def _room(mine: Choices, room: float, lang: str) -> None:
    shape = shape_of(mine)
    st.markdown(
        t(
            "capacity.room", lang, memory=f"{mine.cards * mine.memory * (1 << 30) / 1e9:,.1f}",
            utilisation=mine.utilisation, weights=f"{mine.weights:,.1f}", room=f"{room / 1e9:,.2f}",
            slots=f"**{int(room // shape.bytes_per_token):,}**",
        )
    )  # fmt: skip
    length = mine.prompt + mine.new - 1
    if mine.windowed and length > mine.window:
        mb, full = shape.sequence_bytes(length) / 1e6, length * shape.bytes_per_token / 1e6
        st.caption(
            t("capacity.room.window", lang, n=mine.windowed, layers=mine.layers, window=mine.window,
              length=length, mb=f"{mb:,.1f}", full=f"{full:,.1f}")
        )  # fmt: skip


def _requests(mine: Choices, lang: str) -> None:
    rows = rows_of(mine)
    names = [row.strategy for row in rows]
    labels = [strategy_name(name, lang) for name in names]
    texts = [
        t("capacity.bar", lang, n=f"{row.requests:,}", share=f"{100 * row.live_share:.0f}") for row in rows
    ]
    title = t("capacity.chart", lang, prompt=mine.prompt, new=mine.new)
    figure = charts.bars(
        names, labels, [row.requests for row in rows], texts, title=title, dark=is_dark(), height=520,
        revision="capacity", room=1.7, size=14,
    )  # fmt: skip
    st.plotly_chart(
        figure, key="capacity_requests", theme=None, config={"displayModeBar": False},
        alt=f"{title}. " + charts.spoken(list(zip(labels, texts, strict=True))),
    )  # fmt: skip
    promised = t("capacity.promised", lang, name=strategy_name("promised pages", lang))
    st.caption(f"{t('capacity.look', lang)}  \n{promised}")


def _find_the_error(mine: Choices, lang: str) -> None:
    numbers = error_numbers()
    said: dict[str, object] = {
        "model": ERROR_MODEL, "heads": numbers["query_heads"], "layers": numbers["layers"],
        "kv_heads": numbers["kv_heads"], "head_dim": numbers["head_dim"], "bytes": numbers["bytes"],
        "wrong": f"{numbers['wrong']:,}", "right": f"{numbers['right']:,}", "times": numbers["times"],
    }  # fmt: skip
    with st.container(border=True, key="find_the_error"):
        st.markdown(f"**{t('capacity.error', lang)}** · {t('capacity.error.ask', lang, **said)}")
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            for name in FACTORS:
                words = t(f"capacity.error.{name}", lang, **said)
                st.button(words, key=f"error_{name}", on_click=_answer, args=(name,))
        if mine.answer:
            sign, words = ("✓", "right") if mine.answer == "heads" else ("✗", "not")
            st.markdown(f"{sign} {t(f'capacity.error.{words}', lang, **said)}")


def _answer(name: str) -> None:
    choices().answer = name


@st.cache_data(max_entries=8, show_spinner=False)
def swept(workload: str, count: int = 5000) -> list[BlockSizeRow]:
    """Waste and table length for every block size, over requests drawn like a workload's."""
    return sweep(draw(KINDS[workload], count, 4.0), SIZES)


def _blocks(lang: str) -> None:
    mine = choices()
    with st.container(horizontal=True, vertical_alignment="bottom", gap="large"):
        st.segmented_control(
            t("capacity.blocks.workload", lang), list(KINDS), required=True, width="content",
            format_func=lambda name: KINDS[name].name, **bound("cap", mine, "workload"),
        )  # fmt: skip
        st.select_slider(t("capacity.blocks.size", lang), SIZES, width=420, **bound("cap", mine, "size"))
    rows = swept(mine.workload)
    row = next(row for row in rows if row.block_size == mine.size)
    said = t(
        "capacity.blocks.said", lang, size=row.block_size, waste=f"{100 * row.waste:.2f}",
        slots=f"{row.wasted_slots:.1f}", entries=f"{row.entries:,.1f}", bytes=f"{row.table_bytes:,.0f}",
    )  # fmt: skip
    st.markdown(f"**{said}**")
    names = (t("capacity.blocks.waste", lang), t("capacity.blocks.entries", lang))
    figure = charts_paper.block_sizes(
        SIZES, [100 * row.waste for row in rows], [row.entries for row in rows], mine.size, names,
        dark=is_dark(), height=500,
    )  # fmt: skip
    st.plotly_chart(
        figure, key="block_sizes", theme=None, config={"displayModeBar": False},
        alt=charts.spoken([(str(r.block_size), f"{100 * r.waste:.2f} %, {r.entries:.1f}") for r in rows]),
    )  # fmt: skip
    st.caption(t("capacity.blocks.look", lang))
    st.caption(t("capacity.blocks.drawn", lang, n="5,000", name=KINDS[mine.workload].name))
