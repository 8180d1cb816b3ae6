"""What a crafted lesson is: a few requests, a pool, and what to look at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from core.config import EngineConfig, Sampling

LESSONS = Path(__file__).resolve().parents[2] / "assets" / "lessons"
SMOLLM2, GEMMA = "smollm2-135m-instruct", "gemma-3-270m"
STORY = "Once upon a time, there lived a poor young"  # 10 tokens: two blocks of four, and half of a third


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """A step that matters, and what it shows."""

    step: int
    zh: str
    en: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One lesson. ``requests`` are the arguments of ``Engine.submit``, in order of submission."""

    name: str
    title_zh: str
    title_en: str
    model: str
    requests: tuple[Mapping[str, Any], ...]
    config: EngineConfig
    look_zh: str
    look_en: str
    note_zh: str = ""
    note_en: str = ""
    moments: tuple[Moment, ...] = field(default=())


def recorded_path(name: str) -> Path:
    """Where the recording of a scenario lies."""
    return LESSONS / f"{name}.kvtrace.json.gz"


def drawn(seed: int) -> Sampling:
    """Sampling with which the answers to one prompt part soon."""
    return Sampling(temperature=0.8, top_k=40, seed=seed)
