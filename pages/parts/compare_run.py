"""A trace under the strategies that somebody ticked: each runs once for its settings, and is remembered."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from core.compare.lockstep import PAGED, lockstep
from core.compare.report import StepReport
from core.memory.buddy import power_of_two
from core.memory.contiguous import BUDDY, STRATEGIES
from core.trace.step import Trace

ALL: Final = (*STRATEGIES, PAGED)  # in the order of the course: from no cache to the paged run itself
TICKED: Final = ("reserve max", "reserve power of two", "exact", "doubling", PAGED)
POLICIES: Final = (
    "first fit",
    "best fit",
    "buddy",
    "own",
)  # "own": the paper's two buddy, the rest first fit
ESTIMATED: Final = ("reserve power of two", "exact")  # they go by the length of the answer
PAGES: Final = ("no cache", "promised pages", "paged without sharing", PAGED)  # no runs, so no policy
REMEMBERED = 48  # runs kept; a run is one strategy under one setting

Reports = list[dict[str, StepReport]]


@dataclass(slots=True)
class Choices:
    """What is compared, and how. ``estimate``: tokens that an answer is believed to have; 0: its true
    length. ``overflow``: "stop" or "move" when it was too small. ``compact_at``: steps before which runs are
    moved together, for each trace."""

    trace: str = ""  # "lesson:NAME", "live" or "opened"
    strategies: tuple[str, ...] = TICKED
    policy: str = "first fit"
    estimate: int = 0
    overflow: str = "stop"
    hindsight: bool = False
    steps: dict[str, int] = field(default_factory=dict)
    compact_at: dict[str, tuple[int, ...]] = field(default_factory=dict)

    @property
    def compacted(self) -> tuple[int, ...]:
        """The steps of the trace on the screen before which memory is compacted."""
        return self.compact_at.get(self.trace, ())


def policy_of(name: str, policy: str) -> str | None:
    """The allocator that a strategy really uses; None where it holds no runs."""
    if name in PAGES:
        return None
    if policy != "own":
        return policy
    return "buddy" if name in BUDDY else "first fit"


def can_compact(choices: Choices) -> bool:
    """Whether some ticked strategy's runs may be moved together."""
    return any(policy_of(name, choices.policy) in ("first fit", "best fit") for name in choices.strategies)


def is_over(trace: Trace) -> bool:
    """Whether every sequence has finished; a live run that goes on is not followed past its last step."""
    return bool(trace.steps) and all(view.state == "finished" for view in trace.steps[-1].sequences)


def estimates(trace: Trace) -> list[int]:
    """What an answer's length may be believed to be: about twenty steps up to the power of two that holds the
    most that any request asks for; then 0, which stands for its true length."""
    top = power_of_two(max((request.max_new_tokens for request in trace.requests), default=1))
    return [*sorted({max(1, round(top * part / 20)) for part in range(1, 21)}), 0]


class Runs:
    """Remembers what each strategy did under each setting: ticking one more runs that one only."""

    def __init__(self) -> None:
        # With the trace, so that its id is not given to another one while it stands here.
        self._known: dict[Hashable, tuple[Trace, list[StepReport]]] = {}

    def reports(self, trace: Trace, choices: Choices) -> Reports:
        """Per step {strategy: report}, until the last ticked strategy is done; those done before stand still.

        Raises ValueError with a sentence when the trace does not say how large its pool is.
        """
        columns = {name: self._run(trace, name, choices) for name in ALL if name in choices.strategies}
        length = max(map(len, columns.values()), default=0)
        return [{name: _at(column, index) for name, column in columns.items()} for index in range(length)]

    def _run(self, trace: Trace, name: str, choices: Choices) -> list[StepReport]:
        policy = policy_of(name, choices.policy)
        estimate = choices.estimate or None if name in ESTIMATED else None
        compact_at = choices.compacted if policy in ("first fit", "best fit") else ()
        key = (id(trace), len(trace.steps), name, policy, estimate, choices.overflow if estimate else "",
               choices.hindsight, compact_at)  # fmt: skip
        if key not in self._known:
            while len(self._known) >= REMEMBERED:
                del self._known[next(iter(self._known))]
            steps = lockstep(
                trace, (name,), policy=policy, estimate=estimate, overflow=choices.overflow,
                hindsight=choices.hindsight, drain=is_over(trace), compact_at=compact_at,
            )  # fmt: skip
            self._known[key] = trace, [step[name] for step in steps]
        return self._known[key][1]


def _at(column: Sequence[StepReport], index: int) -> StepReport:
    """The report of a step; after the last one the strategy stands still."""
    if index < len(column):
        return column[index]
    return column[-1]._replace(events=(), copies=(), compacted=0)


def opening_step(reports: Sequence[Mapping[str, StepReport]]) -> int:
    """Where a comparison begins to be worth looking at: where the most and the fewest requests run are
    furthest apart, if there is one a step in which somebody waits because memory lies in pieces and nobody is
    about to go on."""

    def worth(index: int) -> tuple[bool, int, int]:
        reasons = {report.waiting.reason for report in reports[index].values() if report.waiting is not None}
        running = [report.usage.running for name, report in reports[index].items() if name != "no cache"]
        apart = max(running, default=0) - min(running, default=0)
        return "fragmented" in reasons and "next" not in reasons, apart, -index

    return max(range(len(reports)), key=worth, default=0)
