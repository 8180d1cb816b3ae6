"""Once a loaded model: pack its linear layers on a CPU, then hold it against itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.engine.selftest import self_test
from kernels import pack_linears

if TYPE_CHECKING:
    from core.models.loaded import LoadedModel

# Weights below this stay in the processor's cache: packing gains nothing, and its timing takes longer.
PACKED_BYTES = 16 << 20


def prepare(model: LoadedModel) -> None:
    """Make the model ready for the engine; the second time does nothing. Safe from several threads.

    Call it where a model is loaded, so that nobody waits later; an Engine calls it too. Raises
    UnsupportedModel, with the numbers, when the paged store would change the model's logits.
    """
    with model.lock:
        if getattr(model.model, "kvpool_ready", False):
            return
        if model.device == "cpu" and sum(p.nbytes for p in model.model.parameters()) >= PACKED_BYTES:
            pack_linears(model.model)
        self_test(model)
        model.model.kvpool_ready = True  # kept with the weights that it is said of
