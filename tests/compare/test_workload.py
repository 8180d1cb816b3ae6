"""Drawn requests: the paper's means, the limits, the seed; and requests from a file."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from core.compare.workload import ALPACA, CONTEXT, SHAREGPT, Drawn, Lengths, draw, read_requests


@pytest.mark.parametrize(("lengths", "prompt", "new"), [(SHAREGPT, 161.31, 337.99), (ALPACA, 19.31, 58.45)])
def test_means_are_the_papers(lengths: Lengths, prompt: float, new: float) -> None:
    drawn = draw(lengths, 40_000, 2.0, seed=1)
    assert sum(r.prompt for r in drawn) / len(drawn) == pytest.approx(prompt, rel=0.03)
    assert sum(r.new for r in drawn) / len(drawn) == pytest.approx(new, rel=0.02)
    assert max(r.prompt + r.new for r in drawn) <= CONTEXT
    assert min(min(r.prompt, r.new) for r in drawn) >= 1


def test_the_outputs_spread_agrees_with_figure_2() -> None:
    """What is reserved a running request is E[new^2] / 2 E[new]: 298, 286, 290 slots in the three rows."""
    drawn = draw(SHAREGPT, 40_000, 2.0)
    to_come = sum(r.new**2 for r in drawn) / (2 * sum(r.new for r in drawn))
    for share, batched in ((0.133, 7.00), (0.179, 9.81), (0.252, 13.62)):
        assert to_come == pytest.approx(share * 15_700 / batched, rel=0.06)


def test_arrivals_are_poisson_and_seeded() -> None:
    drawn = draw(ALPACA, 20_000, 30.0, seed=3)
    assert drawn[-1].arrival == pytest.approx(20_000 / 30, rel=0.03)
    gaps = [b.arrival - a.arrival for a, b in pairwise(drawn)]
    mean = sum(gaps) / len(gaps)
    variance = sum((g - mean) ** 2 for g in gaps) / len(gaps)
    assert variance == pytest.approx(mean**2, rel=0.06)
    assert draw(ALPACA, 100, 30.0, seed=3) == draw(ALPACA, 100, 30.0, seed=3)
    assert draw(ALPACA, 100, 30.0, seed=3) != draw(ALPACA, 100, 30.0, seed=4)
    assert {r.arrival for r in draw(ALPACA, 5, 0)} == {0.0}


def test_scaled_to_a_small_model() -> None:
    small = SHAREGPT.scaled(1 / 16)
    drawn = draw(small, 5000, 1.0, slack=2.0)
    assert max(r.prompt + r.max_new for r in drawn) <= small.limit == 128
    assert sum(r.new for r in drawn) / len(drawn) == pytest.approx(337.99 / 16, rel=0.05)
    assert all(r.max_new >= r.new for r in drawn) and any(r.max_new >= 1.9 * r.new for r in drawn)


def test_senseless_numbers_are_refused() -> None:
    with pytest.raises(ValueError, match="0 requests"):
        draw(ALPACA, 0, 1.0)


def test_requests_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "requests.jsonl"
    path.write_text(
        '{"prompt_tokens": 5, "new_tokens": 3, "max_new_tokens": 8, "arrival": 2}\n\n'
        '{"prompt": "three small words", "max_new_tokens": 4}\n'
    )
    assert read_requests(path, lambda text: len(text.split())) == [Drawn(0.0, 3, 4, 4), Drawn(2.0, 5, 3, 8)]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{", "line 1 is not JSON"),
        ("[1]", "not a JSON object"),
        ('{"new_tokens": 3}', '"prompt_tokens" is None'),
        ('{"prompt_tokens": 0, "new_tokens": 3}', '"prompt_tokens" is 0'),
        ('{"prompt_tokens": true, "new_tokens": 3}', '"prompt_tokens" is True'),
        ('{"prompt_tokens": 2, "new_tokens": 3, "max_new_tokens": 2}', "3 new tokens are more than the 2"),
        ('{"prompt_tokens": 2, "new_tokens": 3, "arrival": NaN}', '"arrival" is nan'),
        ("", "holds no request"),
    ],
)
def test_a_bad_file_is_refused_with_a_sentence(tmp_path: Path, line: str, words: str) -> None:
    path = tmp_path / "requests.jsonl"
    path.write_text(line + "\n")
    with pytest.raises(ValueError, match=words):
        read_requests(path)
