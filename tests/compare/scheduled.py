"""Traces from the real scheduler, without a model: what it would sample is made up."""

from __future__ import annotations

from collections.abc import Sequence

from core.config import EngineConfig
from core.engine.plan import Candidate, Outcome
from core.engine.scheduler import Scheduler
from core.memory.views import RequestView
from core.trace.step import Step, Trace

STOP = 999


def run(
    config: EngineConfig, requests: Sequence[RequestView], lengths: dict[str, int] | None = None
) -> Trace:
    """Serve the requests; sequence s stops after lengths[s] tokens, or after max_new_tokens."""
    scheduler = Scheduler(config)
    meta = {
        "block_size": config.block_size, "num_blocks": config.num_blocks, "bytes_per_token": 1024,
        "max_model_len": config.max_model_len, "sharing": config.sharing,
    }  # fmt: skip
    trace = Trace(meta=meta, requests=list(requests))
    for request in requests:
        scheduler.submit(request, frozenset({STOP}))
    prompts = {r.id: len(r.prompt_token_ids) for r in requests}
    while scheduler.has_work:
        plan = scheduler.plan()
        samples = {}
        for row in plan.scheduled:
            drawn = []
            for i in range(row.num_samples):
                name = row.sequence if row.num_samples == 1 else f"{row.request}.{i}"
                tokens = row.kv_len - prompts[row.request] + 1
                over = lengths is not None and tokens >= lengths.get(name, 1 << 30)
                drawn.append(Candidate(STOP if over else 100 + i, -1.0))
            samples[row.sequence] = tuple(drawn)
        after = scheduler.commit(plan, Outcome(samples=samples))
        trace.steps.append(
            Step(
                index=plan.index, kind=plan.kind, events=(*plan.events, *after),
                sequences=scheduler.sequences(), blocks=scheduler.blocks(), usage=(scheduler.usage(),),
            )
        )  # fmt: skip
    return trace
