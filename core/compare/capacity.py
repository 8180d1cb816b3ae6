"""How many bytes a token's keys and values take, how many tokens fit on a card, how many requests that makes.

    bytes a token = 2 (K and V) x layers x kv_heads x head_dim x bytes a number

kv_heads, not query heads: grouped-query attention stores fewer. head_dim as the config says, not hidden /
heads. A layer with a sliding window keeps at most ``window`` tokens of a sequence.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from core.memory.buddy import power_of_two

DTYPE_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2, "fp8": 1, "int8": 1}
GIB = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What of a model decides the size of its keys and values. ``windows[l]``: None where layer l sees
    all."""

    name: str
    parameters: float
    kv_heads: int
    head_dim: int
    windows: tuple[int | None, ...]
    dtype: str = "bfloat16"
    max_positions: int = 0

    @property
    def layers(self) -> int:
        return len(self.windows)

    @property
    def layer_bytes(self) -> int:
        """Bytes of one token's keys and values in one layer."""
        return 2 * self.kv_heads * self.head_dim * DTYPE_BYTES[self.dtype]

    @property
    def bytes_per_token(self) -> int:
        """Bytes of one token's keys and values in all layers, no window being full."""
        return self.layers * self.layer_bytes

    def sequence_bytes(self, tokens: int, block_size: int = 1) -> int:
        """Bytes of a sequence of ``tokens`` tokens, in whole blocks; a layer with a window holds no more
        than it."""

        def held(window: int | None) -> int:
            length = tokens if window is None else min(tokens, window)
            return -(-length // block_size) * block_size

        counts: dict[int | None, int] = {}
        for window in self.windows:
            counts[window] = counts.get(window, 0) + 1
        return sum(n * held(window) for window, n in counts.items()) * self.layer_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """An accelerator: bytes of memory, bytes a second, 16-bit operations a second (dense, vendor's
    figures)."""

    name: str
    memory: float
    bandwidth: float
    flops: float


def shape_of(config: Mapping[str, Any], name: str = "", parameters: float = 0.0) -> Shape:
    """The shape of a model from its own config (the fields of a transformers config.json).

    Raises ValueError with a sentence when the config lacks what the formula needs.
    """
    text = config.get("text_config") or config
    layers = _first(text, "num_hidden_layers", "n_layer", "num_layers")
    heads = _first(text, "num_attention_heads", "n_head")
    hidden = _first(text, "hidden_size", "n_embd", "d_model")
    if not layers or not heads or not (hidden or text.get("head_dim")):
        raise ValueError("this config does not say how many layers, heads and dimensions the model has.")
    dtype = str(text.get("dtype") or text.get("torch_dtype") or "bfloat16").removeprefix("torch.")
    return Shape(
        name=name or str(text.get("_name_or_path") or text.get("model_type") or "model"),
        parameters=parameters,
        kv_heads=_first(text, "num_key_value_heads", "num_kv_heads") or heads,
        head_dim=text.get("head_dim") or hidden // heads,
        windows=_windows(text, layers),
        dtype=dtype if dtype in DTYPE_BYTES else "bfloat16",
        max_positions=_first(text, "max_position_embeddings", "n_positions"),
    )


def _first(config: Mapping[str, Any], *keys: str) -> int:
    return next((int(config[key]) for key in keys if config.get(key)), 0)


def _windows(config: Mapping[str, Any], layers: int) -> tuple[int | None, ...]:
    """Layer by layer: ``layer_types`` where the config has them, else one window for all that use it."""
    window = config.get("sliding_window") or None
    kinds = config.get("layer_types")
    if kinds:
        return tuple(window if kind == "sliding_attention" else None for kind in kinds)
    pattern = config.get("sliding_window_pattern")
    if window and pattern:  # every pattern-th layer sees all
        return tuple(None if (layer + 1) % pattern == 0 else window for layer in range(layers))
    if window and config.get("use_sliding_window", True):
        return (window,) * layers
    return (None,) * layers


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """Requests of one kind that run at once under one strategy. ``bytes_each``: what one holds, on average
    over its life for paging; ``live_share``: how much of that holds tokens, on average."""

    strategy: str
    requests: int
    bytes_each: float
    live_share: float


def budget(
    shape: Shape, card: Card, cards: int = 1, utilisation: float = 0.9, weight_bytes: float | None = None
) -> float:
    """Bytes left for keys and values: the share of the memory that may be used, less the weights."""
    weights = shape.parameters * DTYPE_BYTES[shape.dtype] if weight_bytes is None else weight_bytes
    return max(0.0, cards * card.memory * utilisation - weights)


def fits(
    shape: Shape, room: float, *, prompt: int, new: int, max_len: int, block_size: int = 16
) -> list[Fit]:
    """How many requests with this prompt that generate ``new`` tokens run at once in ``room`` bytes.

    "paged" counts their average length, as they are at different points of their lives; the last row is the
    same with all of them at their end, the worst case. Raises ValueError when a request is longer than
    ``max_len``.
    """
    final = prompt + new - 1
    if min(prompt, new) < 1 or final > max_len:
        raise ValueError(f"{prompt} + {new} tokens do not fit into a max model length of {max_len}.")
    mean = sum(shape.sequence_bytes(n) for n in _samples(prompt, final)) / len(_samples(prompt, final))
    paged = [shape.sequence_bytes(n, block_size) for n in _samples(prompt, final)]
    powers = min(max_len, prompt + power_of_two(new) - 1)
    held = {
        "reserve max": shape.sequence_bytes(max_len),
        "reserve power of two": shape.sequence_bytes(power_of_two(powers)),
        "exact": shape.sequence_bytes(power_of_two(final)),
        "promised pages": shape.sequence_bytes(final, block_size),
        "paged": sum(paged) / len(paged),
    }
    return [
        Fit(strategy=name, requests=int(room // each), bytes_each=each, live_share=mean / each)
        for name, each in held.items()
    ]


def _samples(first: int, last: int) -> range:
    """Lengths that a request goes through: all of them, or about a thousand of them."""
    return range(first, last + 1, max(1, (last - first) // 1000))
