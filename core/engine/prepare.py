"""Once a loaded model: make it fast on a CPU, then hold it against itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.engine.joined import join_attention
from core.engine.selftest import self_test
from kernels import fuse_norms, pack_linears

if TYPE_CHECKING:
    from core.models.loaded import LoadedModel

PACKED_BYTES = 16 << 20  # weights below this stay in the processor's cache: packing gains nothing
CHAIN = 160  # products that an fp32 layer adds up in one chain


def prepare(model: LoadedModel) -> None:
    """Make the model ready for the engine; the second time does nothing. Safe from several threads.

    Call it where a model is loaded, so that nobody waits later; an Engine calls it too. Raises
    UnsupportedModel, with the numbers, when the paged store would change the model's logits.

    What an fp32 layer rounds the next ones amplify, so its sums are cut into short chains, which round less
    than plain layers do. A 16-bit model, whose own rounding is far larger, adds up in whole chains.
    """
    with model.lock:
        if getattr(model.model, "kvpool_ready", False):
            return
        if model.device == "cpu" and sum(p.nbytes for p in model.model.parameters()) >= PACKED_BYTES:
            pack_linears(model.model, chain=CHAIN if model.geometry.dtype == "float32" else None)
            fuse_norms(model.model)
            join_attention(model.model)
        self_test(model)
        model.model.kvpool_ready = True  # kept with the weights that it is said of
