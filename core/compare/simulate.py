"""A data centre's day without a model: iteration-level scheduling over the real allocators, hours in seconds.

Every step, each running request writes one token; a request that has just been admitted writes its prompt.
First come, first served. "reserve max", "reserve power of two" and "exact" are the paper's Orca (Max),
(Pow2) and (Oracle): one run a request from the buddy allocator. "paged" takes blocks on demand, keeps 1 % of
them free when it admits, and when they run out the youngest request gives its blocks back and computes them
again later.

Nothing is done for a request in a step but when it begins and ends: ends are in a calendar, and so is every
need of a block, which comes round once in block_size steps.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from core.compare.setups import Setup, StepTime
from core.compare.workload import CONTEXT, Drawn
from core.memory.address_space import make_space
from core.memory.buddy import power_of_two

STRATEGIES = ("reserve max", "reserve power of two", "exact", "paged")
WATERMARK = 0.01  # of the blocks: kept free by admissions


class SimResult(NamedTuple):
    """Averages over time, the first tenth left out.

    ``tokens``, ``reserved``, ``internal``, ``external`` are shares of all slots, by the paper's definitions:
    hold a token; will hold one before the request ends; reserved beyond what the request turned out to need;
    the rest (rounding by the buddy allocator, and what is free). ``of_held``: tokens over slots held.
    """

    strategy: str
    batched: float  # requests running
    waiting: float
    tokens: float
    reserved: float
    internal: float
    external: float
    of_held: float
    step_ms: float
    finished: float  # requests a second
    preempted: int
    steps: int
    request_steps: int


@dataclass(slots=True, eq=False)
class _Request:
    prompt: int  # tokens computed when it is admitted: the prompt, and after a preemption what had come since
    new: int  # tokens still to be generated
    start: int = 0  # step of its admission
    run: int = 0  # start of its run
    wanted: int = 0  # slots asked for

    @property
    def final(self) -> int:
        return self.prompt + self.new - 1


class _Contiguous:
    """One run a request; what it asks for depends on the strategy."""

    def __init__(self, strategy: str, slots: int, policy: str, max_len: int) -> None:
        self.space = make_space(slots, policy)
        self.strategy, self.max_len = strategy, max_len
        self.wanted = self.final = self.held = self.preempted = 0  # but for the last: sums over those running

    def admit(self, request: _Request, step: int, alone: bool) -> bool:
        if self.strategy == "reserve max":
            wanted = self.max_len
        elif self.strategy == "exact":
            wanted = request.final
        else:
            wanted = min(request.prompt + power_of_two(request.new) - 1, self.max_len)
        start = self.space.take(wanted)
        if start is None:
            return False
        request.run, request.wanted = start, wanted
        self.wanted += wanted
        self.held += self.space.rounded(wanted)
        self.final += request.final
        return True

    def end(self, request: _Request) -> None:
        self.held -= self.space.give_back(request.run)
        self.wanted -= request.wanted
        self.final -= request.final

    def tick(self, step: int) -> list[_Request]:
        return []


class _Paged:
    """Blocks on demand. ``due[r]``: running requests that need a block in steps that leave r modulo
    block_size."""

    def __init__(self, slots: int, block_size: int) -> None:
        self.size, self.total = block_size, slots // block_size
        self.free = self.total
        self.reserve = int(WATERMARK * self.total)
        self.due = [0] * block_size
        self.running: dict[_Request, None] = {}  # in order of admission
        self.preempted = 0
        self.wanted = self.final = 0

    def _blocks(self, length: int) -> int:
        return -(-length // self.size)

    def _residue(self, request: _Request) -> int:
        return (request.start + 1 - request.prompt) % self.size

    def admit(self, request: _Request, step: int, alone: bool) -> bool:
        need = self._blocks(request.prompt)
        if need > self.free - (0 if alone else self.reserve):
            return False
        request.start = step
        self.free -= need
        self.due[self._residue(request)] += 1
        self.running[request] = None
        self.final += request.final
        return True

    def _leave(self, request: _Request, written: int) -> None:
        del self.running[request]
        self.free += self._blocks(written)
        self.due[self._residue(request)] -= 1
        self.final -= request.final

    def end(self, request: _Request) -> None:
        self._leave(request, request.final)

    def tick(self, step: int) -> list[_Request]:
        """Blocks for all that need one in this step; the requests that had to give way, youngest first."""
        victims = []
        while self.due[step % self.size] > self.free:
            victim = next(reversed(self.running))
            self._leave(victim, victim.prompt + step - victim.start - 1)
            victims.append(victim)
        self.free -= self.due[step % self.size]
        self.preempted += len(victims)
        return victims

    @property
    def held(self) -> int:
        return (self.total - self.free) * self.size


class _Sums:
    """Integrals over time of what is averaged in the end."""

    def __init__(self) -> None:
        self.time = self.batched = self.waiting = self.tokens = self.final = self.wanted = self.held = 0.0
        self.steps = self.finished = self.request_steps = 0

    def add(self, dt: float, running: int, waiting: int, live: int, memory: _Contiguous | _Paged) -> None:
        self.time += dt
        self.batched += dt * running
        self.waiting += dt * waiting
        self.tokens += dt * live
        self.final += dt * memory.final
        self.wanted += dt * memory.wanted
        self.held += dt * memory.held
        self.steps += 1


def simulate(
    requests: Sequence[Drawn],
    strategy: str,
    setup: Setup,
    step_time: StepTime,
    *,
    seconds: float,
    block_size: int = 16,
    policy: str = "buddy",
    max_len: int = CONTEXT,
) -> SimResult:
    """``seconds`` of serving ``requests`` (arrivals in seconds) on ``setup`` under ``strategy``.

    ``step_time`` says how long a step takes. ``max_len``: what "reserve max" reserves, and the most that any
    strategy does. Raises ValueError for an unknown strategy and for a request that no strategy can ever hold.
    """
    if strategy not in STRATEGIES:
        raise ValueError(f"there is no strategy {strategy!r}; choose among {', '.join(STRATEGIES)}.")
    longest = max(r.prompt + r.new for r in requests)
    if max(longest, max_len) > setup.slots - block_size:
        raise ValueError(f"{setup.name} has {setup.slots} slots; a request of {longest} tokens never fits.")
    memory = (
        _Paged(setup.slots, block_size)
        if strategy == "paged"
        else _Contiguous(strategy, setup.slots, policy, max_len)
    )
    sums = _serve(requests, memory, setup, step_time, seconds, strategy == "paged")
    time = max(sums.time, 1e-9)
    average = [x / time for x in (sums.tokens, sums.final, sums.wanted, sums.held)]
    tokens, final, wanted, held = average
    if strategy == "paged":
        final, wanted = tokens, held
    return SimResult(
        strategy, sums.batched / time, sums.waiting / time, tokens / setup.slots,
        (final - tokens) / setup.slots, (wanted - final) / setup.slots, 1 - wanted / setup.slots,
        tokens / held if held else 0.0, 1e3 * time / max(sums.steps, 1), sums.finished / time,
        memory.preempted, sums.steps, sums.request_steps,
    )  # fmt: skip


def _serve(
    requests: Sequence[Drawn],
    memory: _Contiguous | _Paged,
    setup: Setup,
    step_time: StepTime,
    seconds: float,
    paged: bool,
) -> _Sums:
    sums, queue, ends = _Sums(), deque[_Request](), dict[int, list[_Request]]()
    clock, step, arrived, running, live = 0.0, 0, 0, 0, 0
    seconds_of = step_time.of(setup, paged)
    while clock < seconds:
        while arrived < len(requests) and requests[arrived].arrival <= clock:
            queue.append(_Request(requests[arrived].prompt, requests[arrived].new))
            arrived += 1
        for victim in memory.tick(step):
            done = step - victim.start  # tokens generated since its admission
            ends[victim.start + victim.new - 1].remove(victim)
            live -= victim.prompt + done - 1
            running -= 1
            queue.appendleft(_Request(victim.prompt + done, victim.new - done))
        prefill = 0
        while queue and memory.admit(queue[0], step, running == 0):
            request = queue.popleft()
            request.start = step
            ends.setdefault(step + request.new - 1, []).append(request)
            running += 1
            prefill += request.prompt
            live += request.prompt - 1
        if not running:
            if arrived == len(requests):
                break
            clock = requests[arrived].arrival
            continue
        live += running
        dt = seconds_of(running, prefill, live)
        over = ends.pop(step, ())
        if clock >= 0.1 * seconds:
            sums.add(dt, running, len(queue), live, memory)
            sums.finished += len(over)
        sums.request_steps += running
        for request in over:
            memory.end(request)
            live -= request.final
            running -= 1
        clock += dt
        step += 1
    return sums
