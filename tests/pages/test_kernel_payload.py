"""The kernel picture's payload: real numbers of a told step, sentences that say them, both languages."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")
from kernels.trace_decode import DecodeTrace, explain_decode
from pages.parts.kernel_page_payload import Scene, build, good_tile, number
from tests.kernels.cases import Case, make_case


def told(kv_len: int = 13, tile: int = 4, splits: int = 2, **options) -> tuple[Case, DecodeTrace]:
    case = make_case([1], [kv_len], block_size=3, group=2)
    found = explain_decode(
        case.q, case.k_cache, case.v_cache, case.batch, 0, 0, scale=0.25, tile=tile, splits=splits, **options
    )
    return case, found


def scene(case: Case, kv_len: int = 13) -> Scene:
    return Scene(
        name="r0.0",
        place=0,
        layer=1,
        step=4,
        block_size=3,
        table=case.batch.block_tables[0].tolist(),
        tokens=[f"t{p}" for p in range(kv_len)],
        refs=[2, 1, 1, 1, 1],
        engine=[0.5] * 16,
    )


def test_each_turn_names_what_it_reads_and_masks() -> None:
    case, found = told()
    payload = build(found, scene(case), 0, "en")
    table = payload["table"]
    assert [turn["split"] for turn in payload["tiles"]] == [0, 0, 1, 1]
    last = payload["tiles"][-1]
    assert last["base"] == 12 and last["read"] == [1, 0, 0, 0]
    assert (last["block"][0], last["slot"][0]) == (table[4], 0)
    assert last["s"][1:] == [None] * 3 == last["p"][1:]
    assert "3 lanes are masked" in payload["say"][3]
    assert f"block {table[4]}," in payload["say"][3]
    assert len(payload["say"]) == len(payload["tiles"]) + 1


def test_the_sentences_say_whether_the_maximum_moved() -> None:
    case, found = told(kv_len=40, splits=1)
    payload = build(found, scene(case, 40), 1, "en")
    assert "The first tile of its split" in payload["say"][0]
    rose = [step.max_after[1] > step.max_before[1] for step in found.tiles]
    assert True in rose[1:] and False in rose[1:]  # both kinds occur, so the words below are both tried
    for step, sentence in list(zip(found.tiles, payload["say"], strict=False))[1:]:
        if step.max_after[1] > step.max_before[1]:
            assert f"rises from {number(step.max_before[1])} to {number(step.max_after[1])}" in sentence
            assert f"multiplied by {number(step.shrink[1])}" in sentence
        else:
            assert f"No score exceeds the running maximum {number(step.max_after[1])}" in sentence
    assert "nothing to merge" in payload["say"][-1]


def test_the_sum_of_a_turn_adds_up_as_written() -> None:
    case, found = told(kv_len=40, splits=1)
    for turn in build(found, scene(case, 40), 0, "en")["tiles"][1:]:
        old, shrink, add, new = (float(turn[key].replace("−", "-")) for key in ("l0", "shrink", "add", "l1"))
        assert old * shrink + add == pytest.approx(new, abs=5e-3)


def test_an_empty_split_is_told_in_the_merge() -> None:
    case, found = told(kv_len=3, splits=3)
    payload = build(found, scene(case, 3), 0, "zh")
    assert "其中 2 段没有键" in payload["say"][-1]
    assert [part["m"] for part in payload["parts"][1:]] == ["−∞", "−∞"]
    assert [part["w"] for part in payload["parts"]] == ["1.000", "0.000", "0.000"]


def test_a_head_has_its_own_numbers() -> None:
    case, found = told()
    one, two = (build(found, scene(case), head, "en") for head in (0, 1))
    assert one["m"] != two["m"] and one["key"] != two["key"]
    assert one["output"]["ours"] == [number(x, 5) for x in found.output[0][:6]]


def test_numbers_as_written() -> None:
    assert [number(x) for x in (-1.23456, 0.0, 0.00012, float("-inf"))] == [
        "−1.235",
        "0.000",
        "1.2e−04",
        "−∞",
    ]
    assert [good_tile(n) for n in (1, 11, 12, 24, 47, 48, 96, 5000)] == [4, 4, 4, 8, 8, 16, 32, 32]
