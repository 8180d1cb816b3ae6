"""The kernel page's proof: the very kernel on the very pool, held against the engine's output."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import streamlit as st

from pages.parts import live
from pages.parts.words import t

if TYPE_CHECKING:
    from core.engine.peek import Peek
    from kernels.interpret import KernelRun
    from kernels.trace_decode import DecodeTrace


ASKED = "kernel_asked"  # what a button asked for; it is done in the run that follows


def ask(what: str) -> None:
    """Callback of the page's two buttons."""
    st.session_state[ASKED] = what


def asked(what: str) -> bool:
    """Whether this was asked for and is to be done now."""
    if st.session_state.get(ASKED) != what:
        return False
    del st.session_state[ASKED]
    return True


def button(found: Peek, lang: str) -> None:
    """Draw the button; nothing where the kernel cannot run."""
    from kernels.interpret import can_run

    if can_run(found.q.device):
        st.button(
            t("kernel.launch", lang), key="kernel_launch", type="primary", on_click=ask, args=("launch",),
            help=t("kernel.launch.help", lang),
        )  # fmt: skip


def show(found: Peek, told: DecodeTrace, row: int, subject: str, lang: str) -> None:
    """Run the kernel if it was asked for; then say by how much the results differ. ``subject``: its key."""
    key = (subject, found.step, found.layer, told.tile, len(told.parts))
    if asked("launch"):
        with st.spinner(t("kernel.launching", lang)):
            st.session_state.kernel_check = (key, launch(found, told))
    kept = st.session_state.get("kernel_check")
    run = kept[1] if kept is not None and kept[0] == key else None
    st.markdown(text(found, told, row, run, lang))


def launch(found: Peek, told: DecodeTrace) -> KernelRun:
    """The decode kernel on the peeked layer, cut into tiles and splits as the picture is."""
    from kernels.interpret import run_decode

    b = found.batch
    return run_decode(
        found.q, found.k_cache, found.v_cache, b.block_tables, b.cu_q, b.kv_lens, tile=told.tile,
        splits=len(told.parts), **found.options,
    )  # fmt: skip


def differences(
    found: Peek, told: DecodeTrace, row: int, run: KernelRun | None
) -> tuple[float | None, float, float]:
    """Largest difference from the engine's output: of the kernel (all decode rows and heads), of the
    picture (its row, KV head); and the largest output."""
    import torch

    rows = [int(found.batch.cu_q[i + 1]) - 1 for i in found.decoding]
    engine = found.output.float().cpu()
    group = len(told.output)
    heads = slice(told.kv_head * group, (told.kv_head + 1) * group)
    mine = engine[int(found.batch.cu_q[row + 1]) - 1, heads]
    of_told = float((torch.tensor(told.output) - mine).abs().max())
    of_kernel = None if run is None else float((run.output.float()[rows] - engine[rows]).abs().max())
    return of_kernel, of_told, float(engine[rows].abs().max())


def text(found: Peek, told: DecodeTrace, row: int, run: KernelRun | None, lang: str) -> str:
    """One line: what ran, and how far apart the results are."""
    from kernels.interpret import can_run

    of_kernel, of_told, largest = differences(found, told, row, run)
    numbers = {"told": f"{of_told:.1e}", "size": f"{largest:.2f}"}
    if run is None or of_kernel is None:
        first = "kernel.check.none" if can_run(found.q.device) else "kernel.no_triton"
        return t(first, lang) + " " + t("kernel.check.told", lang, **numbers)
    ran = t(
        f"kernel.check.{run.how}", lang, programs=run.programs, seconds=f"{run.seconds:.1f}",
        splits=len(told.parts), tile=told.tile,
    )  # fmt: skip
    return ran + " " + t("kernel.check.diff", lang, diff=f"{of_kernel:.1e}", **numbers)


def say_compiling(lang: str) -> None:
    """On a GPU: say so while new kernel variants turn up, for then a step is slow because it compiles."""
    session = live.run().session
    if session is None or "cuda" not in str(session.trace.meta.get("device")) or "triton" not in sys.modules:
        return
    from kernels.warm import compilations

    count = compilations()
    if count != st.session_state.get("kernel_compiled", 0):
        st.caption(t("kernel.compiling", lang, n=count))
    st.session_state.kernel_compiled = count
