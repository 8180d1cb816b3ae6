"""What a loaded model is to the rest of the app: the module, its tokens, and the shape of its KV."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any

from core.models.tokens import Tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Geometry:
    """The shape of a model's attention.

    ``windows[l]``: layer l sees the keys with q_pos - k_pos < window; None: all of them.
    """

    layers: int
    query_heads: int
    kv_heads: int
    head_dim: int
    dtype: str  # of keys and values, as torch names it: "float32", "bfloat16"
    windows: tuple[int | None, ...]
    vocab_size: int
    max_positions: int  # most tokens of a sequence

    @property
    def bytes_per_token(self) -> int:
        """Bytes that one token's keys and values take over all layers."""
        width = 8 if self.dtype == "float64" else 4 if self.dtype == "float32" else 2
        return 2 * self.layers * self.kv_heads * self.head_dim * width


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LoadedModel:
    """A model ready to run, shared by all sessions of the process. Hold ``lock`` for each forward pass."""

    name: str
    sha256: str  # of the weights' source: the packaged file, or the folder's weight files
    model: Any  # transformers.PreTrainedModel in eval mode, on ``device``
    tokens: Tokens
    geometry: Geometry
    eos_token_ids: frozenset[int]
    device: str
    lock: threading.RLock = field(default_factory=threading.RLock, repr=False)


def text_config(config: Any) -> Any:
    """The language model's own config, out of a wrapper's where there is one."""
    return config.get_text_config(decoder=True)


def windows_of(config: Any) -> tuple[int | None, ...]:
    """The attention window of each layer, from ``layer_types`` where the config has them."""
    layers, window = config.num_hidden_layers, getattr(config, "sliding_window", None)
    if getattr(config, "use_sliding_window", True) is False:  # Qwen2 keeps the number, but off
        window = None
    kinds = getattr(config, "layer_types", None) or ("sliding_attention",) * layers
    return tuple(window if kind == "sliding_attention" else None for kind in kinds)


def geometry_of(config: Any, dtype: str) -> Geometry:
    """The geometry that a transformers config describes.

    ``head_dim`` is the config's own where it has one (Qwen3 and Gemma do not have hidden / heads).
    """
    config = text_config(config)
    heads = config.num_attention_heads
    return Geometry(
        layers=config.num_hidden_layers,
        query_heads=heads,
        kv_heads=getattr(config, "num_key_value_heads", None) or heads,
        head_dim=getattr(config, "head_dim", None) or config.hidden_size // heads,
        dtype=dtype,
        windows=windows_of(config),
        vocab_size=config.vocab_size,
        max_positions=_max_positions(config),
    )


def _max_positions(config: Any) -> int:
    """The most tokens of a sequence.

    Where the rotary frequencies change beyond the length that the model was first trained on ("dynamic" and
    "longrope"), that length: they are picked by the longest sequence of a packed batch, and would change the
    others' results.
    """
    most = int(config.max_position_embeddings)
    rope = getattr(config, "rope_parameters", None) or {}
    for kind in (rope, *(r for r in rope.values() if isinstance(r, dict))):
        if kind.get("rope_type") in ("dynamic", "longrope"):
            first = kind.get("original_max_position_embeddings") or getattr(
                config, "original_max_position_embeddings", None
            )
            most = min(most, int(first or most))
    return most
