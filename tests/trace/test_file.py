"""Saving and loading: nothing lost, the same bytes again, and every bad file refused with one sentence."""

from __future__ import annotations

import copy
import gzip
import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from core.memory.events import Allocate
from core.memory.views import Usage
from core.trace import TraceError, load, save, to_bytes, verify
from core.trace.step import Proof, Trace

EXAMPLE = Path(__file__).parent.parent / "data" / "example.kvtrace.json"


@pytest.fixture
def trace() -> Trace:
    return load(EXAMPLE)


@pytest.fixture
def data() -> dict[str, Any]:
    return json.loads(EXAMPLE.read_text(encoding="utf-8"))


def loaded(data: Any) -> Trace:
    return load(json.dumps(data).encode())


@pytest.mark.parametrize("name", ["t.kvtrace.json", "t.kvtrace.json.gz"])
def test_what_is_saved_comes_back(trace: Trace, tmp_path: Path, name: str) -> None:
    trace.tokens = {11: b"six", 12: " 中".encode(), 13: "中".encode()[:2], 14: b"\xff"}
    trace.steps[1] = _with(trace.steps[1], proof=Proof(max_abs_logit_diff=1.5e-6, same_argmax=True))
    trace.steps[1] = _with(trace.steps[1], host_blocks=trace.steps[0].blocks)
    save(trace, tmp_path / name)
    assert load(tmp_path / name) == trace
    assert (tmp_path / name).read_bytes()[:2] == (b"\x1f\x8b" if name.endswith("gz") else b'{"')
    assert os.listdir(tmp_path) == [name], "the temporary file is gone"


def _with(step: Any, **changes: Any) -> Any:
    from dataclasses import replace

    return replace(step, **changes)


@pytest.mark.parametrize("compressed", [False, True])
def test_the_same_trace_gives_the_same_bytes(trace: Trace, compressed: bool) -> None:
    first = to_bytes(trace, compressed=compressed)
    time.sleep(1.1 if compressed else 0)  # gzip writes whole seconds
    assert to_bytes(copy.deepcopy(trace), compressed=compressed) == first


def test_a_token_that_is_half_a_character_is_written_as_bytes(trace: Trace) -> None:
    trace.tokens = {7: b"\xe4\xbd", 8: "好".encode()}
    assert json.loads(to_bytes(trace))["tokens"] == {"7": {"bytes": "E4 BD"}, "8": "好"}


def test_the_hand_made_example_loads_and_verifies(trace: Trace) -> None:
    assert verify(trace) is None
    assert trace.steps[0].events[2] == Allocate(block=5, sequence="r0.0", logical=0)
    assert trace.steps[2].usage[0] == Usage(strategy="paged", capacity=32, free=32, copied=2)


def test_unknown_keys_and_events_are_ignored(data: dict[str, Any], trace: Trace) -> None:
    data["colour"] = {"of": ["the", "cover"]}
    data["steps"][0]["mood"] = None
    data["steps"][0]["blocks"][0]["age"] = 3
    data["steps"][0]["events"].insert(3, {"event": "applaud", "who": [1, 2]})
    assert loaded(data) == trace


def test_unchanged_pictures_are_one_object_in_memory(data: dict[str, Any]) -> None:
    first, second = loaded(data).steps[:2]
    assert first.blocks[0] == second.blocks[0]
    assert first.blocks[0] is second.blocks[0]


def at(data: dict[str, Any], way: str, value: Any) -> dict[str, Any]:
    """``data`` with the value at "steps.0.kind" and the like replaced ("..." deletes it)."""
    *parts, last = [int(p) if p.isdecimal() else p for p in way.split(".")]
    inner: Any = data
    for part in parts:
        inner = inner[part]
    if value is ...:
        del inner[last]
    else:
        inner[last] = value
    return data


BAD = [
    ("format", "zip", 'it lacks "format": "paged-kv-trace"'),
    ("version", 2, "has version 2, which is newer than this program reads (1)"),
    ("version", "1", "version must be a whole number"),
    ("meta", ..., 'lacks "meta"'),
    ("meta.block_size", 0, "meta.block_size is 0; it must be between 1 and 64"),
    ("meta.block_size", 65, "between 1 and 64"),
    ("meta.block_size", 4.0, "meta.block_size must be a whole number, not 4.0"),
    ("meta.num_blocks", 1 << 40, "meta.num_blocks"),
    ("meta.sharing", "some", "copy-on-write, append-only, none"),
    ("meta.prefix_cache", 1, "true or false"),
    ("meta.strategies", [], 'must begin with "paged"'),
    ("meta.model", "smollm2", "meta.model must be an object"),
    ("requests.0.id", 5, "requests[0].id must be a text"),
    ("requests.0.n", 99, "requests[0].n is 99"),
    ("requests.0.prompt_token_ids.2", "x", "requests[0].prompt_token_ids[2] must be a whole number, not 'x'"),
    ("requests.0.prompt_token_ids.2", -1, "is -1; it must be between 0"),
    ("requests.0.prompt_token_ids.2", True, "must be a whole number, not True"),
    ("requests.0.mode", "guess", "greedy, sample, beam"),
    ("requests.0.prompt_text", "\ud83d", "half a character"),
    ("steps", {}, "steps must be a list"),
    ("steps.1.index", 3, "steps[1].index is 3, but it is step 1"),
    ("steps.0.kind", "nap", "steps[0].kind is 'nap'"),
    ("steps.0.events.2.block", 8, "steps[0].events[2].block is 8; it must be between 0 and 7"),
    ("steps.0.events.2.block", -1, "must be between 0 and 7"),
    ("steps.1.events.0.target", 8, "steps[1].events[0].target"),
    ("steps.0.events.2.logical", ..., 'steps[0].events[2] lacks "logical"'),
    ("steps.0.events.9.cause", "pity", "fork, prefix, swap"),
    ("steps.2.events.4.reason", "bored", "out_of_memory"),
    ("steps.0.events.3", 7, "steps[0].events[3] must be an object"),
    ("steps.0.sequences.0.block_table", [5, 9], "steps[0].sequences[0].block_table[1] is 9"),
    ("steps.0.sequences.0.state", "asleep", "waiting, running, preempted, swapped, finished"),
    ("steps.0.sequences.0.written", 8, "written is 8, but it has 7 tokens"),
    ("steps.0.sequences.0.request", "r9", "request 'r9', which is not listed"),
    ("steps.0.sequences.1.id", "r0.0", "sequence 'r0.0' is there twice"),
    ("steps.0.blocks.0.filled", 5, "filled is 5; it must be between 0 and 4"),
    ("steps.0.blocks.0.token_ids", [1, 2, 3, 4, 5], "token_ids has 5 entries; 4 are the most"),
    ("steps.0.usage.0.live", 7, "parts sum to 33 slots, capacity is 32"),
    ("steps.0.usage.1", ..., "one entry for each of paged, reserve max"),
    ("steps.0.proof", {"max_abs_logit_diff": "small", "same_argmax": True}, "must be a number, not 'small'"),
    ("tokens", {"x": "y"}, "must have token ids as keys"),
    ("tokens", {"4": {"bytes": "E4 B"}}, "in hexadecimal"),
    ("tokens", {"4": 4}, "must be a text"),
]


@pytest.mark.parametrize(("way", "value", "says"), BAD, ids=[f"{way}-{k}" for k, (way, *_) in enumerate(BAD)])
def test_a_file_of_the_wrong_shape_is_refused(data: dict[str, Any], way: str, value: Any, says: str) -> None:
    with pytest.raises(TraceError) as caught:
        loaded(at(data, way, value))
    sentence = str(caught.value)
    assert says in sentence
    assert sentence.endswith(".") and "\n" not in sentence and len(sentence) < 300


def test_a_block_table_out_of_range_names_its_rule(data: dict[str, Any]) -> None:
    with pytest.raises(TraceError) as caught:
        loaded(at(data, "steps.0.sequences.0.block_table", [5, 9]))
    assert caught.value.rule == 1


def test_true_does_not_pass_for_one_behind_an_equal_value(data: dict[str, Any]) -> None:
    data["steps"][1]["blocks"][1].update(ref=True)  # equal to ref 1 in Python
    data["steps"][0]["blocks"][1] = copy.deepcopy(data["steps"][1]["blocks"][1]) | {"ref": 1}
    with pytest.raises(TraceError, match="must be a whole number, not True"):
        loaded(data)


HOSTILE = [
    (b"", "is no trace"),
    (b"\x00\x01", "is no trace"),
    (b"\xff\xfe{}", "no UTF-8"),
    (b"[]", "is no trace"),
    (b"{" * 100_000, "is no trace|nested too deeply"),
    (b"[" * 100_000 + b"]" * 100_000, "nested too deeply"),
    (b'{"format": NaN}', "NaN is no JSON"),
    (b'{"format": ' + b"9" * 5000 + b"}", "is no trace"),
    (b"[" * 2_000_001, "lists and objects"),
    (b"\x1f\x8b\x08\x00garbage", "cut off or damaged"),
]


@pytest.mark.parametrize(("raw", "says"), HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_bytes_are_refused_with_a_sentence(raw: bytes, says: str) -> None:
    with pytest.raises(TraceError, match=says):
        load(raw)


def test_a_cut_off_gzip_file_is_refused(trace: Trace) -> None:
    whole = to_bytes(trace, compressed=True)
    for size in (3, 20, len(whole) // 2, len(whole) - 1):
        with pytest.raises(TraceError, match="cut off or damaged"):
            load(whole[:size])


def test_a_small_file_that_unpacks_to_a_huge_one_is_refused_early() -> None:
    bomb = gzip.compress(b" " * (200 << 20))
    began = time.perf_counter()
    with pytest.raises(TraceError, match="larger than 32 MiB unpacked"):
        load(bomb)
    assert time.perf_counter() - began < 2.0


def test_the_size_limit_is_the_callers(trace: Trace, tmp_path: Path) -> None:
    raw = to_bytes(trace)
    assert load(raw, max_bytes=len(raw)) == trace
    with pytest.raises(TraceError, match="larger than"):
        load(raw, max_bytes=len(raw) - 1)
    (tmp_path / "t.json").write_bytes(raw)
    with pytest.raises(TraceError, match="larger than"):
        load(tmp_path / "t.json", max_bytes=100)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"cannot read .*no\.json: No such file"):
        load(tmp_path / "no.json")


def test_a_failed_save_leaves_the_old_file(
    trace: Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t.kvtrace.json"
    save(trace, path)
    before = path.read_bytes()

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(TraceError, match="No space left on device"):
        save(Trace(meta=trace.meta), path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == [path.name]
    with pytest.raises(TraceError, match="cannot write"):
        save(trace, tmp_path / "no" / "such" / "folder.kvtrace.json")


def test_a_trace_that_json_cannot_hold_is_refused(trace: Trace, tmp_path: Path) -> None:
    trace.meta["seed"] = object()
    with pytest.raises(TraceError, match="cannot be written as JSON"):
        save(trace, tmp_path / "t.kvtrace.json")


def test_a_logprob_of_minus_infinity_becomes_null(trace: Trace) -> None:
    first = trace.steps[0]
    odd = _with(first.sequences[0], logprob=float("-inf"))
    trace.steps[0] = _with(first, sequences=(odd, first.sequences[1]))
    assert load(to_bytes(trace)).steps[0].sequences[0].logprob is None


def test_five_megabytes_load_in_a_second(data: dict[str, Any]) -> None:
    """A run of one long prompt: most of the file is token ids, as it is in life."""
    prompt = list(range(1000, 1400))
    step = data["steps"][0]
    steps = []
    for k in range(1250):
        longer = [*prompt, *range(k)]
        sequences = [dict(s, token_ids=longer, written=6) for s in step["sequences"]]
        steps.append(dict(step, index=k, sequences=sequences))
    raw = json.dumps(data | {"steps": steps}, separators=(",", ":")).encode()
    assert len(raw) > 5_000_000
    began = time.perf_counter()
    load(raw)
    taken = time.perf_counter() - began
    print(f"{len(raw) / 1e6:.1f} MB in {taken:.2f} s")
    assert taken < 3.0, "about 0.4 s on an idle core; a busy machine gets its share"
