"""What a run came to: its texts, and one line of figures."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from core.memory.events import Allocate, Cache, Copy, Event, Finish, Free, Preempt, Sample, Share, SwapIn
from core.memory.views import RequestView, SequenceView
from core.trace.step import Trace


def answers(trace: Trace, text: Callable[[str], str]) -> Iterable[str]:
    """The texts, request by request; a prompt with its continuation where there is only one.

    ``text``: what a sequence has generated, by its id. Refused requests and dropped beams are left out; the
    best beam comes first.
    """
    results = [(request, found) for request in trace.requests if (found := _results(trace, request))]
    if len(results) == 1 and len(results[0][1]) == 1:
        request, (only,) = results[0]
        yield request.prompt_text + text(only.id)
        return
    for request, sequences in results:
        yield f"{request.id}  {request.prompt_text!r}"
        for s in sequences:
            score = f"  (score {_score(request, s):.4f})" if request.mode == "beam" else ""
            yield f"  {s.id}{score}  {text(s.id)!r}"


def _results(trace: Trace, request: RequestView) -> list[SequenceView]:
    last = trace.steps[-1].sequences if trace.steps else ()
    dropped = {
        event.sequence
        for step in trace.steps
        for event in step.events
        if isinstance(event, Finish) and event.reason == "dropped"
    }
    mine = [s for s in last if s.request == request.id and s.id not in dropped]
    if request.mode == "beam":
        mine.sort(key=lambda s: -_score(request, s))
    return mine


def _score(request: RequestView, s: SequenceView) -> float:
    """What beams compete by: the sum of the log-probabilities over length ** length penalty."""
    length = len(s.token_ids) - len(request.prompt_token_ids)
    if s.logprob is None or not length:
        return float("-inf")
    penalty: float = request.sampling.get("length_penalty", 1.0)
    return s.logprob / length**penalty


def _peak(events: Iterable[Event]) -> int:
    """The most blocks in use at any moment. Pictures alone would miss a block taken and freed in one step."""
    used = peak = 0
    for event in events:
        if isinstance(event, Allocate | Copy | SwapIn) or (isinstance(event, Share) and event.ref == 1):
            used += 1
        elif isinstance(event, Free | Cache):
            used -= 1
        peak = max(peak, used)
    return peak


def summary_line(trace: Trace, seconds: float) -> str:
    """Tokens, steps, blocks at the peak, copies, preemptions, tokens per second, and the proof if any."""
    events = [event for step in trace.steps for event in step.events]
    tokens = sum(isinstance(event, Sample) for event in events)
    copies = sum(isinstance(event, Copy) for event in events)
    preempted = sum(isinstance(event, Preempt) for event in events)
    total, size = trace.meta["num_blocks"], trace.meta["block_size"]
    parts = [
        f"{tokens} tokens in {len(trace.steps)} steps",
        f"at most {_peak(events)} of {total} blocks of {size}",
        f"{copies} cop{'y' if copies == 1 else 'ies'}",
    ]
    if preempted:
        parts.append(f"{preempted} preempted")
    proofs = [step.proof for step in trace.steps if step.proof is not None]
    if proofs:
        largest = max(proof.max_abs_logit_diff for proof in proofs)
        same = all(proof.same_argmax for proof in proofs)
        parts.append(
            f"largest logit difference {largest:.1e}, {'same' if same else 'NOT the same'} best token"
        )
    parts.append(f"{tokens / max(seconds, 1e-9):.1f} tokens per second")
    return "; ".join(parts)
