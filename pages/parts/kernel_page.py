"""The kernel page: one decode step, recorded or live, turn by turn, checked against the kernel itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import streamlit as st

from core.config import EngineConfig, Sampling
from pages.parts import kernel_page_check, live, model_status
from pages.parts import kernel_page_subject as subjects
from pages.parts.address import show_address
from pages.parts.guard import sentence_on_error
from pages.parts.kernel_page_cost import show_cost, why
from pages.parts.kernel_page_payload import TILES, Scene, build, good_tile
from pages.parts.kernel_page_subject import Subject
from pages.parts.kernel_page_view import show_picture
from pages.parts.labels import Labels, letter
from pages.parts.settings import values
from pages.parts.shell import language_switch
from pages.parts.words import t

if TYPE_CHECKING:
    from core.engine.peek import Peek
    from core.engine.session import LiveSession
    from core.trace.step import Trace
    from kernels.trace_decode import DecodeTrace

PROMPT = (
    "An operating system keeps a table for every program. The table says where each page of the program's "
    "memory lies"
)
FIRST_STEPS = 9  # the prompt, then a few decode steps: enough keys for several tiles
MAX_SPLITS = 4


def show() -> None:
    """One run of the page."""
    lang = st.session_state.lang
    live.begin_pending()
    live.catch_up()
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="top_line"):
        st.markdown(f"**{t('kernel.title', lang)}**")
        _source_switch(lang)
        st.space("stretch")
        model_status.show(lang)
        language_switch()
    with sentence_on_error():
        live.show_notices(lang)
        session = subjects.session()
        if subjects.source() == "live" and session is not None:
            _go_on(session)
            _inside(subjects.of_session(session), lang)
        else:
            if subjects.source() == "live":
                _offer(lang)
            _recorded(lang)
    show_address(lang=lang, lesson=None, step=None)
    if live.busy() or live.run().pending is not None or live.news():
        st.fragment(_wait, run_every=0.3)(lang)


def _source_switch(lang: str) -> None:
    def store() -> None:
        subjects.choose(st.session_state.kernel_source)

    st.session_state.kernel_source = subjects.source()
    st.segmented_control(
        t("live.source", lang), ("recorded", "live"), key="kernel_source", required=True, width="content",
        format_func=lambda source: t(f"live.source.{source}", lang), label_visibility="collapsed",
        on_change=store,
    )  # fmt: skip


def _wait(lang: str) -> None:
    """Ticks while the worker computes, and says so where it compiles kernels."""
    if not live.busy() and live.run().pending is None:
        st.rerun()
    kernel_page_check.say_compiling(lang)


def _offer(lang: str) -> None:
    """No live run: one click makes one. What was on the screen stays there below."""
    st.markdown(t("kernel.none", lang))
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.text_input(t("kernel.prompt", lang), PROMPT, key="kernel_prompt", label_visibility="collapsed")
        st.button(t("kernel.run", lang), key="kernel_run", type="primary", on_click=_run)


def _recorded(lang: str) -> None:
    """The recorded step; where its file is damaged, a sentence, and what can be said without it."""
    try:
        subject = subjects.recorded()
    except ValueError as error:
        st.error(str(error), icon=":material/error:")
        why(lang)
        return
    _inside(subject, lang)


def _run() -> None:
    """Callback: run the prompt, two answers, and go on to a decode step."""
    subjects.choose("live")
    request = {
        "prompt": st.session_state.kernel_prompt,
        "max_new_tokens": 24,
        "n": 2,
        "sampling": Sampling(temperature=0.8, seed=0),
        "ignore_eos": True,
    }
    config = EngineConfig(block_size=4, num_blocks=64, max_model_len=128)
    st.session_state.kernel_wants = FIRST_STEPS
    live.begin(live.Wish(live.wanted(), config, (request,)))


def _go_on(session: LiveSession) -> None:
    """Bring a run that was begun here to its first decode steps."""
    missing = st.session_state.get("kernel_wants", 0) - len(session.trace.steps)
    if missing > 0 and session.status.state == "idle" and session.has_work:
        session.request_step(missing)
        session.wait(1.0)
    if missing <= 0:
        st.session_state.pop("kernel_wants", None)


def _inside(subject: Subject, lang: str) -> None:
    """The controls, the picture, the check, and what it all costs."""
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="kernel_controls"):
        layer = _pick("layer", subject.layers, subject.first[0], lang)
        found = subject.peek(layer)
        if found is None:
            return
        if not found.decoding:
            _no_decode(lang)
            return
        where = _controls(found, subject, lang)
        if not subject.recorded:
            _step_button(lang)
        kernel_page_check.button(found, lang)
    row, head, tile, splits = where
    told = tell(found, row, head, tile, splits)
    st.caption(_about(found, told, head, subject, lang))
    scene = scene_of(found, row, head, subject.trace)
    group = found.geometry.query_heads // found.geometry.kv_heads
    show_picture(build(told, scene, head % group, lang, lecture=values()["lecture"]))
    kernel_page_check.show(found, told, row, subject.key, lang)
    st.divider()
    show_cost(found, told, lang)


def _no_decode(lang: str) -> None:
    if live.can_step():
        st.markdown(t("kernel.prefill", lang))
        _step_button(lang)
    else:
        st.markdown(t("kernel.over", lang))


def _step_button(lang: str) -> None:
    st.button(
        t("kernel.next", lang), key="kernel_next", on_click=live.step, help=t("kernel.next.help", lang),
        disabled=not live.can_step(),
    )  # fmt: skip


def _controls(found: Peek, subject: Subject, lang: str) -> tuple[int, int, int, int]:
    """(row of the batch, query head, keys a tile, splits)."""
    heads = range(found.geometry.query_heads)
    group = len(heads) // found.geometry.kv_heads
    names = {row: letter(_place(subject.trace, found, row)) for row in found.decoding}
    row = _pick("sequence", found.decoding, found.decoding[0], lang, names.__getitem__)

    def head_name(head: int) -> str:
        return t("kernel.head.option", lang, head=head, kv=head // group)

    head = _pick("head", heads, subject.first[1], lang, head_name)
    least = 16 if found.q.is_cuda else 1  # a product on the tensor cores takes 16 keys or more
    tiles = [tile for tile in TILES if tile >= least]
    tile = _pick("tile", tiles, max(good_tile(found.rows[row].kv_len), tiles[0]), lang)
    splits = _pick("splits", range(1, MAX_SPLITS + 1), 2, lang)
    return row, head, tile, splits


def _pick(
    name: str, options: Sequence[int], default: int, lang: str, text: Callable[[int], str] = str
) -> int:
    """A choice that outlives its widget: Streamlit forgets one when its page is left."""
    kept = st.session_state.setdefault("kernel_choice", {})
    key = f"kernel_{name}"

    def store() -> None:
        kept[name] = st.session_state[key]

    st.session_state[key] = kept[name] if kept.get(name) in options else default
    label = t(f"kernel.{name}", lang)
    return st.selectbox(
        label, options, key=key, on_change=store, format_func=lambda value: f"{label} {text(value)}",
        label_visibility="collapsed",
    )  # fmt: skip


def tell(found: Peek, row: int, head: int, tile: int, splits: int) -> DecodeTrace:
    """The decode kernel's work for one row and query head, in its own order."""
    from kernels.trace_decode import explain_decode

    kv_head = head // (found.geometry.query_heads // found.geometry.kv_heads)
    return explain_decode(
        found.q, found.k_cache, found.v_cache, found.batch, row, kv_head, tile=tile, splits=splits,
        **found.options,
    )  # fmt: skip


def _place(trace: Trace, found: Peek, row: int) -> int:
    """The sequence's place in the order of creation."""
    ids = [view.id for view in trace.steps[found.step].sequences]
    name = found.rows[row].sequence
    return ids.index(name) if name in ids else row


def scene_of(found: Peek, row: int, head: int, trace: Trace) -> Scene:
    """The told row's place, table and tokens, as the step has recorded them."""
    step, item = trace.steps[found.step], found.rows[row]
    labels = Labels(trace)
    tokens = {view.id: view.token_ids for view in step.sequences}.get(item.sequence, ())
    refs = {block.id: block.ref for block in step.blocks}
    size = found.k_cache.shape[1]
    table = item.block_table[: -(-item.kv_len // size)]
    return Scene(
        name=item.sequence,
        place=_place(trace, found, row),
        layer=found.layer,
        step=found.step,
        block_size=size,
        table=table,
        tokens=[labels.text(token) for token in tokens[: item.kv_len]],
        refs=[refs.get(block, 0) for block in table],
        engine=found.output[int(found.batch.cu_q[row + 1]) - 1, head].float().tolist(),
    )


def _about(found: Peek, told: DecodeTrace, head: int, subject: Subject, lang: str) -> str:
    meta = subject.trace.meta
    numbers: dict[str, Any] = {
        "step": found.step, "layer": found.layer, "head": head, "kv": told.kv_head,
        "n": told.kv_len - told.first, "device": meta.get("device", ""),
    }  # fmt: skip
    about = t("kernel.about", lang, **numbers)
    if not subject.recorded:
        return about
    layers = ("、" if lang == "zh" else ", ").join(map(str, subject.layers))
    return t("kernel.recorded", lang, model=meta["model"]["name"], layers=layers) + " · " + about
