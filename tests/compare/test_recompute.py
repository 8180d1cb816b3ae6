"""E6: the cache's gain must show in the counted work, and the text must be the same both ways."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from core.models.loaded import LoadedModel


@pytest.mark.parametrize("arch", ["llama", "mistral", "gpt2"])
@pytest.mark.parametrize(("prompt", "new"), [(8, 4), (40, 30), (1, 1)])
def test_same_text_and_the_work_falls(
    tiny: Callable[..., LoadedModel], arch: str, prompt: int, new: int
) -> None:
    from core.compare.recompute import recompute, with_cache

    model = tiny(arch)
    ids = [3 + 7 * i % 90 for i in range(prompt)]
    slow, fast = recompute(model, ids, new), with_cache(model, ids, new)
    assert slow.token_ids == fast.token_ids and len(fast.token_ids) == new
    assert fast.processed == prompt + new - 1
    assert slow.processed == sum(prompt + k for k in range(new))
    assert [c.processed for c in fast.costs] == [prompt] + [1] * (new - 1)
    assert slow.costs[0].operations == fast.costs[0].operations
    if new > 1:
        assert slow.operations > fast.operations
        growth = [b.operations - a.operations for a, b in zip(slow.costs, slow.costs[1:], strict=False)]
        assert min(growth) > 0, "without a cache every token costs more than the one before"
    assert all(c.ms > 0 for c in (*slow.costs, *fast.costs))


def test_operations_agree_with_torchs_own_count(tiny: Callable[..., LoadedModel]) -> None:
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    from core.compare.recompute import operations
    from core.engine.dense import dense_logits

    for arch in ("llama", "gpt2"):
        model = tiny(arch)
        with torch.inference_mode(), FlopCounterMode(display=False) as counter:
            dense_logits(model, list(range(3, 23)))
        # The dense pass multiplies the masked half of the attention matrix too: count it back in.
        g = model.geometry
        masked = 4 * g.query_heads * g.head_dim * g.layers * (20 * 19 // 2)
        assert operations(model, 0, 20) + masked == pytest.approx(counter.get_total_flops(), rel=1e-6)
