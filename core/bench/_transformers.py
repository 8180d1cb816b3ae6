"""transformers as a peer: a plain copy of the weights, its generate and its continuous batching."""

from __future__ import annotations

from typing import Any

import torch

from core.models import fetch


def plain_model(name: str, dtype: str, device: str) -> Any:
    """The same weights again, untouched: plain linear layers, transformers' own attention, no end token."""
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(
        fetch(name, accept_terms=True), dtype=getattr(torch, dtype), attn_implementation="sdpa"
    )
    model.generation_config.eos_token_id = None
    model.generation_config.pad_token_id = 0
    return model.to(device).eval().requires_grad_(False)


@torch.inference_mode()
def run_generate(model: Any, prompts: list[list[int]], new: int) -> list[list[int]]:
    """transformers' generate with its own cache; shorter prompts are padded on the left."""
    longest = max(map(len, prompts))
    ids = torch.tensor([[0] * (longest - len(p)) + p for p in prompts], device=model.device)
    mask = torch.tensor([[0] * (longest - len(p)) + [1] * len(p) for p in prompts], device=model.device)
    out = model.generate(ids, attention_mask=mask, max_new_tokens=new, do_sample=False)
    return [row[longest:] for row in out.tolist()]


def run_continuous(model: Any, prompts: list[list[int]], new: int, block_size: int) -> list[list[int]]:
    """transformers' continuous batching, given what suits it on this device.

    Left to itself on a CPU it takes most of the free memory for its pool and reads through all of it at
    every step: 50 s for two short prompts. So it gets blocks for these prompts and, on a CPU, no more than
    256 tokens a step (measured best of 256, 512 and its own choice).
    """
    from transformers import ContinuousBatchingConfig, GenerationConfig

    config = GenerationConfig(max_new_tokens=new, do_sample=False, eos_token_id=-1, pad_token_id=0)
    pool = None
    if model.device.type == "cpu":
        blocks = sum(-(-(len(p) + new) // block_size) for p in prompts)
        pool = ContinuousBatchingConfig(
            page_size=block_size, num_blocks=blocks + len(prompts), max_batch_tokens=256
        )
    out = model.generate_batch(
        inputs=prompts,
        generation_config=config,
        continuous_batching_config=pool,
        progress_bar=False,
        warmup=pool is None,
    )
    return [list(result.generated_tokens) for result in out.values()]
