"""Shares of a step's time: they add up, and each kind gets its own time only."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from core.bench import _spent
from core.bench._spent import KINDS, sentence, shares


class Clock:
    """Seconds that pass only where a module says so."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(_spent, "perf_counter", clock)
    return clock


class Slow(nn.Linear):
    """A linear layer of 20 seconds."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(4, 4)
        self.clock = clock

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.clock.now += 20
        return super().forward(x)


class ToyAttention(nn.Module):
    """10 seconds of its own around a linear layer."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self.proj, self.clock = Slow(clock), clock

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.clock.now += 10
        return self.proj(x)


class Toy(nn.Module):
    """Attention, a norm, an output layer, and 30 seconds that belong to none."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self.attn, self.norm, self.head = ToyAttention(clock), nn.LayerNorm(4), Slow(clock)
        self.clock = clock

    def get_output_embeddings(self) -> nn.Module:
        return self.head

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.clock.now += 30
        return self.head(self.norm(self.attn(x)))


def test_each_kind_gets_its_own_time_and_the_hooks_go(clock: Clock) -> None:
    model: Any = Toy(clock)
    found = shares(model, lambda: model(torch.zeros(1, 4)))
    assert found == {
        "linear layers": 25.0,
        "output layer": 25.0,
        "attention": 12.5,
        "norms": 0.0,
        "other": 37.5,
    }
    assert tuple(found) == KINDS
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())
    assert sentence(found).startswith("linear layers 25 %, output layer 25 %, attention 12 %")


def test_an_error_inside_takes_the_hooks_away_too(clock: Clock) -> None:
    model: Any = Toy(clock)
    with pytest.raises(RuntimeError):
        shares(model, lambda: model(torch.zeros(1, 5)))
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())
