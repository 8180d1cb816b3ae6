"""What a comparison reports after a step, and what a trace says about its own, paged run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from core.memory import events as ev
from core.memory.holders import Copied
from core.memory.strips import Holding, Run, Stopped, Waiting, runs_of
from core.memory.views import RequestView, Usage
from core.trace.step import Step, Trace


class StepReport(NamedTuple):
    """One strategy after one step. ``recomputed``, ``preempted``, ``stopped`` count from the first step
    on."""

    usage: Usage
    holdings: tuple[Holding, ...]  # what each sequence holds; ``runs`` makes a strip of it
    waiting: Waiting | None
    events: tuple[ev.Event, ...] = ()
    copies: tuple[Copied, ...] = ()
    recomputed: int = 0  # tokens
    preempted: int = 0  # requests
    stopped: tuple[Stopped, ...] = ()
    own_runs: tuple[Run, ...] | None = None  # of the trace's own run, where blocks can be shared
    compacted: int = 0  # tokens moved by a compaction just before this step

    @property
    def runs(self) -> tuple[Run, ...]:
        """The strip: every run held, in order of address."""
        return runs_of(self.holdings) if self.own_runs is None else self.own_runs


def final_lengths(trace: Trace) -> dict[str, int]:
    """How many tokens each finished sequence of the trace had written in the end."""
    views = trace.steps[-1].sequences if trace.steps else ()
    return {view.id: view.written for view in views if view.state == "finished"}


def capacity_of(trace: Trace) -> int:
    """Token slots of the trace's pool. Raises ValueError when its "meta" does not say."""
    blocks, size = trace.meta.get("num_blocks"), trace.meta.get("block_size")
    if not isinstance(blocks, int) or not isinstance(size, int):
        raise ValueError('this trace does not say how large its pool is ("num_blocks" and "block_size").')
    return blocks * size


def max_model_len_of(trace: Trace) -> int:
    """What "reserve max" reserves: as the trace says; or as it did; or the longest that a request can
    become."""
    stated = trace.meta.get("max_model_len")
    if isinstance(stated, int) and stated > 0:
        return stated
    for step in trace.steps:
        for event in step.events:
            if isinstance(event, ev.Reserve) and event.strategy == "reserve max":
                return event.length
    return max((request.max_written + 1 for request in trace.requests), default=1)


def paged_report(
    step: Step,
    requests: Mapping[str, RequestView],
    block_size: int,
    final_lengths: Mapping[str, int] | None = None,
) -> StepReport:
    """The trace's own run after a step; in hindsight when ``final_lengths`` are given."""
    runs = paged_runs(step, requests, block_size, final_lengths)
    usage = step.usage[0]
    if final_lengths is not None:
        held = [run for run in runs if run.owner]
        reserved = sum(run.usable - run.live for run in held)
        usage = replace(usage, reserved=reserved, internal=usage.reserved + usage.internal - reserved)
    return StepReport(usage, (), _waiting(step, block_size), own_runs=runs)


def paged_runs(
    step: Step,
    requests: Mapping[str, RequestView],
    block_size: int,
    final_lengths: Mapping[str, int] | None = None,
) -> tuple[Run, ...]:
    """The pool as a strip, one run a block: a shared block names all its owners, a cached one nobody."""
    owners: dict[int, list[tuple[str, int]]] = {}
    for view in step.sequences:
        most = requests[view.request].max_written
        limit = most if final_lengths is None else final_lengths.get(view.id, view.written)
        for logical, number in enumerate(view.block_table):
            owners.setdefault(number, []).append((view.id, limit - logical * block_size))
    runs = []
    for block in step.blocks:
        names = owners.get(block.id, [])
        usable = min(block_size, max([block.filled, *(left for _, left in names)]))
        owner = "+".join(name for name, _ in names)
        runs.append(Run(block.id * block_size, block_size, owner, block.filled, usable))
    return tuple(runs)


def _waiting(step: Step, block_size: int) -> Waiting | None:
    """What the trace's own run says about the head of its queue. Blocks are given as slots; a limit that is
    not memory (tokens computed in a step, sequences at once) keeps its name as the reason."""
    event = next((event for event in step.events if isinstance(event, ev.Wait)), None)
    if event is None:
        return None
    memory = event.reason in ("blocks", "watermark")
    unit = block_size if memory else 1
    need, have = unit * event.need, unit * event.have
    reason = "full" if memory else event.reason
    return Waiting(event.request, event.request, need, 1, have, have, reason, False)
