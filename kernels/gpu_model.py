"""For the GPU check: a small model from transformers, random weights, on paged attention, in one short loop.

It shows that whole models give the same tokens on every path, and what graphs are worth. A classroom engine
does far more (sharing, preemption, sampling); this is the least that generates.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from kernels.batch import PagedBatch
from kernels.dispatch import paged_attention, store_kv
from kernels.graphs import DecodeGraphs

NAME = "paged_kv_check"


def make_model(device: str, dtype: torch.dtype, layers: int = 30) -> Any:
    """A Llama of SmolLM2-135M's shape with random weights, far enough from ties for greedy decoding."""
    from transformers import AttentionInterface, LlamaConfig, LlamaForCausalLM

    AttentionInterface.register(NAME, _attend)
    config = LlamaConfig(
        hidden_size=576, intermediate_size=1536, num_hidden_layers=layers, num_attention_heads=9,
        num_key_value_heads=3, vocab_size=49152, max_position_embeddings=8192, tie_word_embeddings=True,
        initializer_range=0.06, bos_token_id=None, eos_token_id=None, pad_token_id=None,
    )  # fmt: skip
    torch.manual_seed(0)
    return LlamaForCausalLM(config).to(device, dtype).eval()


@dataclass(slots=True)
class Pool:
    """The KV store of the check: [num_blocks, L, 2, block_size, Hkv, D], and each sequence's blocks."""

    store: Tensor
    tables: list[list[int]]
    block_size: int
    batch: PagedBatch | None = field(default=None, repr=False)

    @classmethod
    def make(cls, model: Any, sequences: int, length: int, block_size: int = 16) -> Pool:
        """Room for ``sequences`` contexts of ``length`` in blocks that are dealt out at random."""
        config, p = model.config, next(model.parameters())
        each = -(-length // block_size)
        order = torch.randperm(sequences * each, generator=torch.Generator().manual_seed(1)).tolist()
        dim = config.hidden_size // config.num_attention_heads
        shape = (sequences * each, config.num_hidden_layers, 2, block_size, config.num_key_value_heads, dim)
        store = torch.full(shape, float("nan"), dtype=p.dtype, device=p.device)
        return cls(store, [order[i * each : (i + 1) * each] for i in range(sequences)], block_size)

    def step(self, starts: list[int], counts: list[int]) -> PagedBatch:
        """The batch in which sequence i computes ``counts[i]`` tokens from position ``starts[i]`` on."""
        size = self.block_size
        slots = [
            t[p // size] * size + p % size
            for t, start, n in zip(self.tables, starts, counts, strict=True)
            for p in range(start, start + n)
        ]
        lens = [a + b for a, b in zip(starts, counts, strict=True)]
        return PagedBatch.build(slots, self.tables, counts, lens, size, self.store.device)


def _attend(
    module: Any, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, scaling: float, pool: Pool, **_: object
) -> tuple[Tensor, None]:
    keys, values = pool.store[:, module.layer_idx, 0], pool.store[:, module.layer_idx, 1]
    assert pool.batch is not None and mask is None
    store_kv(k[0].transpose(0, 1), v[0].transpose(0, 1), keys, values, pool.batch)
    return paged_attention(q[0].transpose(0, 1), keys, values, pool.batch, scale=scaling)[None], None


@torch.inference_mode()
def generate(
    model: Any, prompts: list[list[int]], new: int, graphs: bool
) -> tuple[list[list[int]], list[float]]:
    """Greedy tokens of all prompts together, and the seconds of each decode step."""
    from time import perf_counter

    model.set_attn_implementation(NAME)
    device = next(model.parameters()).device
    pool = Pool.make(model, len(prompts), max(map(len, prompts)) + new)

    def forward(ids: Tensor, positions: Tensor, batch: PagedBatch) -> Tensor:
        pool.batch = batch
        last = batch.cu_q[1:].long() - 1
        out = model(
            input_ids=ids[None], position_ids=positions[None], use_cache=False, logits_to_keep=last, pool=pool
        )
        return out.logits[0]

    width = len(pool.tables[0])
    recorded = DecodeGraphs(forward, pool.block_size, width, torch.device(device)) if graphs else None
    counts, starts = [len(p) for p in prompts], [0] * len(prompts)
    tokens = [list(p) for p in prompts]
    packed = [t for p in prompts for t in p]
    seconds = []
    for step in range(new):
        began = perf_counter()
        batch = pool.step(starts, counts)
        ids = torch.tensor(packed, device=device)
        positions = torch.tensor(
            [p for s, n in zip(starts, counts, strict=True) for p in range(s, s + n)], device=device
        )
        run = recorded.run if recorded is not None and step else forward
        packed = run(ids, positions, batch).argmax(-1).tolist()
        starts = [s + n for s, n in zip(starts, counts, strict=True)]
        counts = [1] * len(prompts)
        for sequence, token in zip(tokens, packed, strict=True):
            sequence.append(token)
        if step:
            seconds.append(perf_counter() - began)
    return [t[len(p) :] for t, p in zip(tokens, prompts, strict=True)], seconds


@torch.inference_mode()
def generate_with_transformers(model: Any, prompt: list[int], new: int) -> list[int]:
    """The same, one prompt, by transformers' own loop and cache."""
    model.set_attn_implementation("sdpa")
    ids = torch.tensor([prompt], device=next(model.parameters()).device)
    out = model.generate(
        ids, attention_mask=torch.ones_like(ids), max_new_tokens=new, min_new_tokens=new, do_sample=False
    )
    return out[0, len(prompt) :].tolist()
