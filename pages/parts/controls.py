"""Controls of the next live run: few at first, the rest one click away."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from core.config import MAX_BEAMS, MAX_SAMPLES
from pages.parts.settings import OTHER_MODEL, bind, values
from pages.parts.words import t

MODES = ("greedy", "sample", "beam")
SHARING = ("copy-on-write", "append-only", "none")
PREEMPT = ("recompute", "swap", "none")
MAX_POOL = 4096  # blocks on the page; the command line takes more


def first_controls(lang: str) -> None:
    """Prompts, lengths, pool, and how the next token is chosen."""
    st.text_area(t("set.prompts", lang), height=84, help=t("set.prompts.help", lang), **bind("prompts"))
    left, right = st.columns(2)
    left.number_input(t("set.block_size", lang), 1, 64, **bind("block_size"))
    right.number_input(t("set.num_blocks", lang), 1, MAX_POOL, **bind("num_blocks"))
    left.number_input(t("set.max_new_tokens", lang), 1, 4096, **bind("max_new_tokens"))
    right.number_input(
        t("set.max_model_len", lang),
        1,
        1 << 16,
        help=t("set.max_model_len.help", lang),
        **bind("max_model_len"),
    )
    st.segmented_control(
        t("set.mode", lang),
        MODES,
        format_func=lambda mode: t(f"set.mode.{mode}", lang),
        required=True,
        **bind("mode"),
    )
    _how_to_choose(lang, values()["mode"])


def _how_to_choose(lang: str, mode: str) -> None:
    if mode == "greedy":
        return
    most = MAX_BEAMS if mode == "beam" else MAX_SAMPLES
    low = 2 if mode == "beam" else 1
    chosen = min(max(values()["n"], low), most)
    if chosen != values()["n"]:
        values()["n"] = chosen
        st.session_state["set_n"] = chosen
    st.slider(t(f"set.n.{mode}", lang), low, most, **bind("n"))
    if mode == "beam":
        st.number_input(t("set.length_penalty", lang), -5.0, 5.0, step=0.1, **bind("length_penalty"))
        st.checkbox(t("set.early_stopping", lang), **bind("early_stopping"))
        return
    st.slider(t("set.temperature", lang), 0.1, 2.0, step=0.1, **bind("temperature"))
    left, right = st.columns(2)
    left.number_input(t("set.top_k", lang), 0, 1000, help=t("set.top_k.help", lang), **bind("top_k"))
    right.number_input(t("set.top_p", lang), 0.01, 1.0, step=0.05, **bind("top_p"))


def advanced_controls(lang: str, models: Sequence[str], devices: Sequence[str]) -> None:
    """Rules of the memory, and the model. ``models``: names in the registry; ``devices``: those there are."""
    with st.expander(t("set.advanced", lang)):
        st.selectbox(
            t("set.sharing", lang),
            SHARING,
            format_func=lambda v: t(f"set.sharing.{v}", lang),
            **bind("sharing"),
        )
        st.checkbox(t("set.prefix_cache", lang), **bind("prefix_cache"))
        st.selectbox(
            t("set.preempt", lang),
            PREEMPT,
            format_func=lambda v: t(f"set.preempt.{v}", lang),
            **bind("preempt"),
        )
        left, right = st.columns(2)
        left.number_input(t("set.host_blocks", lang), 0, MAX_POOL, **bind("host_blocks"))
        right.number_input(
            t("set.watermark", lang), 0, 99, help=t("set.watermark.help", lang), **bind("watermark")
        )
        left.number_input(
            t("set.max_batch_tokens", lang),
            1,
            1 << 16,
            help=t("set.max_batch_tokens.help", lang),
            **bind("max_batch_tokens"),
        )
        right.number_input(t("set.seed", lang), 0, 1 << 31, **bind("seed"))
        st.checkbox(t("set.chat", lang), **bind("chat"))
        st.checkbox(t("set.ignore_eos", lang), **bind("ignore_eos"))
        _model(lang, models, devices)


def _model(lang: str, models: Sequence[str], devices: Sequence[str]) -> None:
    choices = [*models, OTHER_MODEL]
    if values()["model"] not in choices:
        values()["model"] = choices[0]
    st.selectbox(
        t("set.model", lang),
        choices,
        format_func=lambda name: t("set.model.other", lang) if name == OTHER_MODEL else name,
        **bind("model"),
    )
    if values()["model"] == OTHER_MODEL:
        st.text_input(t("set.other_model", lang), placeholder="Qwen/Qwen3-0.6B", **bind("other_model"))
    left, right = st.columns(2)
    if values()["device"] not in devices:
        values()["device"] = devices[0]
    left.selectbox(t("set.device", lang), devices, **bind("device"))
    right.selectbox(t("set.dtype", lang), ("float32", "bfloat16"), **bind("dtype"))
