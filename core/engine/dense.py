"""The proof: the same tokens through the model's own attention, with no cache and no blocks."""

from __future__ import annotations

import sys
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


def prove(model: LoadedModel, rows: Iterable[tuple[str, Sequence[int], torch.Tensor]]) -> Proof | None:
    """Compare each (sequence, tokens read, logits [V]) with a dense pass. None when there are no rows.

    ``same_argmax``: the best token is the same in every row. A NaN counts as the largest number there is.
    """
    differences: dict[str, float] = {}
    same = True
    for sequence, token_ids, logits in rows:
        dense = dense_logits(model, token_ids)[0].float()
        difference = float((logits.float() - dense).abs().max())
        differences[sequence] = difference if difference == difference else sys.float_info.max
        same = same and int(logits.argmax()) == int(dense.argmax())
    if not differences:
        return None
    return Proof(max_abs_logit_diff=max(differences.values()), same_argmax=same, by_sequence=differences)
