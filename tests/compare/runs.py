"""Paged runs made by hand, without a model: what a strategy follows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from core.memory.views import RequestView, SequenceView, Usage
from core.trace.step import Step, Trace


def request(
    key: int, prompt: int, new: int, *, arrival: int = 0, n: int = 1, most: int | None = None
) -> RequestView:
    """A request that will produce ``new`` tokens, and may produce ``most`` (the same, unless given)."""
    return RequestView(
        id=f"r{key}", prompt_text="", prompt_token_ids=tuple(range(prompt)), n=n,
        mode="greedy" if n == 1 else "sample", max_new_tokens=most or new, arrival_step=arrival,
    )  # fmt: skip


def ideal_run(requests: Sequence[RequestView], lengths: Sequence[int]) -> Iterator[tuple[SequenceView, ...]]:
    """Pictures of a run with memory for all: request i starts when it arrives and samples lengths[i]
    tokens."""
    views: dict[str, SequenceView] = {}
    last = max(r.arrival_step + n for r, n in zip(requests, lengths, strict=True))
    for index in range(last):
        for r, new in zip(requests, lengths, strict=True):
            depth = index - r.arrival_step + 1
            if not 1 <= depth <= new:
                continue
            prompt = len(r.prompt_token_ids)
            for i in range(r.n):
                key = f"{r.id}.{i}"
                views[key] = SequenceView(
                    id=key, request=r.id, parent=None if i == 0 else f"{r.id}.0",
                    state="finished" if depth == new else "running",
                    token_ids=(*r.prompt_token_ids, *range(1000 + i, 1000 + i + depth)),
                    written=prompt + depth - 1, block_table=(),
                )  # fmt: skip
        yield tuple(views.values())


def trace_of(
    requests: Sequence[RequestView],
    lengths: Sequence[int],
    *,
    block_size: int,
    num_blocks: int,
    max_model_len: int,
) -> Trace:
    """A trace of such a run, with as much of the format as the strategies read."""
    meta = {
        "block_size": block_size,
        "num_blocks": num_blocks,
        "max_model_len": max_model_len,
        "bytes_per_token": 1024,
    }
    trace = Trace(meta=meta, requests=list(requests))
    for index, views in enumerate(ideal_run(requests, lengths)):
        usage = (Usage(strategy="paged", capacity=block_size * num_blocks, free=block_size * num_blocks),)
        trace.steps.append(
            Step(index=index, kind="decode", events=(), sequences=views, blocks=(), usage=usage)
        )
    return trace
