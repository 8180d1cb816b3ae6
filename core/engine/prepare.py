"""Once a loaded model: make it fast on a CPU, then hold it against itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from core.engine.selftest import self_test
from kernels import fuse_norms, pack_linears

if TYPE_CHECKING:
    from core.models.loaded import LoadedModel

PACKED_BYTES = 16 << 20  # weights below this stay in the processor's cache: packing gains nothing
CHAIN = 288  # products that an fp32 packed layer adds up in one chain


def prepare(model: LoadedModel) -> None:
    """Make the model ready for the engine; the second time does nothing. Safe from several threads.

    Call it where a model is loaded, so that nobody waits later; an Engine calls it too. Raises
    UnsupportedModel, with the numbers, when the paged store would change the model's logits.

    A packed product adds up in one chain and rounds about twice as much as a plain one, and what a layer
    rounds the next ones amplify. So fp32 chains are cut to CHAIN inputs, which rounds little more than a
    plain product, and only the layers are packed that still gain by it: gate, up and the output layer. Of a
    16-bit model, whose own rounding is far larger, everything is packed, in whole chains.
    """
    with model.lock:
        if getattr(model.model, "kvpool_ready", False):
            return
        if model.device == "cpu" and sum(p.nbytes for p in model.model.parameters()) >= PACKED_BYTES:
            if model.geometry.dtype == "float32":
                wide = wide_layers(model.model)
                pack_linears(model.model, only=wide.__contains__, chain=CHAIN)
            else:
                pack_linears(model.model)
            fuse_norms(model.model)
        self_test(model)
        model.model.kvpool_ready = True  # kept with the weights that it is said of


def wide_layers(model: Any) -> set[str]:
    """Names of the layers with many more outputs than inputs: gate and up, and the output layer."""
    output = model.get_output_embeddings()
    return {
        name
        for name, module in model.named_modules()
        if module is output or name.rsplit(".", 1)[-1] in ("gate_proj", "up_proj")
    }
