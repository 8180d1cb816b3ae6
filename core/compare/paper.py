"""The PagedAttention paper's own figures, and ours beside them (Kwon et al., SOSP 2023, arXiv 2309.06180)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from core.compare.setups import OPT_13B, StepTime
from core.compare.simulate import STRATEGIES, SimResult, simulate
from core.compare.workload import ALPACA, SHAREGPT, Lengths, draw

PAPER_NAMES = {
    "reserve max": "Orca (Max)",
    "reserve power of two": "Orca (Pow2)",
    "exact": "Orca (Oracle)",
    "paged": "vLLM",
}
KINDS = ("tokens", "reserved", "internal", "external")
# Fig. 2, percent of the memory for keys and values. The paper prints no figure for Oracle's internal
# fragmentation (it has none) and only the first for vLLM.
FIG_2: dict[str, tuple[float | None, ...]] = {
    "reserve max": (20.4, 13.3, 57.3, 8.9),
    "reserve power of two": (26.8, 17.9, 13.6, 41.6),
    "exact": (38.2, 25.2, 0.0, 36.6),
    "paged": (96.3, None, None, None),
}
# Fig. 13, average number of batched requests, OPT-13B.
FIG_13 = {
    "ShareGPT": {"reserve max": 7.00, "reserve power of two": 9.81, "exact": 13.62, "paged": 30.42},
    "Alpaca": {"reserve max": 7.00, "reserve power of two": 43.24, "exact": 72.75, "paged": 132.44},
}
RATES = {"ShareGPT": 2.0, "Alpaca": 30.0}  # requests a second in Fig. 13
FULL_RATE = 4.0  # requests a second for Fig. 2: more than any strategy serves, so that a queue always waits


class Cell(NamedTuple):
    """One figure of the paper and ours."""

    figure: str
    workload: str
    strategy: str
    what: str
    paper: float | None
    ours: float

    @property
    def off(self) -> float | None:
        """Percentage points (Fig. 2) or percent of the paper's figure (Fig. 13)."""
        if self.paper is None:
            return None
        return self.ours - self.paper if self.figure == "2" else 100 * (self.ours / self.paper - 1)


def serve(
    lengths: Lengths,
    rate: float,
    seconds: float,
    seed: int = 0,
    step_time: StepTime | None = None,
    strategies: Sequence[str] = STRATEGIES,
    block_size: int = 16,
) -> dict[str, SimResult]:
    """OPT-13B on one A100-40GB under each strategy, the same requests for all."""
    requests = draw(lengths, max(1, int(1.1 * rate * seconds)), rate, seed)
    return {
        name: simulate(
            requests, name, OPT_13B, step_time or StepTime(), seconds=seconds, block_size=block_size
        )
        for name in strategies
    }


def figure_2(seconds: float = 1800, seed: int = 0, lengths: Lengths = SHAREGPT) -> list[Cell]:
    """Fig. 2: where the memory for keys and values goes, in percent."""
    results = serve(lengths, FULL_RATE, seconds, seed)
    return [
        Cell("2", lengths.name, name, kind, paper, 100 * getattr(results[name], kind))
        for name, row in FIG_2.items()
        for kind, paper in zip(KINDS, row, strict=True)
    ]


def figure_13(
    lengths: Lengths, seconds: float = 1800, seed: int = 0, step_time: StepTime | None = None,
    strategies: Sequence[str] = STRATEGIES,
) -> list[Cell]:  # fmt: skip
    """Fig. 13: requests running at once, on average."""
    results = serve(lengths, RATES[lengths.name], seconds, seed, step_time, strategies)
    paper: Mapping[str, float] = FIG_13[lengths.name]
    return [
        Cell("13", lengths.name, name, "requests at once", paper[name], result.batched)
        for name, result in results.items()
    ]


def sensitivity(seconds: float = 900, seed: int = 0) -> list[str]:
    """What the unstated choices do: one sentence each, with figures."""
    spread = []
    for sigma in (0.7, 0.9):
        cells = figure_2(seconds, seed, replace(SHAREGPT, sigma_new=sigma))
        worst = max((abs(c.off), c) for c in cells if c.off is not None)
        spread.append(f"sigma {sigma}: {worst[0]:.1f} points at worst ({PAPER_NAMES[worst[1].strategy]})")
    paged: list[str] = []
    for each in (0.1e-3, 0.2e-3, 0.3e-3):
        timing = StepTime(host_per_request=each)
        found = [figure_13(kind, seconds, seed, timing, ("paged",))[0].ours for kind in (SHAREGPT, ALPACA)]
        paged.append(f"{1e3 * each:.1f} ms: {found[0]:.1f} and {found[1]:.0f}")
    return [
        "The spread of the output lengths is not stated. Fig. 2 with another: " + "; ".join(spread) + ".",
        "vLLM's requests at once are arrivals a second times seconds in the system while memory is not full, "
        "so they measure the step's time, which is not stated either. By the host's time a request and step, "
        "ShareGPT and Alpaca: " + "; ".join(paged) + " (paper 30.42 and 132.44).",
    ]
