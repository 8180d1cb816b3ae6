"""Once a loaded model: hold it against itself, then pack its linear layers on a CPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.engine.selftest import self_test
from kernels import pack_linears

if TYPE_CHECKING:
    from core.models.loaded import LoadedModel

PACKED_BYTES = 16 << 20  # weights below this stay in the processor's cache: packing gains nothing
EXACT = 1e-4  # the largest logit difference that fp32 is to have


def prepare(model: LoadedModel) -> None:
    """Make the model ready for the engine; the second time does nothing. Safe from several threads.

    Call it where a model is loaded, so that nobody waits later; an Engine calls it too. Raises
    UnsupportedModel, with the numbers, when the paged store would change the model's logits.

    A packed product rounds about twice as much as a plain one. Where large logits bring the rounding of
    fp32 near the limit already (Gemma), only the output layer is packed, whose rounding nothing amplifies.
    """
    with model.lock:
        if getattr(model.model, "kvpool_ready", False):
            return
        difference = self_test(model)
        if model.device == "cpu" and sum(p.nbytes for p in model.model.parameters()) >= PACKED_BYTES:
            output = model.model.get_output_embeddings()
            last = {name for name, m in model.model.named_modules() if m is output}
            exact = model.geometry.dtype != "float32" or difference <= EXACT
            pack_linears(model.model, only=lambda name: exact or name in last)
        model.model.kvpool_ready = True  # kept with the weights that it is said of
