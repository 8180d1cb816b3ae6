"""A race: one workload for real, under one number of KV bytes, one strategy after the other, on the real
model.

A unit of time is one step (one forward pass), so that who is admitted when does not depend on the machine;
seconds are measured. Every request generates exactly as many tokens as the workload says.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any

from core.compare.contenders import PagedRunner, RaceRequest, StrategyRunner, Tick
from core.compare.race_result import Progress, RaceResult, compare_texts
from core.compare.workload import Drawn, Lengths, draw

if TYPE_CHECKING:
    from core.models.loaded import LoadedModel

CONTENDERS = (
    "paged",
    "paged without sharing",
    "promised pages",
    "exact",
    "doubling",
    "reserve power of two",
    "grow by one",
    "reserve max",
)


class Race:
    """``results`` grows as contenders finish; what a stopped race has found stays."""

    def __init__(
        self,
        model: LoadedModel,
        requests: Sequence[RaceRequest],
        *,
        kv_bytes: int,
        max_model_len: int,
        block_size: int = 16,
        contenders: Sequence[str] = CONTENDERS,
    ) -> None:
        """``kv_bytes``: the budget for keys and values, the same for all.

        Raises ValueError with a sentence when the budget holds not even one longest request.
        """
        self.slots = kv_bytes // model.geometry.bytes_per_token // block_size * block_size
        longest = max((len(r.prompt) + r.new - 1 for r in requests), default=0)
        if longest > max_model_len or max_model_len > self.slots:
            raise ValueError(
                f"{kv_bytes:,} bytes hold {self.slots} tokens; the longest request needs {longest} and the "
                f"max model length is {max_model_len}: it must lie between the two."
            )
        unknown = [name for name in contenders if name not in CONTENDERS]
        if unknown:
            raise ValueError(f"{unknown[0]!r} cannot race; choose among {', '.join(CONTENDERS)}.")
        self.model, self.requests, self.contenders = model, tuple(requests), tuple(contenders)
        self.max_model_len, self.block_size = max_model_len, block_size
        self.results: list[RaceResult] = []

    def run(
        self,
        progress: Callable[[Progress], None] | None = None,
        stop: Callable[[], bool] | None = None,
        in_turns: bool = False,
    ) -> list[RaceResult]:
        """Let all contenders run, one after the other. ``stop`` is asked before each step.

        ``in_turns``: all have their own memory at the same time, and whoever has used the fewest seconds
        makes the next step, so that other load on the machine hits all alike. For benchmarks.
        """
        stop = stop or (lambda: False)
        groups = [self.contenders] if in_turns else [(name,) for name in self.contenders]
        for group in groups:
            laps = [_Lap(name, self) for name in group if not stop()]
            active = list(laps)
            while active and not stop():
                lap = min(active, key=lambda lap: lap.result.seconds)
                tick = lap.step()
                if progress is not None:
                    progress(self._progress(lap, tick.running))
                active = [lap for lap in active if not lap.runner.done]
            self.results.extend(lap.finish() for lap in laps)
        compare_texts(self.results)
        return self.results

    @property
    def facts(self) -> dict[str, Any]:
        """The workload and the budget in numbers; prompt and new are mean tokens."""
        count = len(self.requests)
        return {
            "requests": count, "slots": self.slots, "max_len": self.max_model_len,
            "bytes": self.slots * self.model.geometry.bytes_per_token,
            "prompt": sum(len(r.prompt) for r in self.requests) / count,
            "new": sum(r.new for r in self.requests) / count,
        }  # fmt: skip

    def _progress(self, lap: _Lap, running: int) -> Progress:
        name, all_tokens = lap.result.strategy, sum(r.new * r.n for r in self.requests)
        number = self.contenders.index(name)
        return Progress(name, number, len(self.contenders), lap.result.generated, all_tokens, running)


class _Lap:
    """One contender under way."""

    def __init__(self, name: str, race: Race) -> None:
        sizes = (race.model, race.requests, race.slots, race.max_model_len, race.block_size)
        self.runner: PagedRunner | StrategyRunner = (
            PagedRunner(*sizes, shares=name == "paged")
            if name in ("paged", "paged without sharing")
            else StrategyRunner(*sizes, name)
        )
        self.result = RaceResult(strategy=name)
        self._race = race
        self._tokens: dict[str, list[int]] = {}
        self._arrived: dict[str, float] = {}

    def step(self) -> Tick:
        result = self.result
        for i, request in enumerate(self._race.requests):
            if request.arrival <= result.steps:
                self._arrived.setdefault(f"r{i}", result.seconds)
        began = perf_counter()
        tick = self.runner.step()
        took = perf_counter() - began
        result.steps += 1
        result.seconds += took
        result.peak = max(result.peak, tick.running)
        result.mean += took * tick.running
        result.waited += tick.waiting
        result.copied_bytes += tick.copied * self._race.model.geometry.bytes_per_token
        result.timeline.append((result.seconds, tick.running))
        result.generated += len(tick.generated)
        for sequence, token in tick.generated.items():
            request_id, _, answer = sequence.rpartition(".")
            if sequence not in self._tokens and answer == "0":
                result.first_token.append(result.seconds - self._arrived[request_id])
            self._tokens.setdefault(sequence, []).append(token)
        return tick

    def finish(self) -> RaceResult:
        """The result; the memory goes back."""
        result, runner = self.result, self.runner
        result.complete = runner.done
        result.preempted, result.stopped = runner.preempted, runner.stopped
        result.mean /= result.seconds or 1.0
        result.texts = {sequence: tuple(ids) for sequence, ids in sorted(self._tokens.items())}
        runner.close()
        return result


PASSAGE = (
    "When a request arrives, nobody knows how long its answer will be. A system that sets memory aside for "
    "the longest answer serves few requests at once, and most of what it has set aside is never used. A "
    "system that guesses must move what it has when the guess was too small. Operating systems met the same "
    "problem long ago: programs asked for memory in one piece, pieces of all sizes came and went, and what "
    "was left between them was too small for anybody. They cut memory into pages of one size, and let a "
    "table say where each page lies. What a program sees as one piece may then lie anywhere. "
)
SYSTEM = "You are a patient teacher. Answer the question in plain words, and give one small example. "


def race_workload(
    model: LoadedModel,
    lengths: Lengths,
    count: int,
    *,
    rate: float = 0.0,
    seed: int = 0,
    system_tokens: int = 32,
    n: int = 1,
) -> list[RaceRequest]:
    """``count`` requests with drawn lengths: a system prompt common to all, then a question of its own.

    ``rate``: arrivals a step (0: all at once). The lengths' limit holds for question and answer.
    """
    drawn = draw(lengths, count, rate, seed)
    return race_requests(model, drawn, system_tokens=system_tokens, n=n)


def race_requests(
    model: LoadedModel, drawn: Sequence[Drawn], *, system_tokens: int = 0, n: int = 1
) -> list[RaceRequest]:
    """Requests of these lengths: a system prompt common to all, then a question of its own from a passage."""
    longest = max((request.prompt for request in drawn), default=0)
    passage, system = _at_least(model, PASSAGE, longest + 97), _at_least(model, SYSTEM, system_tokens)
    requests = []
    for i, request in enumerate(drawn):
        begin = (37 * i) % 97  # another place in the passage for each
        requests.append(
            RaceRequest(
                prompt=(*system[:system_tokens], *passage[begin : begin + request.prompt]), new=request.new,
                arrival=int(request.arrival), n=n, temperature=0.8 if n > 1 else 0.0, seed=1000 * i,
            )
        )  # fmt: skip
    return requests


def _at_least(model: LoadedModel, text: str, count: int) -> list[int]:
    """Token ids of the text, repeated until there are ``count``."""
    ids = model.tokens.encode(text)
    return (ids * (count // len(ids) + 1))[:count] if count else []
