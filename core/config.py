"""EngineConfig and Sampling: every default and limit, checked, with sentences a student can act on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

MIN_BLOCK_SIZE, MAX_BLOCK_SIZE = 1, 64
MAX_BLOCKS = 1 << 20
MAX_SAMPLES = 16
MAX_BEAMS = 8


def _one_of(what: str, value: object, allowed: tuple[object, ...]) -> None:
    if value not in allowed:
        raise ValueError(f"{what} is {value!r}; it must be one of {', '.join(map(repr, allowed))}.")


def _between(what: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:
        raise ValueError(f"{what} is {value}; it must be between {low} and {high}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """How the next token is chosen. ``temperature`` 0 is greedy; ``top_k`` 0 and ``top_p`` 1 do not cut.

    ``seed``: sample i of a request draws with seed + i, so that it can be run again alone.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        _between("temperature", self.temperature, 0.0, 10.0)
        _between("top-k", self.top_k, 0, 1 << 20)
        if not 0.0 < self.top_p <= 1.0:
            raise ValueError(f"top-p is {self.top_p}; it must be above 0 and at most 1.")


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineConfig:
    """The engine's memory and its rules.

    Units: ``block_size`` and ``max_model_len`` and ``max_batch_tokens`` in tokens, ``num_blocks`` and
    ``host_blocks`` in blocks, ``watermark`` as a share of ``num_blocks``.
    Raises ValueError with one sentence that names the value and what is allowed.
    """

    block_size: int = 4
    num_blocks: int = 32
    max_model_len: int = 64  # what "reserve max length" reserves, and the most tokens of a sequence
    sharing: Literal["copy-on-write", "append-only", "none"] = "copy-on-write"
    prefix_cache: bool = False
    preempt: Literal["recompute", "swap", "none"] = "recompute"
    host_blocks: int = 0
    watermark: float = 0.0
    max_batch_tokens: int = 2048  # most tokens computed in one step: longer prompts are computed in chunks
    max_running: int = 256  # most sequences running at once
    free_order: tuple[int, ...] | None = None  # first free blocks in this order; None: drawn from ``seed``
    strategies: tuple[str, ...] = ("reserve max",)  # contiguous strategies followed in lock-step
    copy_on_write_disabled: bool = False  # a lesson's switch: shared blocks are written uncopied (wrong)
    seed: int = 0

    def __post_init__(self) -> None:
        _between("block size", self.block_size, MIN_BLOCK_SIZE, MAX_BLOCK_SIZE)
        _between("number of blocks", self.num_blocks, 1, MAX_BLOCKS)
        _between("max model length", self.max_model_len, 1, 1 << 20)
        _between("host blocks", self.host_blocks, 0, MAX_BLOCKS)
        _between("tokens a step", self.max_batch_tokens, 1, 1 << 20)
        _between("running sequences", self.max_running, 1, 4096)
        _one_of("sharing", self.sharing, ("copy-on-write", "append-only", "none"))
        _one_of("preempt", self.preempt, ("recompute", "swap", "none"))
        if not 0.0 <= self.watermark < 1.0:
            raise ValueError(f"the watermark is {self.watermark}; it must be at least 0 and below 1.")
        if self.free_order is not None:
            order = self.free_order
            if len(set(order)) != len(order) or any(not 0 <= b < self.num_blocks for b in order):
                raise ValueError(
                    f"the free order {order} must name different blocks between 0 and {self.num_blocks - 1}."
                )

    @property
    def num_slots(self) -> int:
        """Token slots in the pool."""
        return self.block_size * self.num_blocks
