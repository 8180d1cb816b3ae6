"""What a step's time is spent on: shares of linear layers, output layer, attention, norms, and all else.

Forward hooks read the clock before and after each module. They cost about a microsecond each, a few hundred
a step, so shares are taken in a run of their own and never mixed with speeds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Any

from torch import nn

KINDS = ("linear layers", "output layer", "attention", "norms", "other")


def kind(model: Any, module: nn.Module) -> str | None:
    """What a module counts as; None: it counts as what it is called from."""
    if module is model.get_output_embeddings():
        return "output layer"
    name = type(module).__name__
    if isinstance(module, nn.Linear) or name in ("JoinedLinear", "Conv1D"):  # the latter is GPT-2's
        return "linear layers"
    if name.endswith(("RMSNorm", "LayerNorm")):
        return "norms"
    return "attention" if name.endswith("Attention") else None


@contextmanager
def watched(model: Any, spent: dict[str, float]) -> Iterator[None]:
    """Add up seconds by kind in ``spent`` while inside: its own, without those of kinds within it."""
    stack: list[list[float]] = []  # of the modules being computed: start, seconds of kinds within

    def before(*_: Any) -> None:
        stack.append([perf_counter(), 0.0])

    def after(name: str) -> Callable[..., None]:
        def hook(*_: Any) -> None:
            began, within = stack.pop()
            took = perf_counter() - began
            spent[name] += took - within
            if stack:
                stack[-1][1] += took

        return hook

    handles = []
    for module in model.modules():
        name = kind(model, module)
        if name is not None:
            handles.append(module.register_forward_pre_hook(before))
            handles.append(module.register_forward_hook(after(name)))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def shares(model: Any, run: Callable[[], Any]) -> dict[str, float]:
    """Percent of ``run``'s time by kind; "other" is what no watched module took."""
    spent: dict[str, float] = defaultdict(float)
    with watched(model, spent):
        began = perf_counter()
        run()
        whole = perf_counter() - began
    spent["other"] = whole - sum(spent.values())
    return {name: 100 * spent[name] / whole for name in KINDS}


def sentence(found: dict[str, float]) -> str:
    """The shares in words: "linear layers 61 %, attention 14 %, ..."."""
    return ", ".join(f"{name} {share:.0f} %" for name, share in found.items())
