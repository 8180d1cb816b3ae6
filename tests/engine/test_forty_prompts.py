"""Forty prompts on both packaged models against plain transformers, which runs once for all block sizes.

Tokens must be equal. Plain transformers has two sets of fp32 logits for one text: decoded with its own cache,
and in one pass without one. They round differently, up to 2.2e-4 apart (SmolLM2, the SQL prompt). So every
row of ours must be within 1e-4 of what the same model gives in float64, and within 1e-4 of one of the two
where these are so near each other.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
import torch

from core.config import EngineConfig
from core.engine import engine as engine_module
from core.engine.batch import PackedBatch
from core.engine.engine import Engine
from core.models import fetch
from core.models.loaded import LoadedModel
from tests.engine.helpers import generated, run
from tests.engine.prompts import prompts

NEW = 12
LIMIT = 1e-4
NAMES = {"smollm2": "smollm2-135m-instruct", "gemma": "gemma-3-270m"}
pytestmark = [pytest.mark.slow, pytest.mark.model, pytest.mark.timeout(900)]


@dataclass
class Plain:
    """What plain transformers gives: the model as it was loaded, its own attention."""

    prompts: list[list[int]]
    tokens: list[list[int]]
    logits: list[torch.Tensor]  # [3, generated tokens, V] each: with its cache, without, in float64


@pytest.fixture(scope="module", params=list(NAMES))
def case(request: pytest.FixtureRequest) -> tuple[LoadedModel, Plain]:
    """A model for the engine, and what another copy of it, plain, says of the forty prompts."""
    from transformers import AutoModelForCausalLM

    model: LoadedModel = request.getfixturevalue(request.param)
    folder = fetch(NAMES[request.param], accept_terms=True)
    plain = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
    plain.eval()
    found = Plain(prompts(model), [], [])
    texts = []
    with torch.inference_mode():
        for prompt in found.prompts:
            ids = torch.tensor([prompt])
            out = plain.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                do_sample=False,
                max_new_tokens=NEW,
                output_logits=True,
                return_dict_in_generate=True,
            )
            text = out.sequences
            new = text.shape[1] - len(prompt)
            dense = plain(input_ids=text[:, :-1], use_cache=False, logits_to_keep=new).logits[0]
            found.tokens.append(text[0, len(prompt) :].tolist())
            found.logits.append(torch.stack([torch.cat(out.logits), dense]).double())
            texts.append((text[:, :-1], new))
        plain.double()
        for i, (text, new) in enumerate(texts):
            exact = plain(input_ids=text, use_cache=False, logits_to_keep=new).logits
            found.logits[i] = torch.cat([found.logits[i], exact])
    return model, found


def largest(difference: torch.Tensor) -> float:
    """Of any logit."""
    return float(difference.abs().max())


@dataclass
class Watch:
    """Stands between engine and bridge, and holds every row of logits against the plain ones."""

    plain: Plain
    which: list[int]  # the prompt of request r0, r1, ...
    worst: dict[int, float] = field(default_factory=dict)

    def forward(self, model: LoadedModel, store: Any, packed: PackedBatch) -> torch.Tensor:
        logits = FORWARD(model, store, packed)
        for row, found in zip(packed.rows, logits, strict=True):
            number = self.which[int(row.request[1:])]
            index = row.kv_len - len(self.plain.prompts[number])
            plain = self.plain.logits[number]
            if index < plain.shape[1]:  # else the tokens have parted already
                cached, dense, exact = plain[:, index]
                difference = largest(found - exact)
                if largest(cached - dense) <= LIMIT:
                    difference = max(difference, min(largest(found - cached), largest(found - dense)))
                self.worst[number] = max(difference, self.worst.get(number, 0.0))
        return logits


FORWARD = engine_module.forward


def check(
    case: tuple[LoadedModel, Plain], which: list[int], block_size: int, monkeypatch: pytest.MonkeyPatch
) -> dict[int, float]:
    """Run these prompts in one batch; tokens must be equal. Gives the largest difference by prompt."""
    model, plain = case
    watch = Watch(plain, which)
    monkeypatch.setattr(engine_module, "forward", watch.forward)
    slots = sum(len(plain.prompts[i]) + NEW + block_size for i in which)
    config = EngineConfig(
        block_size=block_size, num_blocks=-(-slots // block_size), max_model_len=128, strategies=()
    )
    engine = Engine(model, config)
    for i in which:
        engine.submit(plain.prompts[i], max_new_tokens=NEW)
    run(engine)
    for request, i in enumerate(which):
        assert generated(engine, f"r{request}.0") == plain.tokens[i], f"prompt {i}, block size {block_size}"
    return watch.worst


@pytest.mark.parametrize("block_size", [1, 3, 4, 16])
def test_together(case: tuple[LoadedModel, Plain], block_size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """All forty in one ragged batch."""
    number = len(case[1].prompts)
    assert number == 40
    worst = check(case, list(range(number)), block_size, monkeypatch)
    assert max(worst.values()) <= LIMIT, worst


@pytest.mark.parametrize("block_size", [1, 3, 4, 16])
def test_alone(case: tuple[LoadedModel, Plain], block_size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    worst: dict[int, float] = {}
    for i in range(len(case[1].prompts)):
        worst |= check(case, [i], block_size, monkeypatch)
    assert max(worst.values()) <= LIMIT, worst
