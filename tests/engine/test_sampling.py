"""Sampling: no state, the right distribution, the right cuts, the same in a crowd as alone."""

import math

import pytest
import torch

from core.config import Sampling
from core.engine.plan import Scheduled
from core.engine.sampling import best_candidates, choose, draw, sample_index, uniform


def row(sequence: str, length: int = 5, samples: int = 1, candidates: int = 0) -> Scheduled:
    return Scheduled(
        sequence=sequence,
        request=sequence.partition(".")[0],
        start=length - 1,
        token_ids=(1,),
        block_table=(0, 1),
        num_samples=samples,
        num_candidates=candidates,
    )


def test_uniform_is_spread_and_stateless() -> None:
    numbers = [uniform(seed, position) for seed in range(100) for position in range(100)]
    assert all(0.0 < u < 1.0 for u in numbers) and len(set(numbers)) == len(numbers)
    tenths = torch.histc(torch.tensor(numbers, dtype=torch.float64), bins=10, min=0, max=1)
    assert float(((tenths - 1000) ** 2 / 1000).sum()) < 27.9  # chi-squared, 9 degrees, p = 0.001
    neighbours = torch.tensor(numbers).reshape(100, 100)
    assert abs(float(torch.corrcoef(neighbours[:, :2].T)[0, 1])) < 0.35  # positions
    assert abs(float(torch.corrcoef(neighbours[:2])[0, 1])) < 0.35  # seeds
    assert uniform(7, 3) == uniform(7, 3)
    assert 0.0 < uniform(-5, 0) < 1.0 and 0.0 < uniform(1 << 80, 1 << 20) < 1.0


def test_frequencies_follow_the_probabilities() -> None:
    logits = torch.log(torch.tensor([[0.5, 0.25, 0.125, 0.125]]))
    ids = draw(logits, [Sampling(temperature=1.0)], [[uniform(s, 9) for s in range(20_000)]])[0]
    counts = [ids.count(t) / 20_000 for t in range(4)]
    assert counts == pytest.approx([0.5, 0.25, 0.125, 0.125], abs=0.01)


@pytest.mark.parametrize(
    ("settings", "allowed"),
    [
        (Sampling(temperature=1.0, top_k=2), {3, 1}),
        (Sampling(temperature=1.0, top_p=0.5), {3}),
        (Sampling(temperature=1.0, top_p=0.51), {3, 1}),
        (Sampling(temperature=1.0, top_k=3, top_p=0.9), {3, 1, 0}),
        (Sampling(temperature=1.0, top_k=2, top_p=0.6), {3}),  # top-p of what top-k left: 0.5 / 0.8
        (Sampling(temperature=1.0, top_k=400), {0, 1, 2, 3}),
        (Sampling(temperature=1e-3), {3}),
    ],
)
def test_cuts(settings: Sampling, allowed: set[int]) -> None:
    logits = torch.log(torch.tensor([[0.15, 0.3, 0.05, 0.5]], dtype=torch.float64))
    numbers = [(i + 0.5) / 2000 for i in range(2000)] + [1 - 2**-53]
    assert set(draw(logits, [settings], [numbers])[0]) == allowed


def test_ties_at_the_cut_keep_the_lower_ids() -> None:
    ids = draw(torch.zeros(1, 6), [Sampling(temperature=1.0, top_k=2)], [[i / 100 for i in range(100)]])[0]
    assert set(ids) == {0, 1}


def test_alone_or_in_a_crowd() -> None:
    torch.manual_seed(0)
    logits = 3 * torch.randn(40, 500)
    settings = [
        Sampling(temperature=0.5 + i / 20, top_k=(0, 7, 50)[i % 3], top_p=(1.0, 0.9)[i % 2], seed=i)
        for i in range(40)
    ]
    numbers = [[uniform(i, 11 + j) for j in range(1 + i % 4)] for i in range(40)]
    crowd = draw(logits, settings, numbers)
    alone = [draw(logits[i : i + 1], settings[i : i + 1], numbers[i : i + 1])[0] for i in range(40)]
    assert crowd == alone
    shaken = draw(logits + 1e-6 * torch.randn(40, 500), settings, numbers)
    assert shaken == crowd, "rounding must not move a sample"


def test_sample_i_is_seed_plus_i() -> None:
    torch.manual_seed(1)
    logits = torch.randn(1, 300)
    together = choose(logits, [row("r0.0", samples=4)], {"r0": Sampling(temperature=1.0, seed=42)})
    alone = [
        choose(logits, [row("r0.0")], {"r0": Sampling(temperature=1.0, seed=42 + i)}).samples["r0.0"][0]
        for i in range(4)
    ]
    assert list(together.samples["r0.0"]) == alone
    assert len({c.token_id for c in alone}) > 1, "four seeds, not four times one"
    later = choose(logits, [row("r0.2")], {"r0": Sampling(temperature=1.0, seed=42)})
    assert later.samples["r0.2"][0] == alone[2]
    assert sample_index("r0.12") == 12


def test_one_step_with_all_kinds() -> None:
    torch.manual_seed(2)
    logits = torch.randn(3, 50)
    rows = [row("r0.0", samples=3), row("r1.0", samples=0, candidates=4), row("r2.0")]
    sampling = {"r0": Sampling(), "r1": Sampling(), "r2": Sampling(temperature=0.7, seed=3)}
    outcome = choose(logits, rows, sampling)
    logprobs = torch.log_softmax(logits, dim=-1)
    best = int(logits[0].argmax())
    assert [c.token_id for c in outcome.samples["r0.0"]] == [best] * 3, "at temperature 0 all are equal"
    assert outcome.samples["r0.0"][0].logprob == pytest.approx(float(logprobs[0, best]), abs=1e-5)
    assert [c.token_id for c in outcome.candidates["r1.0"]] == logprobs[1].topk(4).indices.tolist()
    drawn = outcome.samples["r2.0"][0]
    assert drawn.logprob == pytest.approx(float(logprobs[2, drawn.token_id]), abs=1e-5)
    assert set(outcome.samples) == {"r0.0", "r2.0"} and set(outcome.candidates) == {"r1.0"}
    assert choose(torch.empty(0, 50), [], {}).samples == {}


def test_candidates_break_ties_by_token_id() -> None:
    logprobs = torch.tensor([[0.0, -1.0, -1.0, -1.0, 0.0], [-2.0, -2.0, -2.0, -2.0, -2.0]])
    first, second = best_candidates(logprobs, 3)
    assert [c.token_id for c in first] == [0, 4, 1] and [c.token_id for c in second] == [0, 1, 2]
    assert len(best_candidates(logprobs, 9)[0]) == 5 and math.isclose(first[0].logprob, 0.0)
