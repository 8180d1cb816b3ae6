"""The bridge into transformers: the model's own layers, our keys and values.

transformers calls one attention function a layer; ours writes the layer's new keys and values into their
slots and reads everything else through the block tables. There is no HF cache and no mask: causality, window
and padding follow from positions. One forward pass serves prefill, chunks and decode packed together.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from transformers import AttentionInterface

from core.engine.batch import PackedBatch
from core.engine.errors import BridgeError
from core.engine.store import KVStore
from kernels import PagedBatch, paged_attention, store_kv

if TYPE_CHECKING:
    from core.models.loaded import LoadedModel

# transformers gives other meanings to names that contain "flash" or "/" or begin with "paged|".
NAME = "kvpool"
DENSE = "eager"
# Somebody who looks on: layer, q [T, Hq, D], output [T, Hq, D], and paged_attention's options.
Tap = Callable[[int, torch.Tensor, torch.Tensor, dict[str, Any]], None]


class Pass:
    """What one forward pass hands to every attention layer, and how many layers have asked.

    ``kept``: what one layer worked out and the next can use.
    """

    __slots__ = ("batch", "calls", "kept", "store", "tap", "windows")

    def __init__(
        self, store: KVStore, batch: PagedBatch, windows: tuple[int | None, ...], tap: Tap | None = None
    ) -> None:
        self.store = store
        self.batch = batch
        self.windows = windows
        self.tap = tap
        self.calls = 0
        self.kept: dict[Any, Any] = {}


def kvpool_attention(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    sliding_window: int | None = None,
    softcap: float | None = None,
    s_aux: torch.Tensor | None = None,
    kvpool: Pass | None = None,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    """The attention function that transformers calls. query: [1, Hq, T, D]; key, value: [1, Hkv, T, D].

    Returns [1, T, Hq, D]. Scale, softcap and sinks are the model's; a window that it does not pass (some
    build it only into a mask) is the config's. HF's window counts the token itself: q_pos - k_pos < window.
    Raises BridgeError when called outside ``forward`` or with a mask.
    """
    if kvpool is None:
        raise BridgeError(
            "The model is set to paged attention but was called without a pool; run it through the engine, "
            f'or call set_attn_implementation("{DENSE}") first.'
        )
    if attention_mask is not None:
        raise BridgeError("The model built an attention mask, which paged attention does not read.")
    q, k, v = (x[0].transpose(0, 1) for x in (query, key, value))
    out = attend(module, kvpool, q, k, v, scaling, sliding_window, softcap, s_aux)
    return out[None], None


def attend(
    module: Any,
    kvpool: Pass,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    scaling: float | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    s_aux: torch.Tensor | None = None,
    **_: Any,
) -> torch.Tensor:
    """Store a layer's new keys and values, then attend. q: [T, Hq, D] -> [T, Hq, D]; k, v: [T, Hkv, D]."""
    layer = module.layer_idx
    kvpool.calls += 1
    keys, values = kvpool.store.keys[layer], kvpool.store.values[layer]
    store_kv(k, v, keys, values, kvpool.batch)
    options = {
        "scale": scaling if scaling is not None else q.shape[-1] ** -0.5,  # transformers' own default
        "window": sliding_window if sliding_window is not None else kvpool.windows[layer],
        "softcap": softcap,
        "sinks": s_aux,
    }
    out = paged_attention(q, keys, values, kvpool.batch, **options)
    if kvpool.tap is not None:
        kvpool.tap(layer, q, out, options)
    return out


def use(model: LoadedModel, implementation: str) -> None:
    """Set the model's attention. Hold ``model.lock`` from here to the end of the forward pass."""
    module = model.model
    if module.config._attn_implementation == implementation:
        return
    if implementation == NAME:
        AttentionInterface.register(NAME, kvpool_attention)
        if not module.is_backend_compatible():
            raise BridgeError(
                f"{type(module).__name__} does not take its attention from transformers' attention interface,"
                " so it cannot run on a paged store; choose another model."
            )
    module.set_attn_implementation(implementation)


@torch.inference_mode()
def forward(model: LoadedModel, store: KVStore, packed: PackedBatch, tap: Tap | None = None) -> torch.Tensor:
    """One forward pass over a packed batch: writes T keys and values into the pool, gives logits [R, V].

    Repeating it writes the same values into the same slots. Works in any thread (inference mode is a state
    of the thread, so it is entered here). ``tap`` is called by each layer after its attention. Raises
    BridgeError when a layer went past the pool.
    """
    state = Pass(store, packed.paged, model.geometry.windows, tap)
    with model.lock:
        use(model, NAME)
        output = model.model(
            input_ids=packed.input_ids,
            position_ids=packed.position_ids,
            use_cache=False,
            logits_to_keep=packed.last_rows,
            kvpool=state,
        )
    if state.calls != model.geometry.layers:
        raise BridgeError(
            f"{state.calls} of {model.geometry.layers} layers read the paged store; the others went past it, "
            "so the result cannot be trusted."
        )
    return output.logits[0]
