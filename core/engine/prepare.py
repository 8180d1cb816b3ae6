"""Once a loaded model: pack its linear layers on a CPU, then hold it against itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.engine.selftest import self_test
from kernels import pack_linears

if TYPE_CHECKING:
    from core.models.loaded import LoadedModel

PACKED_BYTES = 16 << 20  # weights below this stay in the processor's cache: packing gains nothing


def prepare(model: LoadedModel) -> None:
    """Make the model ready for the engine; the second time does nothing. Safe from several threads.

    Call it where a model is loaded, so that nobody waits later; an Engine calls it too. Raises
    UnsupportedModel, with the numbers, when the paged store would change the model's logits.

    A packed product rounds about twice as much as a plain one, and what a layer rounds the next ones
    amplify: packed throughout, fp32 logits differ from the plain model's by 1.2e-4 at the worst, with plain
    layers by half of that. So of an fp32 model only the output layer is packed, after which nothing comes;
    of a 16-bit model, whose own rounding is far larger, everything is.
    """
    with model.lock:
        if getattr(model.model, "kvpool_ready", False):
            return
        if model.device == "cpu" and sum(p.nbytes for p in model.model.parameters()) >= PACKED_BYTES:
            output = model.model.get_output_embeddings()
            last = {name for name, module in model.model.named_modules() if module is output}
            every = model.geometry.dtype != "float32"
            pack_linears(model.model, only=lambda name: every or name in last)
        self_test(model)
        model.model.kvpool_ready = True  # kept with the weights that it is said of
