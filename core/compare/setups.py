"""Models on cards: how many slots they leave for keys and values, and how long a step takes on them.

The three set-ups are Table 1 of the PagedAttention paper. The step-time model is a roofline with a few stated
efficiencies; all of its numbers are here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """A model on its cards. ``slots``: tokens whose keys and values fit. Sums over all cards; bytes, bytes a
    second, floating-point operations a second."""

    name: str
    slots: int
    parameters: float
    bytes_per_token: int
    bandwidth: float
    flops: float
    parameter_bytes: int = 2

    @property
    def weight_bytes(self) -> float:
        """Bytes of the weights, all of which a step reads once."""
        return self.parameters * self.parameter_bytes


A100_40 = (1.555e12, 312e12)  # bytes a second, 16-bit operations a second (NVIDIA's data sheet)
A100_80 = (2.039e12, 312e12)

OPT_13B = Setup(
    name="OPT-13B, 1 x A100-40GB", slots=15_700, parameters=13e9, bytes_per_token=2 * 40 * 5120 * 2,
    bandwidth=A100_40[0], flops=A100_40[1],
)  # fmt: skip
OPT_66B = Setup(
    name="OPT-66B, 4 x A100-40GB", slots=9_700, parameters=66e9, bytes_per_token=2 * 64 * 9216 * 2,
    bandwidth=4 * A100_40[0], flops=4 * A100_40[1],
)  # fmt: skip
OPT_175B = Setup(
    name="OPT-175B, 8 x A100-80GB", slots=60_100, parameters=173e9, bytes_per_token=2 * 96 * 12288 * 2,
    bandwidth=8 * A100_80[0], flops=8 * A100_80[1],
)  # fmt: skip
SETUPS = {"opt-13b": OPT_13B, "opt-66b": OPT_66B, "opt-175b": OPT_175B}


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTime:
    """How long one step takes: the host's work, the weights (read once, or computed with, whichever takes
    longer), and the keys and values of all running requests (read once).

    The paper states none of this. ``paged_attention``: its kernel took 20 to 26 % longer than
    FasterTransformer's (Fig. 18a). The host's share is a round guess for a scheduler and sampler in Python.
    """

    bandwidth_share: float = 0.8  # of the card's peak, for weights and contiguous keys and values
    flops_share: float = 0.5
    paged_attention: float = 1.23  # time of the paged kernel over the contiguous one
    host_per_step: float = 5e-3  # seconds
    host_per_request: float = 0.2e-3  # seconds

    def of(self, setup: Setup, paged: bool) -> Callable[[int, int, int], float]:
        """seconds(running requests, prompt tokens computed, tokens in memory) of a step on ``setup``."""
        weights = setup.weight_bytes / (self.bandwidth_share * setup.bandwidth)
        token = 2 * setup.parameters / (self.flops_share * setup.flops)
        read = setup.bytes_per_token / (self.bandwidth_share * setup.bandwidth)
        read *= self.paged_attention if paged else 1.0
        host, each = self.host_per_step, self.host_per_request

        def seconds(running: int, prefill: int, live: int) -> float:
            return host + each * running + max(weights, token * (running + prefill)) + read * live

        return seconds
