"""What sharing saves: exact figures where they follow from the lengths, and beams that behave like beams."""

from __future__ import annotations

import argparse

import pytest

from core.bench import BenchResult, module
from core.compare.sharing import Drawn, Guesses, prompt_share, representative, saved
from core.compare.workload import ALPACA


def drawn(prompt: int, new: int) -> Drawn:
    return Drawn(0.0, prompt, new, new)


def test_samples_of_a_prompt_that_ends_on_an_edge() -> None:
    """Two full blocks of prompt and up to 16 more tokens: two of three blocks are shared, once it decodes."""
    saving = saved([drawn(32, 17)], "sample", 4)
    first, others, last = (8, 2), (4 * 3, 2 + 4), (0, 0)  # listed, are: after each of the 1 + 15 + 1 steps
    assert (saving.listed, saving.are) == (
        first[0] + 15 * others[0] + last[0],
        first[1] + 15 * others[1] + last[1],
    )


def test_samples_that_share_nothing_full_save_only_while_none_has_written() -> None:
    saving = saved([drawn(15, 6)], "sample", 2)
    assert (saving.listed, saving.are) == (2 + 2 * 1 + 3 * 4, 1 + 2 * 1 + 3 * 4)


def test_a_single_beam_shares_nothing_and_more_beams_share_more() -> None:
    requests = [drawn(19, 48)] * 4
    assert saved(requests, "beam", 1).percent == 0.0
    two, four = saved(requests, "beam", 2).percent, saved(requests, "beam", 4).percent
    assert saved(requests, "sample", 2).percent < two < four < 75.0
    assert saved(requests, "beam", 2).percent == two, "the same seed, the same figures"


def test_made_up_beams_save_what_a_real_model_does() -> None:
    """The figures of SmolLM2-135M on four instructions of about 19 tokens, 58 new ones each."""
    for width, real in ((2, 37.5), (4, 54.6), (6, 61.2)):
        assert abs(saved([drawn(19, 58)] * 12, "beam", width).percent - real) < 9.0


def test_guesses_are_probabilities_best_first() -> None:
    best = Guesses(0)._best(1.0, 12)
    assert [c.logprob for c in best] == sorted((c.logprob for c in best), reverse=True)
    assert len({c.token_id for c in best}) == 12 and best[0].logprob < 0


def test_a_few_requests_stand_for_many() -> None:
    few, more = representative(ALPACA, 16, seed=1), representative(ALPACA, 32, seed=2)
    assert len(few) == 16 and few == representative(ALPACA, 16, seed=1)
    assert prompt_share(few) == pytest.approx(prompt_share(more), abs=2.5)
    assert prompt_share([drawn(32, 16)]) == pytest.approx(100 * 2 * 16 / (2 + 15 * 3))


def test_the_bench_sets_ours_beside_the_papers() -> None:
    bench = module("sharing")
    parser = argparse.ArgumentParser()
    bench.add_arguments(parser)
    found: BenchResult = bench.run(parser.parse_args(["--requests", "2"]))
    assert len(found.rows) == 12 and {row["n"] for row in found.rows} == {2, 4, 6}
    alpaca = next(row for row in found.rows if row["kind"] == "beams" and row["n"] == 2)
    assert alpaca["paper %"] == 37.56 and alpaca["ours %"] > 10
    assert "points of the paper" in found.verdict
