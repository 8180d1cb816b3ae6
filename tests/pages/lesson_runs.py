"""Runs for lessons without a model: the scheduler with made-up tokens, under any block size and prompts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from core.config import EngineConfig
from core.engine.beams import BeamOptions
from core.engine.scheduler import Scheduler
from core.memory.contiguous import make_strategy
from core.memory.events import Event, Sample
from core.memory.views import RequestView
from core.scenarios import SCENARIOS
from core.trace.step import Proof, Step, Trace
from tests.engine.fake_model import FakeModel

STOP = frozenset[int]()


def request(number: int, prompt: Sequence[int], options: dict[str, Any]) -> RequestView:
    """A request with the options of a scenario's (n, beam, max_new_tokens, arrival_step)."""
    beam = options.get("beam", False)
    n = int(beam) if beam else int(options.get("n", 1))
    return RequestView(
        id=f"r{number}",
        prompt_text=" ".join(f"w{token}" for token in prompt),
        prompt_token_ids=tuple(prompt),
        mode="beam" if beam else "sample" if n > 1 else "greedy",
        n=n,
        max_new_tokens=options.get("max_new_tokens", 8),
        arrival_step=options.get("arrival_step", 0),
    )


def run(name: str, block_size: int, prompts: Sequence[Sequence[int]], *, blocks: int | None = None) -> Trace:
    """A scenario's rules on other prompts and another block size. Token ``t`` stands for the text " wt"."""
    scenario = SCENARIOS[name]
    pool = blocks or scenario.config.num_blocks
    config = replace(
        scenario.config, block_size=block_size, num_blocks=pool, max_model_len=256, free_order=None,
        host_blocks=pool if scenario.config.host_blocks else 0,
    )  # fmt: skip
    return drive(config, [
        request(k, prompt, dict(scenario.requests[min(k, len(scenario.requests) - 1)]))
        for k, prompt in enumerate(prompts)
    ])  # fmt: skip


def drive(config: EngineConfig, requests: Sequence[RequestView]) -> Trace:
    """Run the requests to their end and record every step as an engine would."""
    scheduler, model = Scheduler(config), FakeModel(config, vocab=50)
    meta = {
        "model": {"name": "made up", "layers": 2, "kv_heads": 1, "head_dim": 8, "query_heads": 2},
        "device": "cpu", "block_size": config.block_size, "num_blocks": config.num_blocks,
        "bytes_per_token": 128, "sharing": config.sharing, "prefix_cache": config.prefix_cache, "seed": 0,
        "scenario": None, "strategies": ["paged", "reserve max"],
    }  # fmt: skip
    trace = Trace(meta=meta)
    follower = make_strategy("reserve max", capacity=config.num_slots, max_model_len=config.max_model_len)
    for one in requests:
        scheduler.submit(one, STOP, BeamOptions() if one.mode == "beam" else None)
        trace.requests.append(one)
        trace.tokens |= {token: f" w{token}".encode() for token in one.prompt_token_ids}
    by_id = {one.id: one for one in requests}
    while scheduler.has_work:
        plan = scheduler.plan()
        outcome = model.run(plan, check_reads=not config.copy_on_write_disabled)
        events = (*plan.events, *scheduler.commit(plan, outcome))
        trace.tokens |= {e.token_id: f" w{e.token_id}".encode() for e in events if isinstance(e, Sample)}
        sequences = scheduler.sequences()
        told: tuple[Event, ...] = follower.advance(plan.index, sequences, by_id)
        proof = Proof(max_abs_logit_diff=0.0, same_argmax=True) if config.copy_on_write_disabled else None
        trace.steps.append(Step(
            index=plan.index, kind=plan.kind, events=(*events, *told), sequences=sequences,
            blocks=scheduler.blocks(), usage=(scheduler.usage(), follower.usage()), proof=proof,
            host_blocks=scheduler.host_blocks(),
        ))  # fmt: skip
    return trace


def prompts_for(name: str, length: int) -> list[list[int]]:
    """Prompts of about ``length`` tokens, as many as the scenario has; alike where they should be alike."""
    count = len(SCENARIOS[name].requests)
    if name == "prefix-moved":
        words = list(range(length))
        return [words, [*words[:-1], 90], [words[-1], *words[:-1]]]
    if name == "system-prompt":
        return [[*range(length), 60 + k, 70 + k] for k in range(count)]
    return [[k * 20 + token for token in range(length)] for k in range(count)]
