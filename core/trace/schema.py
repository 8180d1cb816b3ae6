"""Trace format, version 1, between JSON values and a Trace; every rule of shape is stated here once."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import fields
from typing import Any, get_args

from core.config import MAX_BLOCK_SIZE, MAX_BLOCKS, MAX_SAMPLES, MIN_BLOCK_SIZE
from core.memory.events import EVENT_TYPES, Event
from core.memory.views import BlockView, RequestView, SequenceState, SequenceView, Usage
from core.trace.shape import (
    Check,
    Wrong,
    an_object,
    array,
    boolean,
    integer,
    integers,
    keys,
    maybe,
    number,
    one_of,
    plain,
    record,
    show,
    text,
    unchanged,
)
from core.trace.step import Proof, Step, StepKind, TimeMs, Trace

FORMAT, VERSION = "paged-kv-trace", 1
LONG_TEXT = 1 << 20
MOST_STEPS, MOST_SEQUENCES, MOST_REQUESTS, MOST_EVENTS = 100_000, 1 << 16, 1 << 16, 1 << 20
BLOCK_FIELDS = frozenset({"block", "source", "target"})
WORDS = {  # event fields with a fixed vocabulary; None where the event's field of that name has not one
    ("share", "cause"): one_of("fork", "prefix", "swap"),
    ("preempt", "how"): one_of("recompute", "swap"),
    ("resume", "how"): one_of("recompute", "swap"),
    ("finish", "reason"): one_of("length", "stop", "dropped", "cancelled", "out_of_memory"),
}

_MODEL = {"name": text()}
_MODEL_MORE = {
    "sha256": text(), "dtype": text(), "layers": integer(), "query_heads": integer(),
    "kv_heads": integer(), "head_dim": integer(),
}  # fmt: skip
_META = {
    "model": lambda value: keys(value, _MODEL, _MODEL_MORE),
    "device": text(),
    "block_size": integer(MIN_BLOCK_SIZE, MAX_BLOCK_SIZE),
    "num_blocks": integer(1, MAX_BLOCKS),
    "bytes_per_token": integer(),
    "sharing": one_of("copy-on-write", "append-only", "none"),
    "prefix_cache": boolean,
    "strategies": array(text(), 16),
}
_META_MORE = {"seed": integer(-(1 << 63), 1 << 63), "scenario": plain(), "app_version": text()}
_REQUEST = record(
    RequestView,
    {
        "id": text(),
        "prompt_text": text(LONG_TEXT),
        "prompt_token_ids": integers(),
        "mode": one_of("greedy", "sample", "beam"),
        "n": integer(1, MAX_SAMPLES),
        "max_new_tokens": integer(0, LONG_TEXT),
        "arrival_step": integer(),
    },
    {"sampling": lambda value: plain()(an_object(value))},
)
_USAGE = record(
    Usage,
    {f.name: text() if f.name == "strategy" else integer(0, 1 << 53) for f in fields(Usage)},
)
_TIMES = record(TimeMs, {}, {"plan": number, "forward": number, "sample": number})
_PROOF = record(
    Proof,
    {"max_abs_logit_diff": number, "same_argmax": boolean},
    {"by_sequence": lambda value: {text()(name): number(x) for name, x in an_object(value).items()}},
)


def _meta(value: Any) -> dict[str, Any]:
    keys(value, _META, _META_MORE)
    if value["strategies"][:1] != ["paged"]:
        raise Wrong('must begin with "paged"').inside("strategies")
    plain()(value)
    return an_object(value)


def _unique(what: str, ids: list[str]) -> None:
    if len(set(ids)) != len(ids):
        twice = next(name for name in ids if ids.count(name) > 1)
        raise Wrong(f"is wrong: {what} {show(twice)} is there twice")


def _event(blocks: Check) -> Check:
    """Known events as their dataclasses; unknown ones as None."""
    checkers: dict[str, Check] = {}
    for name, cls in EVENT_TYPES.items():
        field_checks: dict[str, Check] = {}
        for f in fields(cls):
            kind = integer() if f.type == "int" else text(4096)
            field_checks[f.name] = WORDS.get((name, f.name), blocks if f.name in BLOCK_FIELDS else kind)
        checkers[name] = record(cls, field_checks)

    def check(value: Any) -> Event | None:
        name = an_object(value).get("event")
        if type(name) is not str:
            raise Wrong('lacks "event"')
        checker = checkers.get(name)
        event: Event | None = checker(value) if checker else None
        return event

    return check


def _block(blocks: Check, block_size: int) -> Check:
    return record(
        BlockView,
        {
            "id": blocks,
            "state": one_of("used", "cached"),
            "ref": integer(),
            "filled": integer(0, block_size),
            "token_ids": integers(most=block_size),
        },
    )


def _sequence(num_blocks: int) -> Check:
    checked = record(
        SequenceView,
        {
            "id": text(),
            "request": text(),
            "parent": maybe(text()),
            "state": one_of(*get_args(SequenceState)),
            "token_ids": integers(),
            "written": integer(),
            "block_table": integers(0, num_blocks - 1, num_blocks, rule=1),
        },
        {"logprob": maybe(number)},
    )

    def check(value: Any) -> SequenceView:
        view: SequenceView = checked(value)
        if view.written > len(view.token_ids):
            raise Wrong(f"is {view.written}, but it has {len(view.token_ids)} tokens", 3).inside("written")
        return view

    return check


def _step(meta: dict[str, Any], request_ids: set[str]) -> Check:
    """The checker of one step; it remembers unchanged sequences and blocks from step to step."""
    num_blocks, block_size = meta["num_blocks"], meta["block_size"]
    strategies = tuple(meta["strategies"])
    blocks = integer(0, num_blocks - 1, rule=1)
    required = {
        "index": integer(),
        "kind": one_of(*get_args(StepKind)),
        "events": array(_event(blocks), MOST_EVENTS),
        "sequences": array(unchanged(_sequence(num_blocks)), MOST_SEQUENCES),
        "blocks": array(unchanged(_block(blocks, block_size)), num_blocks),
        "usage": array(_USAGE, 16),
    }
    host = _block(integer(0, MAX_BLOCKS - 1), block_size)
    optional = {
        "proof": maybe(_PROOF),
        "time_ms": maybe(_TIMES),
        "host_blocks": array(unchanged(host), MAX_BLOCKS),
    }

    def check(value: Any) -> Step:
        step = keys(value, required, optional)
        step["events"] = tuple(event for event in step["events"] if event is not None)
        step["time_ms"] = step.get("time_ms") or TimeMs()
        _unique("sequence", [s.id for s in step["sequences"]])
        for view in step["sequences"]:
            if view.request not in request_ids:
                whose = f"sequence {show(view.id)} is of request {show(view.request)}"
                raise Wrong(f"is wrong: {whose}, which is not listed")
        if tuple(u.strategy for u in step["usage"]) != strategies:
            raise Wrong(f"must have one entry for each of {', '.join(strategies)}").inside("usage")
        return Step(**step)

    return check


def _tokens(value: Any) -> dict[int, bytes]:
    """{"<id>": "text" or {"bytes": "E4 BD"}} as bytes by id."""
    out: dict[int, bytes] = {}
    a_text = text(4096)
    for key, item in an_object(value).items():
        try:
            if not (key.isascii() and key.isdecimal() and len(key) <= 10):
                raise Wrong("must have token ids as keys")
            in_bytes = type(item) is dict
            out[int(key)] = bytes.fromhex(a_text(item.get("bytes"))) if in_bytes else a_text(item).encode()
        except Wrong as wrong:
            raise wrong.inside(show(key)) from None
        except ValueError:
            raise Wrong('must have "bytes" in hexadecimal, such as "E4 BD"').inside(show(key)) from None
    return out


def _at(name: str, make: Callable[[], Any]) -> Any:
    try:
        return make()
    except Wrong as wrong:
        raise wrong.inside(name) from None


def trace_from_json(data: Any) -> Trace:
    """The Trace that a decoded file holds. Raises Wrong, which says what is wrong and where."""
    if type(data) is not dict or data.get("format") != FORMAT:
        raise Wrong(f'is no trace: it lacks "format": "{FORMAT}"')
    version = _at("version", lambda: integer(1)(data.get("version")))
    if version > VERSION:
        raise Wrong(f"has version {version}, which is newer than this program reads ({VERSION})")
    whole = keys(data, {"meta": _meta, "requests": array(_REQUEST, MOST_REQUESTS)}, {"tokens": _tokens})
    requests = list(whole["requests"])
    _at("requests", lambda: _unique("request", [r.id for r in requests]))
    read = _step(whole["meta"], {r.id for r in requests})
    steps = list(keys(data, {"steps": array(read, MOST_STEPS)})["steps"])
    for k, step in enumerate(steps):
        if step.index != k:
            raise Wrong(f"is {step.index}, but it is step {k}").inside("index").inside(k).inside("steps")
    return Trace(meta=whole["meta"], requests=requests, steps=steps, tokens=whole.get("tokens", {}))


def _values(item: Any) -> dict[str, Any]:
    return {f.name: getattr(item, f.name) for f in fields(item)}


def _finite(value: float | None) -> float | None:
    """Minus infinity is a log-probability, but no JSON; null stands for it."""
    return value if value is None or math.isfinite(value) else None


def _step_to_json(step: Step) -> dict[str, Any]:
    out: dict[str, Any] = {
        "index": step.index,
        "kind": step.kind,
        "events": [event.to_dict() for event in step.events],
        "sequences": [_values(s) | {"logprob": _finite(s.logprob)} for s in step.sequences],
        "blocks": [_values(block) for block in step.blocks],
        "usage": [_values(usage) for usage in step.usage],
        "proof": _proof_to_json(step.proof) if step.proof else None,
        "time_ms": _values(step.time_ms),
    }
    if step.host_blocks:
        out["host_blocks"] = [_values(block) for block in step.host_blocks]
    return out


def _proof_to_json(proof: Proof) -> dict[str, Any]:
    out = _values(proof)
    if not proof.by_sequence:
        del out["by_sequence"]
    return out


def _token_to_json(token: bytes) -> str | dict[str, str]:
    try:
        return token.decode()
    except UnicodeDecodeError:
        return {"bytes": token.hex(" ").upper()}


def trace_to_json(trace: Trace) -> dict[str, Any]:
    """The trace as values that ``json`` can write, keys in a fixed order."""
    out = {
        "format": FORMAT,
        "version": VERSION,
        "meta": trace.meta,
        "requests": [_values(request) for request in trace.requests],
        "steps": [_step_to_json(step) for step in trace.steps],
    }
    if trace.tokens:
        out["tokens"] = {str(i): _token_to_json(token) for i, token in sorted(trace.tokens.items())}
    return out
