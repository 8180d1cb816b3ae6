"""The proof: the same tokens through the model's own attention, with no cache and no blocks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import torch

from core.engine.bridge import DENSE, use
from core.trace.step import Proof

if TYPE_CHECKING:
    from core.models.loaded import LoadedModel


@torch.inference_mode()
def dense_logits(model: LoadedModel, token_ids: Sequence[int], last: int = 1) -> torch.Tensor:
    """Logits [last, V] after the last tokens of one sequence, computed from the first token on."""
    ids = torch.tensor([list(token_ids)], dtype=torch.int64, device=model.device)
    with model.lock:
        use(model, DENSE)
        return model.model(input_ids=ids, use_cache=False, logits_to_keep=last).logits[0]


def prove(model: LoadedModel, rows: Iterable[tuple[Sequence[int], torch.Tensor]]) -> Proof | None:
    """Compare each (tokens read, logits [V]) with a dense pass; the largest difference of all. None: no rows.

    ``same_argmax``: the best token is the same in every row. A NaN gives an infinite difference.
    """
    worst, same, seen = 0.0, True, False
    for token_ids, logits in rows:
        dense = dense_logits(model, token_ids)[0].float()
        difference = float((logits.float() - dense).abs().max())
        worst = max(worst, difference if difference == difference else float("inf"))
        same = same and int(logits.argmax()) == int(dense.argmax())
        seen = True
    return Proof(max_abs_logit_diff=worst, same_argmax=same) if seen else None
