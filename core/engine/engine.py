"""Engine: plan -> run -> commit, and a trace of every step.

plan()    the scheduler decides; nothing has changed yet. The same plan until it is committed.
run()     block moves, one forward pass, sampling. May be repeated: after an exception nothing is lost.
commit()  the tokens are appended, blocks released, and the step is recorded.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Literal

import torch

from core.config import EngineConfig, Sampling
from core.engine.batch import PackedBatch, pack
from core.engine.beams import BeamOptions
from core.engine.bridge import forward
from core.engine.dense import prove
from core.engine.errors import RequestRefused, SessionClosed
from core.engine.graphs import GraphedForward
from core.engine.peek import Peek, peek
from core.engine.plan import Outcome, StepPlan
from core.engine.prepare import prepare
from core.engine.recorder import Recorder
from core.engine.refusal import NeverFits
from core.engine.requests import make_request
from core.engine.sampling import choose
from core.engine.scheduler import Scheduler
from core.engine.store import KVStore, used_host_blocks
from core.memory.views import RequestView
from core.trace.step import Proof, Step, TimeMs, Trace

if TYPE_CHECKING:
    from core.models.loaded import LoadedModel


class Engine:
    """One pool, one scheduler, one trace, on a model that others may share.

    Not safe for several threads at once (see session.py); the forward pass holds the model's lock.
    """

    def __init__(
        self,
        model: LoadedModel,
        config: EngineConfig,
        *,
        prove: bool = False,
        scenario: str | None = None,
        graphs: bool | None = None,
    ) -> None:
        """``prove``: compare the logits of every step with a dense, cache-free pass (slow).
        ``graphs``: decode through CUDA graphs; None: on a GPU only.

        ``scenario``: the lesson that is being run, for the trace; only a lesson may switch copy-on-write off.

        Raises PoolTooLarge when the pool does not fit in memory, ValueError when the configuration asks
        for longer sequences than the model reads, UnsupportedModel when the model fails its self-test.
        """
        if config.max_model_len > model.geometry.max_positions:
            raise ValueError(
                f"the max model length is {config.max_model_len} and {model.name} reads at most "
                f"{model.geometry.max_positions} tokens; choose at most that."
            )
        if config.copy_on_write_disabled and not scenario:
            raise ValueError(
                "Copy-on-write is switched off, so a block would be written while others read it: only a "
                "lesson may do that; leave it on, or name the scenario."
            )
        prepare(model)
        self.model = model
        self.config = config
        self._store: KVStore | None = KVStore(
            config.num_blocks,
            config.block_size,
            model.geometry,
            device=model.device,
            host_blocks=used_host_blocks(config),
        )
        on = torch.device(model.device).type == "cuda" if graphs is None else graphs
        self._graphs = GraphedForward(model, self._store, config) if on else None
        self._scheduler = Scheduler(config)
        self._recorder = Recorder(model, config, scenario)
        self.prove = prove  # may be switched between steps
        self._sampling: dict[str, Sampling] = {}
        self._pending: StepPlan | None = None
        self._last: StepPlan | None = None  # the one that was committed last
        self._moves_done = 0
        self._proof: Proof | None = None
        self._plan_ms = self._forward_ms = self._sample_ms = 0.0

    @property
    def trace(self) -> Trace:
        """Everything so far; grows by one step a commit."""
        return self._recorder.trace

    @property
    def store(self) -> KVStore:
        """The keys and values. Raises SessionClosed after ``close``."""
        if self._store is None:
            raise SessionClosed("This engine has given its pool back; open a new one.")
        return self._store

    @property
    def scheduler(self) -> Scheduler:
        """The bookkeeping, to be read: its views are frozen."""
        return self._scheduler

    def submit(
        self,
        prompt: str | Sequence[int],
        *,
        max_new_tokens: int = 16,
        n: int = 1,
        beam: int | None = None,
        length_penalty: float = 1.0,
        early_stopping: bool | Literal["never"] = False,
        sampling: Sampling = Sampling(),  # noqa: B008  frozen
        chat: bool = False,
        request_id: str | None = None,
        arrival_step: int | None = None,
        ignore_eos: bool = False,
    ) -> RequestView:
        """Hand in a request: ``n`` answers, or the best of ``beam`` beams. It arrives with ``arrival_step``,
        by default the next step that is planned.

        Raises RequestRefused with one sentence. Of a request that is malformed nothing is kept; one that
        never fits the pool is recorded, and the next step tells its refusal.
        """
        request_id = f"r{len(self.trace.requests)}" if request_id is None else request_id
        if not request_id or self._recorder.knows(request_id):
            raise RequestRefused(f"The request id {request_id!r} is empty or taken; choose another.")
        soonest = len(self.trace.steps) + (self._pending is not None)
        request = make_request(
            self.model,
            prompt,
            request_id=request_id,
            arrival_step=soonest if arrival_step is None else max(arrival_step, soonest),
            max_new_tokens=max_new_tokens,
            n=n,
            beam=beam,
            length_penalty=length_penalty,
            early_stopping=early_stopping,
            sampling=sampling,
            chat=chat,
            ignore_eos=ignore_eos,
        )
        options = BeamOptions(length_penalty=length_penalty, early_stopping=early_stopping) if beam else None
        stops = frozenset[int]() if ignore_eos else self.model.eos_token_ids
        try:
            self._scheduler.submit(request, stops, options)
        except NeverFits as refusal:
            if refusal.unit == "blocks":
                self._recorder.request(request)  # the next step tells that it came and was refused
            raise
        self._sampling[request.id] = sampling
        self._recorder.request(request)
        return request

    def cancel(self, request_id: str) -> None:
        """End a request with the next step that is planned; its blocks go back. One that is over is ignored.

        Raises ValueError for a request that was never accepted.
        """
        try:
            self._scheduler.cancel(request_id)
        except KeyError:
            raise ValueError(f"There is no request {request_id!r}; nothing was cancelled.") from None

    @property
    def has_work(self) -> bool:
        """Whether a step would do anything."""
        return self._pending is not None or self._scheduler.has_work

    def plan(self) -> StepPlan:
        """What the next step is going to do. Nothing has been moved or computed yet."""
        if self._pending is None:
            start = perf_counter()
            self._pending = self._scheduler.plan()
            self._plan_ms = (perf_counter() - start) * 1e3
            self._moves_done = 0
        return self._pending

    @torch.inference_mode()
    def run(self, plan: StepPlan) -> Outcome:
        """Move blocks, compute, sample. Changes the store only, so it may be run again after an exception."""
        self._check(plan)
        start = perf_counter()
        self._move(plan)
        self._proof = None
        self._sample_ms = 0.0
        if not plan.scheduled:
            self._forward_ms = (perf_counter() - start) * 1e3
            return Outcome()
        packed = pack(plan.scheduled, self.config.block_size, self.model.device)
        logits = self._graphs(packed) if self._graphs else forward(self.model, self.store, packed)
        if logits.is_cuda:
            torch.cuda.synchronize(logits.device)
        middle = perf_counter()
        outcome = choose(logits, packed.rows, self._sampling)
        self._forward_ms, self._sample_ms = (middle - start) * 1e3, (perf_counter() - middle) * 1e3
        if self.prove:
            self._proof = self._proven(packed, logits)
        return outcome

    def _check(self, plan: StepPlan) -> None:
        if plan is not self._pending:
            raise ValueError("This is not the pending plan; use the one that plan() gives.")

    def _move(self, plan: StepPlan) -> None:
        """Swaps, then copies. Each is done once a plan: a block that has been swapped out may hold another
        sequence's tokens by the time a failed run is repeated."""
        store = self.store
        moves = ((store.swap_out, plan.swap_out), (store.swap_in, plan.swap_in), (store.copy, plan.copies))
        for move, pairs in moves[self._moves_done :]:
            move(pairs)
            self._moves_done += 1

    def _proven(self, packed: PackedBatch, logits: torch.Tensor) -> Proof | None:
        """The dense pass over everything that each sampling sequence has read so far."""
        tokens = {s.id: s.token_ids for s in self._scheduler.sequences()}
        for row in packed.rows:  # one that has just arrived is not in the picture yet: it has its prompt
            tokens.setdefault(row.sequence, self._recorder.prompt(row.request))
        read = [(row.sequence, tokens[row.sequence][: row.kv_len]) for row in packed.rows]
        return prove(self.model, [(*pair, found) for pair, found in zip(read, logits, strict=True)])

    def commit(self, plan: StepPlan, outcome: Outcome) -> Step:
        """Append, fork, finish, release; then record the step."""
        self._check(plan)
        after = self._scheduler.commit(plan, outcome)
        self._pending, self._last = None, plan
        time_ms = TimeMs(plan=self._plan_ms, forward=self._forward_ms, sample=self._sample_ms)
        return self._recorder.step(plan, after, self._scheduler, self._proof, time_ms)

    def step(self) -> Step | None:
        """Plan, run and commit; None when there is nothing to do."""
        if not self.has_work:
            return None
        plan = self.plan()
        return self.commit(plan, self.run(plan))

    def text(self, sequence_id: str) -> str:
        """What a sequence has generated so far, without the prompt; an incomplete character is held back.

        Raises KeyError for an unknown sequence.
        """
        for sequence in self._scheduler.sequences():
            if sequence.id == sequence_id:
                return self._recorder.generated(sequence)
        raise KeyError(sequence_id)

    def peek(self, layer: int) -> Peek:
        """Queries, keys, values and outputs of one layer in the last step; costs one forward pass.

        Raises ValueError when there was no step yet, the next one has begun to move blocks, or no such layer.
        """
        if self._last is None or (self._pending is not None and self._moves_done):
            raise ValueError("There is no finished step to look into; run one step more, then look.")
        return peek(self.model, self.store, self._last, layer)

    def close(self) -> None:
        """Give the pool back. The trace stays readable; running another step raises SessionClosed."""
        self._store = self._graphs = None
