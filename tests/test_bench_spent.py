"""Shares of a step's time: they add up, and each kind gets its own time only."""

from __future__ import annotations

from time import sleep
from typing import Any

import pytest
import torch
from torch import nn

from core.bench.spent import KINDS, sentence, shares


class Slow(nn.Linear):
    """A linear layer of 20 ms."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        sleep(0.02)
        return super().forward(x)


class ToyAttention(nn.Module):
    """10 ms of its own around a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.proj = Slow(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        sleep(0.01)
        return self.proj(x)


class Toy(nn.Module):
    """Attention, a norm, an output layer."""

    def __init__(self) -> None:
        super().__init__()
        self.attn, self.norm, self.head = ToyAttention(), nn.LayerNorm(4), Slow(4, 4)

    def get_output_embeddings(self) -> nn.Module:
        return self.head

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.norm(self.attn(x)))


def test_each_kind_gets_its_own_time_and_the_hooks_go() -> None:
    model: Any = Toy()
    found = shares(model, lambda: model(torch.zeros(1, 4)))
    assert tuple(found) == KINDS and sum(found.values()) == pytest.approx(100)
    # 20 : 20 : 10; sleeps may last longer, never shorter
    assert found["linear layers"] > found["attention"] > found["norms"] > 0
    assert found["output layer"] > found["attention"]
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())
    assert sentence(found).startswith("linear layers ")


def test_an_error_inside_takes_the_hooks_away_too() -> None:
    model: Any = Toy()
    with pytest.raises(RuntimeError):
        shares(model, lambda: model(torch.zeros(1, 5)))
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())
