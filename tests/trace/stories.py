"""Short runs told event by event, for tests of replay and verify: block size 4, 8 blocks, r0 and r1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from core.memory.events import (
    Admit,
    Allocate,
    Arrive,
    Cache,
    Event,
    Evict,
    Finish,
    Fork,
    Free,
    Preempt,
    Release,
    Resume,
    Sample,
    Share,
    SwapIn,
    SwapOut,
    Write,
)
from core.memory.views import RequestView
from core.trace import Replay
from core.trace.pictures import block_views, sequence_views
from core.trace.step import Step, Trace

META: dict[str, Any] = {
    "model": {"name": "story", "sha256": "", "dtype": "float32"},
    "device": "cpu",
    "block_size": 4,
    "num_blocks": 8,
    "bytes_per_token": 64,
    "sharing": "copy-on-write",
    "prefix_cache": True,
    "seed": 0,
    "scenario": None,
    "strategies": ["paged"],
    "app_version": "0",
}


def request(name: str, prompt: Sequence[int], new: int = 8, n: int = 1) -> RequestView:
    return RequestView(
        id=name, prompt_text="", prompt_token_ids=tuple(prompt), n=n, max_new_tokens=new, mode="sample"
    )


def told(requests: list[RequestView], *steps: Sequence[Event]) -> Trace:
    """The trace whose pictures are those that its events imply."""
    trace = Trace(meta=META, requests=requests)
    state = Replay(META, requests)
    for k, events in enumerate(steps):
        state.apply(events)
        step = Step(
            index=k,
            kind="decode",
            events=tuple(events),
            sequences=sequence_views(state.sequences.values()),
            blocks=block_views(state.blocks),
            usage=(state.usage(),),
            host_blocks=block_views(state.host),
        )
        trace.steps.append(step)
    return trace


def write(sequence: str, position: int, block: int, count: int = 1) -> Write:
    return Write(sequence=sequence, position=position, block=block, offset=position % 4, count=count)


def sample(sequence: str, token: int) -> Sample:
    return Sample(sequence=sequence, token_id=token, text="")


def swapped() -> Trace:
    """Two answers that share a full and a half-full block go to the host and come back."""
    return told(
        [request("r0", [1, 2, 3, 4, 5, 6], n=2)],
        [
            Arrive("r0"), Admit("r0"), Allocate(7, "r0.0", 0), Allocate(2, "r0.0", 1),
            write("r0.0", 0, 7, 4), write("r0.0", 4, 2, 2), Fork("r0.0", "r0.1"),
            Share(7, "r0.1", 0, 2, "fork"), Share(2, "r0.1", 1, 2, "fork"),
            sample("r0.0", 21), sample("r0.1", 22),
        ],
        [
            Preempt("r0.0", "swap"), Preempt("r0.1", "swap"), SwapOut(7, 0), SwapOut(2, 1),
            Release(2, "r0.0", 1), Release(7, "r0.0", 1), Release(2, "r0.1", 0), Free(2),
            Release(7, "r0.1", 0), Free(7),
        ],
        [
            SwapIn(4, 0, "r0.0", 0), SwapIn(3, 1, "r0.0", 1), Share(4, "r0.1", 0, 2, "swap"),
            Share(3, "r0.1", 1, 2, "swap"), Resume("r0.0", "swap"), Resume("r0.1", "swap"),
        ],
    )  # fmt: skip


def recomputed() -> Trace:
    """A sequence gives up its blocks, finds one of them again in the cache, and writes the rest again."""
    return told(
        [request("r0", [1, 2, 3, 4, 5])],
        [
            Arrive("r0"), Admit("r0"), Allocate(5, "r0.0", 0), Allocate(1, "r0.0", 1),
            write("r0.0", 0, 5, 4), write("r0.0", 4, 1), sample("r0.0", 6),
        ],
        [write("r0.0", 5, 1), sample("r0.0", 7)],
        [Preempt("r0.0", "recompute"), Release(1, "r0.0", 0), Free(1), Release(5, "r0.0", 0), Cache(5)],
        [
            Resume("r0.0", "recompute"), Share(5, "r0.0", 0, 1, "prefix"), Allocate(6, "r0.0", 1),
            write("r0.0", 4, 6, 3), sample("r0.0", 8),
        ],
        [
            write("r0.0", 7, 6), sample("r0.0", 9), Finish("r0.0", "length"),
            Release(6, "r0.0", 0), Cache(6), Release(5, "r0.0", 0), Cache(5),
        ],
    )  # fmt: skip


def evicted() -> Trace:
    """A cached block is found by a second request; another one is evicted for it."""
    first = recomputed()
    steps = [step.events for step in first.steps]
    return told(
        [*first.requests, request("r1", [1, 2, 3, 4, 9, 9])],
        *steps,
        [
            Arrive("r1"), Admit("r1"), Share(5, "r1.0", 0, 1, "prefix"), Evict(6), Allocate(6, "r1.0", 1),
            write("r1.0", 4, 6, 2), sample("r1.0", 3),
        ],
    )  # fmt: skip
