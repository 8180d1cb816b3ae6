"""The recorded peek: as the engine computed it, made again by its command, and refused when damaged."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from core.engine.peek_file import (
    CONFIG,
    PEEK_FILE,
    REQUEST,
    STEPS,
    PeekFile,
    PeekFileError,
    load_peek,
    record_peek,
    save_peek,
)
from core.memory.views import SequenceView
from core.trace import Step, verify
from kernels.reference import paged_attention_reference


def softmax_over_table(found: Any, row: int, head: int) -> torch.Tensor:
    """Attention of one row and head in float64, written out: look up, score, weigh, add up."""
    size, kv = found.k_cache.shape[1], head // (found.geometry.query_heads // found.geometry.kv_heads)
    table = found.rows[row].block_table
    where = [(table[p // size], p % size) for p in range(found.rows[row].kv_len)]
    keys = torch.stack([found.k_cache[block, slot, kv] for block, slot in where]).double()
    values = torch.stack([found.v_cache[block, slot, kv] for block, slot in where]).double()
    return torch.softmax(keys @ found.q[row, head].double() * found.options["scale"], 0) @ values


def test_the_recording_is_a_decode_step_of_two_answers() -> None:
    found = load_peek(PEEK_FILE)
    assert PEEK_FILE.stat().st_size < 1 << 20
    assert verify(found.trace) is None
    step = found.trace.steps[-1]
    assert (len(found.trace.steps), step.kind) == (STEPS, "decode")
    assert 30 <= len(found.trace.requests[0].prompt_token_ids) <= 40
    assert found.trace.requests[0].prompt_text == REQUEST["prompt"]
    assert found.trace.meta["block_size"] == CONFIG.block_size == 4
    last = found.trace.meta["model"]["layers"] - 1
    assert found.layers == (0, (last + 1) // 2, last)
    for layer in found.layers:
        peek = found.peek(layer)
        assert (peek.step, peek.layer, peek.decoding) == (STEPS - 1, layer, (0, 1))
        assert [row.block_table for row in peek.rows] == [view.block_table for view in step.sequences]
        assert [row.kv_len for row in peek.rows] == [view.written for view in step.sequences]
    with pytest.raises(ValueError, match="layer 7 is not in the recording; it holds the layers 0, 15, 29"):
        found.peek(7)


def test_softmax_over_the_recorded_keys_gives_the_recorded_output() -> None:
    found = load_peek(PEEK_FILE)
    for layer in found.layers:
        peek = found.peek(layer)
        for row in peek.decoding:
            for head in range(peek.geometry.query_heads):
                again = softmax_over_table(peek, row, head)
                assert float((again - peek.output[row, head].double()).abs().max()) < 1e-5
        assert float(peek.output.abs().max()) > 0.05


def test_what_the_step_does_not_read_is_nan() -> None:
    peek = load_peek(PEEK_FILE).peek(0)
    read = {(row.block_table[p // 4], p % 4) for row in peek.rows for p in range(row.kv_len)}
    for pool in (peek.k_cache, peek.v_cache):
        held = torch.isfinite(pool).all(-1).all(-1)
        assert pool.shape == (CONFIG.num_blocks, 4, peek.geometry.kv_heads, peek.geometry.head_dim)
        assert {(int(b), int(s)) for b, s in held.nonzero()} == read
        assert int(torch.isnan(pool).all(-1).all(-1).sum()) == CONFIG.num_blocks * 4 - len(read)


@pytest.mark.parametrize("arch", ["llama", "mistral", "gemma3_text"])
def test_written_and_read_it_is_the_same(tiny: Callable[..., Any], tmp_path: Path, arch: str) -> None:
    made = record_peek(tiny(arch), REQUEST | {"prompt": "Two answers, please"})
    save_peek(made, tmp_path / "any.name")
    found = load_peek(tmp_path / "any.name")
    assert found.layers == made.layers and found.trace.steps[-1].sequences == made.trace.steps[-1].sequences
    for layer in made.layers:
        one, two = made.peek(layer), found.peek(layer)
        assert torch.equal(one.q, two.q) and torch.equal(one.output, two.output)
        assert (one.rows, one.geometry, one.step) == (two.rows, two.geometry, two.step)
        assert {k: one.options.get(k) for k in two.options} == two.options
        again = paged_attention_reference(two.q, two.k_cache, two.v_cache, two.batch, **two.options)
        assert float((again - two.output).abs().max()) < 1e-5


def told(step: Step) -> list[SequenceView]:
    """A step's sequences without what another machine rounds differently."""
    return [replace(sequence, logprob=None) for sequence in step.sequences]


@pytest.mark.model
@pytest.mark.timeout(600)
def test_the_command_makes_it_again(tmp_path: Path) -> None:
    """Tokens and tables are the same; numbers differ by what another machine's additions differ."""
    from core.cli import main

    assert main(["record", "kernel-page", "--trace", str(tmp_path / "again.npz")]) == 0
    made, kept = load_peek(tmp_path / "again.npz"), load_peek(PEEK_FILE)
    assert made.layers == kept.layers
    assert [told(s) for s in made.trace.steps] == [told(s) for s in kept.trace.steps]
    for layer in kept.layers:
        assert torch.allclose(made.peek(layer).q, kept.peek(layer).q, atol=2e-3)
        assert torch.allclose(made.peek(layer).output, kept.peek(layer).output, atol=2e-3)


def changed(**arrays: Any) -> bytes:
    """The recording with other arrays; None leaves one out."""
    with np.load(PEEK_FILE, allow_pickle=False) as archive:
        held = {name: archive[name] for name in archive.files} | arrays
    out = io.BytesIO()
    np.savez_compressed(out, **{name: array for name, array in held.items() if array is not None})
    return out.getvalue()


def with_nan(name: str) -> np.ndarray:
    with np.load(PEEK_FILE, allow_pickle=False) as archive:
        array: np.ndarray = archive[name].copy()
    array[0, 0, 0] = np.nan
    return array


def test_a_damaged_file_gives_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = PEEK_FILE.read_bytes()
    objects = np.array([{"a": 1}], dtype=object)
    cases = {
        whole[:5000]: "it is no NumPy archive",
        b"": "it is no NumPy archive",
        whole[:40_000] + bytes(200) + whole[40_200:]: "it is no NumPy archive",
        changed(q=objects): "it is no NumPy archive",  # a pickled object is never unpickled
        changed(keys=None): "it lacks the array 'keys'",
        changed(trace=np.zeros(9, np.uint8)): "its trace cannot be read",
        changed(q=np.zeros((3, 2, 9, 32), np.float32)): "q is float32",
        changed(scale=np.array([1, np.inf, 1.0])): "scale holds a number that is not finite",
        changed(layers=np.array([0, 15, 30])): "its layers",
        changed(layers=np.array([0, 15])): "scale is float64",
        changed(blocks=np.arange(14)): "its step reads",
        changed(windows=np.zeros(3, np.int64)): "windows is",
        changed(keys=with_nan("keys")): "keys of block",
        changed(output=with_nan("output")): "output holds a number that is not finite",
    }
    for content, words in cases.items():
        (tmp_path / "bad.npz").write_bytes(content)
        with pytest.raises(PeekFileError) as caught:
            load_peek(tmp_path / "bad.npz")
        said = str(caught.value)
        assert words in said and "\n" not in said and str(tmp_path) not in said, said
    with pytest.raises(PeekFileError, match="cannot be read: No such file"):
        load_peek(tmp_path / "none.npz")


def test_a_file_that_would_unpack_to_gigabytes_is_not_unpacked(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "bomb.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("q.npy", bytes(20 << 20))
    assert (tmp_path / "bomb.npz").stat().st_size < 1 << 20
    with pytest.raises(PeekFileError, match="unpacks to more than 16 MiB"):
        load_peek(tmp_path / "bomb.npz")


def test_only_decode_steps_are_recorded(tiny: Callable[..., Any], tmp_path: Path) -> None:
    from core.engine.engine import Engine

    engine = Engine(tiny("llama"), CONFIG)
    engine.submit("Hello!", max_new_tokens=3)
    engine.step()
    with pytest.raises(ValueError, match="only a step of decode rows"):
        save_peek(PeekFile(engine.trace, {0: engine.peek(0)}), tmp_path / "x.npz")
