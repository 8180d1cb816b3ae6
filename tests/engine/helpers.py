"""What the engine's tests share: run to the end on a pool of NaN, and what plain transformers gives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from core.engine import bridge
from core.engine.engine import Engine
from core.models.loaded import LoadedModel
from core.trace import verify
from core.trace.step import Step


def poison(engine: Engine, step: Step) -> None:
    """Fill every block that nobody holds with NaN again, as if it had never been written."""
    for store, held in ((engine.store.blocks, step.blocks), (engine.store.host, step.host_blocks)):
        if store is not None:
            free = torch.ones(store.shape[0], dtype=torch.bool)
            free[[b.id for b in held]] = False
            store[free] = float("nan")


def run(engine: Engine, limit: int = 3000) -> list[Step]:
    """Step to the end, freed blocks poisoned after every step; then every rule of the trace is checked."""
    while (step := engine.step()) is not None:
        poison(engine, step)
        assert step.index < limit, "the engine does not come to an end"
    broken = verify(engine.trace)
    assert broken is None, broken
    assert not engine.has_work
    last = engine.trace.steps[-1]
    assert all(b.state == "cached" and b.ref == 0 for b in last.blocks), "blocks are held by nobody"
    assert not last.host_blocks
    return engine.trace.steps


def tokens_of(engine: Engine) -> dict[str, list[int]]:
    """What each sequence has generated, by id."""
    prompts = {r.id: len(r.prompt_token_ids) for r in engine.trace.requests}
    last = engine.trace.steps[-1].sequences
    return {s.id: list(s.token_ids[prompts[s.request] :]) for s in last}


def generated(engine: Engine, sequence: str) -> list[int]:
    """What one sequence has generated."""
    return tokens_of(engine)[sequence]


def count(steps: Sequence[Step], name: str) -> int:
    """How many events of this name there are."""
    return sum(event.name == name for step in steps for event in step.events)


def worst(steps: Sequence[Step]) -> float:
    """The largest logit difference of a run that was proved."""
    found = [s.proof.max_abs_logit_diff for s in steps if s.proof]
    assert found, "nothing was proved"
    return max(found)


def plain_generate(model: LoadedModel, prompt: Sequence[int], **options: Any) -> Any:
    """transformers' own ``generate`` on one prompt, with its own cache."""
    ids = torch.tensor([list(prompt)])
    with model.lock, torch.inference_mode():
        bridge.use(model, bridge.DENSE)
        return model.model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, **options)


def plain_greedy(model: LoadedModel, prompt: Sequence[int], new: int) -> list[int]:
    """The greedy continuation by ``generate``; it stops at the model's end tokens."""
    out = plain_generate(model, prompt, max_new_tokens=new, num_beams=1)
    return out[0, len(prompt) :].tolist()
