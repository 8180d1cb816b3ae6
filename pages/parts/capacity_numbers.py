"""What the capacity calculator is asked, and what follows: choices and arithmetic, no drawing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from core.compare.capacity import DTYPE_BYTES, GIB, Card, Fit, Shape, budget, fits
from core.compare.catalogue import CARDS, MODELS

OWN: Final = "own"  # numbers that are no model's or card's of the lists
# For "find the error": a model with grouped-query attention, and its query heads, from its own config.json.
ERROR_MODEL, ERROR_QUERY_HEADS = "Llama-3.1-8B", 32
FACTORS: Final = ("two", "layers", "heads", "head_dim", "bytes")


@dataclass(slots=True)
class Choices:
    """The calculator's numbers. ``weights`` and ``memory`` in GB (1e9 bytes) and GiB; ``utilisation`` in per
    cent; ``windowed`` of the layers keep at most ``window`` tokens."""

    part: str = "calculator"
    model: str = "OPT-13B"
    card: str = "A100-40GB"
    cards: int = 1
    utilisation: int = 90
    layers: int = 40
    kv_heads: int = 40
    head_dim: int = 128
    dtype: str = "bfloat16"
    windowed: int = 0
    window: int = 4096
    weights: float = 26.0
    memory: float = 40.0
    prompt: int = 161
    new: int = 338
    max_len: int = 2048
    block_size: int = 16
    answer: str = ""  # to "find the error"
    workload: str = "sharegpt"
    size: int = 16  # of a block, in "block size"
    rate: float = 1.0  # of arrivals in the simulation, times the paper's
    simulated_size: int = 16

    def take_model(self) -> None:
        """Put the numbers of the chosen model in."""
        if self.model != OWN:
            shape = MODELS[self.model]
            windows = [window for window in shape.windows if window is not None]
            self.layers, self.kv_heads, self.head_dim = shape.layers, shape.kv_heads, shape.head_dim
            self.dtype, self.windowed = shape.dtype, len(windows)
            self.window = windows[0] if windows else self.window
            self.weights = round(shape.parameters * DTYPE_BYTES[shape.dtype] / 1e9, 2)
            self.max_len = min(shape.max_positions, 8192)
            self.prompt, self.new = self._fitting()

    def take_card(self) -> None:
        """Put the memory of the chosen card in."""
        if self.card != OWN:
            self.memory = round(CARDS[self.card].memory / GIB, 1)

    def own_model(self) -> None:
        """A number was changed: it is no longer that model's."""
        self.model = OWN

    def own_card(self) -> None:
        """The memory was changed: it is no longer that card's."""
        self.card = OWN

    def _fitting(self) -> tuple[int, int]:
        prompt = min(self.prompt, self.max_len - 1)
        return prompt, min(self.new, self.max_len - prompt + 1)


def shape_of(chosen: Choices) -> Shape:
    """The model that the numbers describe. Raises ValueError with a sentence."""
    if chosen.windowed > chosen.layers:
        raise ValueError(
            f"{chosen.windowed} layers with a window are more than the model's {chosen.layers} layers."
        )
    windows = (chosen.window,) * chosen.windowed + (None,) * (chosen.layers - chosen.windowed)
    return Shape(
        name=chosen.model, parameters=0.0, kv_heads=chosen.kv_heads, head_dim=chosen.head_dim,
        windows=windows, dtype=chosen.dtype,
    )  # fmt: skip


def room_of(chosen: Choices) -> float:
    """Bytes left for keys and values."""
    card = Card(name=chosen.card, memory=chosen.memory * GIB, bandwidth=1.0, flops=1.0)
    return budget(shape_of(chosen), card, chosen.cards, chosen.utilisation / 100, 1e9 * chosen.weights)


def rows_of(chosen: Choices) -> list[Fit]:
    """Requests at once under each strategy. Raises ValueError when they are longer than the model's limit."""
    return fits(
        shape_of(chosen), room_of(chosen), prompt=chosen.prompt, new=chosen.new, max_len=chosen.max_len,
        block_size=chosen.block_size,
    )  # fmt: skip


def error_numbers() -> dict[str, int]:
    """The wrong and the right bytes a token of "find the error": query heads taken for KV heads."""
    shape = MODELS[ERROR_MODEL]
    right = shape.bytes_per_token
    wrong = right // shape.kv_heads * ERROR_QUERY_HEADS
    return {
        "layers": shape.layers, "query_heads": ERROR_QUERY_HEADS, "kv_heads": shape.kv_heads,
        "head_dim": shape.head_dim, "bytes": DTYPE_BYTES[shape.dtype], "right": right, "wrong": wrong,
        "times": wrong // right,
    }  # fmt: skip
