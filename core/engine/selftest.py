"""The self-test after loading: does this model give the same logits through the paged store?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from core.engine.batch import pack
from core.engine.bridge import forward
from core.engine.dense import dense_logits
from core.engine.plan import Scheduled
from core.engine.store import KVStore
from core.models.errors import UnsupportedModel

if TYPE_CHECKING:
    from core.models.loaded import LoadedModel

BLOCK_SIZE = 3
# The largest difference allowed, as a share of the largest logit. bf16 keeps 8 bits, and a packed batch
# rounds differently from a single sequence in every layer.
TOLERANCE = {"float64": 1e-6, "float32": 1e-4, "bfloat16": 0.08, "float16": 0.02}


def self_test(model: LoadedModel) -> float:
    """Compare the bridge with the model's own attention; gives the largest difference of any logit.

    Two sequences in one packed batch: one prefilled in two chunks and then decoded three times, the other
    prefilled whole meanwhile; blocks permuted, pool of NaN; long enough to pass a small window's edge.
    Raises UnsupportedModel with the numbers when they differ, or when the logits are flat (no weights).
    """
    tokens = _tokens(model)
    wanted = dense_logits(model, tokens, last=4).float()
    if not float(wanted.max() - wanted.min()) > 1e-6:
        raise UnsupportedModel(
            f"{model.name} gives the same logit to every token, so weights are missing; fetch it again."
        )
    paged = _paged_logits(model, tokens).float()
    difference = float((paged - wanted).abs().max())
    allowed = TOLERANCE[model.geometry.dtype] * max(1.0, float(wanted.abs().max()))
    if not difference <= allowed:  # also when it is NaN
        raise UnsupportedModel(
            f"{model.name} gives other logits through the paged store than by itself (largest difference "
            f"{difference:.3g}, allowed {allowed:.3g}), so the app cannot run it."
        )
    return difference


def _tokens(model: LoadedModel) -> list[int]:
    """A fixed walk through the vocabulary, past the smallest window where that is short."""
    windows = [w for w in model.geometry.windows if w is not None]
    length = min(max([10, *(w + 6 for w in windows if w <= 64)]), model.geometry.max_positions)
    return [(7919 * (i + 1)) % model.geometry.vocab_size for i in range(length)]


def _paged_logits(model: LoadedModel, tokens: list[int]) -> torch.Tensor:
    """Logits [4, V] after each of the last four tokens, through the pool."""
    each = -(-len(tokens) // BLOCK_SIZE)
    store = KVStore(2 * each, BLOCK_SIZE, model.geometry, device=model.device)
    tables = tuple(range(2 * each - 1, 0, -2)), tuple(range(0, 2 * each, 2))
    prompt, half = len(tokens) - 3, (len(tokens) - 3) // 2

    def part(which: int, start: int, end: int, samples: int) -> Scheduled:
        return Scheduled(
            sequence=f"r{which}.0",
            request=f"r{which}",
            start=start,
            token_ids=tuple(tokens[start:end]),
            block_table=tables[which],
            num_samples=samples,
        )

    steps = [[part(0, 0, half, 0)], [part(1, 0, prompt, 0), part(0, half, prompt, 1)]]
    steps += [[part(1, p, p + 1, 0), part(0, p, p + 1, 1)] for p in range(prompt, len(tokens))]
    found = [forward(model, store, pack(s, BLOCK_SIZE, model.device)) for s in steps]
    return torch.cat(found)
