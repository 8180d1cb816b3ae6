"""Recorder: turns what an engine did into the steps of a trace. Work a step: O(what changed)."""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from core import __version__
from core.config import EngineConfig
from core.engine.plan import StepPlan
from core.memory.contiguous import make_strategy
from core.memory.events import Event, Fork, Sample
from core.memory.scripts import Scripts
from core.memory.views import RequestView, SequenceView
from core.trace.step import Proof, Step, TimeMs, Trace

if TYPE_CHECKING:
    from core.engine.scheduler import Scheduler
    from core.models.loaded import LoadedModel
    from core.models.tokens import Tokens


def trace_meta(model: LoadedModel, config: EngineConfig, scenario: str | None) -> dict[str, Any]:
    """The trace file's "meta" of a run with this model and configuration."""
    g = model.geometry
    return {
        "model": {
            "name": model.name,
            "sha256": model.sha256,
            "dtype": g.dtype,
            "layers": g.layers,
            "query_heads": g.query_heads,
            "kv_heads": g.kv_heads,
            "head_dim": g.head_dim,
        },
        "device": model.device,
        "block_size": config.block_size,
        "num_blocks": config.num_blocks,
        "max_model_len": config.max_model_len,  # an addition to version 1: what "reserve max" reserves
        "bytes_per_token": g.bytes_per_token,
        "sharing": config.sharing,
        "prefix_cache": config.prefix_cache,
        "seed": config.seed,
        "scenario": scenario,
        "strategies": ["paged", *config.strategies],
        "app_version": __version__,
    }


class Texts:
    """What each sampled token adds to its sequence's text: nothing until a character is complete."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens
        self._pending: dict[str, bytes] = {}  # by sequence: the bytes of a character that is incomplete

    def fork(self, parent: str, child: str) -> None:
        self._pending[child] = self._pending.get(parent, b"")

    def add(self, sequence: str, token_id: int) -> str:
        """The characters that this token completes; special tokens are shown by name."""
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        text = decoder.decode(self._pending.get(sequence, b"") + self._tokens.token_bytes(token_id))
        self._pending[sequence] = decoder.getstate()[0]
        return text


class Recorder:
    """Owns the trace of one engine and the contiguous strategies that follow it in lock-step."""

    def __init__(self, model: LoadedModel, config: EngineConfig, scenario: str | None) -> None:
        self.trace = Trace(meta=trace_meta(model, config, scenario))
        self._tokens = model.tokens
        self._texts = Texts(model.tokens)
        self._requests: dict[str, RequestView] = {}
        scripts = Scripts()  # what the paged run did, read once for all of them
        self._strategies = [
            make_strategy(
                name,
                capacity=config.num_slots,
                max_model_len=config.max_model_len,
                block_size=config.block_size,
                scripts=scripts,
            )
            for name in config.strategies
        ]

    def request(self, request: RequestView) -> None:
        """A request has been handed in."""
        self.trace.requests.append(request)
        self._requests[request.id] = request
        self._name(request.prompt_token_ids)

    def knows(self, request_id: str) -> bool:
        """Whether a request of this id has been recorded, refused ones included."""
        return request_id in self._requests

    def prompt(self, request_id: str) -> tuple[int, ...]:
        """The prompt's tokens."""
        return self._requests[request_id].prompt_token_ids

    def step(
        self,
        plan: StepPlan,
        after: Sequence[Event],
        scheduler: Scheduler,
        proof: Proof | None,
        time_ms: TimeMs,
    ) -> Step:
        """Record a step: the plan's events, those after the forward pass, then the other strategies'."""
        sequences = scheduler.sequences()
        events = [*plan.events, *(self._spoken(e) for e in after)]
        for strategy in self._strategies:
            events.extend(strategy.advance(plan.index, sequences, self._requests))
        step = Step(
            index=plan.index,
            kind=plan.kind,
            events=tuple(events),
            sequences=sequences,
            blocks=scheduler.blocks(),
            usage=(scheduler.usage(), *(s.usage() for s in self._strategies)),
            proof=proof,
            time_ms=time_ms,
            host_blocks=scheduler.host_blocks(),
        )
        self.trace.steps.append(step)
        return step

    def _spoken(self, event: Event) -> Event:
        """The event with its text, where it is a sample."""
        if isinstance(event, Fork):
            self._texts.fork(event.parent, event.child)
        if not isinstance(event, Sample):
            return event
        self._name((event.token_id,))
        return replace(event, text=self._texts.add(event.sequence, event.token_id))

    def _name(self, token_ids: Iterable[int]) -> None:
        """Say in the trace what these tokens stand for."""
        for token in token_ids:
            if token not in self.trace.tokens:
                self.trace.tokens[token] = self._tokens.token_bytes(token)

    def generated(self, sequence: SequenceView) -> str:
        """The text after the prompt; an incomplete last character is held back."""
        prompt = len(self._requests[sequence.request].prompt_token_ids)
        return self._tokens.text(sequence.token_ids[prompt:])
