"""Attention modules on a CPU, with queries, keys and values kept in one tensor: fewer calls a layer.

A small model's decode step on a CPU is some thousands of small calls. The usual attention module cuts q, k
and v apart and rotates q and k one after the other; together they take a third of the calls, and the numbers
are the same bit by bit:

    packed product [T, (Hq + 2 Hkv) D]  ->  norms of q and of k, if any  ->  q and k rotated as one  ->  pool

Only modules known by name are replaced, and of those only the ones that hand the same q, k, v and options to
the attention function as the module's own code, on fixed inputs. A call without a pool takes the module's
own code.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface

from core.engine.bridge import Pass, attend
from kernels.linears import Packed

KNOWN = {"LlamaAttention", "MistralAttention", "Qwen2Attention", "Qwen3Attention", "Gemma3Attention"}
ROWS = (1, 5)  # token counts at which both are compared
PROBE = "kvpool-probe"  # the attention function under which the module's own code is looked at
Rotation = tuple[Tensor, Tensor]


class JoinedLinear(nn.Module):
    """q_proj, k_proj and v_proj as one linear layer."""

    def __init__(self, packed: Packed) -> None:
        super().__init__()
        self.packed = packed

    def forward(self, x: Tensor) -> Tensor:
        """x: [..., in] -> [..., (Hq + 2 Hkv) D]."""
        return self.packed.product(x)


@dataclass(frozen=True, slots=True)
class Joined:
    """What the short way needs to know of one attention module."""

    module: Any
    linear: JoinedLinear
    query_heads: int
    kv_heads: int
    options: dict[str, Any]  # that the module gives to its attention function

    def heads(self, hidden: Tensor, rotation: Rotation) -> tuple[Tensor, Tensor, Tensor]:
        """hidden: [1, T, hidden size] -> q [T, Hq, D], k [T, Hkv, D], v [T, Hkv, D]."""
        module, (hq, hk) = self.module, (self.query_heads, self.kv_heads)
        heads = self.linear(hidden).view(hidden.shape[1], hq + 2 * hk, -1)
        if hasattr(module, "q_norm"):
            parts = heads.split((hq, hk, hk), 1)
            qk, v = torch.cat((module.q_norm(parts[0]), module.k_norm(parts[1])), 1), parts[2]
        else:
            qk, v = heads.split((hq + hk, hk), 1)
        cos, sin = rotation
        qk = (qk * cos).add_(torch.roll(qk, qk.shape[2] // 2, 2).mul_(sin))
        return qk[:, :hq], qk[:, hq:], v

    def forward(
        self,
        hidden_states: Tensor,
        position_embeddings: tuple[Tensor, Tensor],
        attention_mask: Tensor | None = None,
        kvpool: Pass | None = None,
        **kwargs: Any,
    ) -> tuple[Tensor, None]:
        """The module's forward, with its own arguments."""
        if kvpool is None or attention_mask is not None:
            own = partial(type(self.module).forward, self.module, hidden_states, position_embeddings)
            return own(attention_mask, **kwargs, **({} if kvpool is None else {"kvpool": kvpool}))
        name = id(position_embeddings)
        if name not in kvpool.kept:  # with the embeddings themselves, so that no other gets their id
            kvpool.kept[name] = position_embeddings, signed(*position_embeddings)
        rotation = kvpool.kept[name][1]
        out = attend(self.module, kvpool, *self.heads(hidden_states, rotation), **self.options)
        return self.module.o_proj(out.view(1, out.shape[0], -1)), None


def signed(cos: Tensor, sin: Tensor) -> Rotation:
    """[1, T, D] each -> [T, 1, D] each, such that x * cos + roll(x) * sin rotates: the first half negated."""
    half = sin.shape[-1] // 2
    return cos[0][:, None], torch.cat((-sin[0, :, :half], sin[0, :, half:]), -1)[:, None]


def join_attention(model: nn.Module) -> int:
    """Let the model's attention modules take the short way, where it is the same. How many do.

    Hold the model's lock. Their q, k and v must be packed as one (``pack_linears``).
    """
    count = 0
    with torch.inference_mode(), _probed(model) as seen:
        for module in model.modules():
            if type(module).__name__ in KNOWN and "forward" not in module.__dict__:
                joined = _joined(module, seen)
                if joined is not None:
                    module.qkv_proj = joined.linear  # seen by whoever watches the model's modules
                    module.forward = joined.forward  # an instance attribute: undone by `del`
                    count += 1
    return count


@contextmanager
def _probed(model: Any) -> Iterator[list[Any]]:
    """While this lasts, the model's own code hands its q, k, v and options to the list given."""
    seen: list[Any] = []

    def probe(module: Any, q: Tensor, k: Tensor, v: Tensor, mask: Any, **options: Any) -> tuple[Tensor, None]:
        seen.append((q[0].transpose(0, 1), k[0].transpose(0, 1), v[0].transpose(0, 1), options))
        return q.transpose(1, 2), None

    before, name = model.config._attn_implementation, f"{PROBE}-{id(model)}"  # models are loaded side by side
    AttentionInterface.register(name, probe)
    model.set_attn_implementation(name)
    try:
        yield seen
    finally:
        model.set_attn_implementation(before)
        AttentionInterface._global_mapping.pop(name)


def _joined(module: Any, seen: list[Any]) -> Joined | None:
    """The module's short way, or None where it has none that gives the same."""
    parts = [getattr(module, name).__dict__.get("packed") for name in ("q_proj", "k_proj", "v_proj")]
    if any(part is None or part[0] is not parts[0][0] for part in parts):
        return None
    linear = JoinedLinear(parts[0][0])
    joined = None
    for rows in ROWS:
        generator = torch.Generator().manual_seed(rows)
        dtype, dim = module.o_proj.weight.dtype, module.head_dim
        x = torch.randn(1, rows, module.q_proj.in_features, generator=generator).to(dtype)
        cos, sin = (torch.randn(1, rows, dim, generator=generator).to(dtype) for _ in range(2))
        seen.clear()
        try:
            module(x, position_embeddings=(cos, sin), attention_mask=None)
        except TypeError:  # another version of transformers, which calls it otherwise
            return None
        if len(seen) != 1:
            return None
        *wanted, options = seen[0]
        joined = Joined(module, linear, wanted[0].shape[1], wanted[1].shape[1], options)
        found = joined.heads(x, signed(cos, sin))
        if not all(torch.equal(a, b) for a, b in zip(wanted, found, strict=True)):
            return None
    return joined
