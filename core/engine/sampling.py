"""The next token: greedy, temperature, top-k, top-p, and the candidates of a beam.

Randomness has no state. The number that decides a token is a hash of (seed, position), so a sample is
the same alone, in a crowd, after a preemption, and whatever else the process draws. Sample i of a request
uses seed + i: it is the text of that seed run alone. At temperature 0 there is nothing to draw: all n
samples of a request are then equal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from core.config import Sampling
from core.engine.plan import Candidate, Outcome, Scheduled

_MASK = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15  # 2**64 over the golden ratio: SplitMix64's increment


def _mix(x: int) -> int:
    """SplitMix64's finaliser: every input bit changes every output bit with probability near one half.

    Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators (OOPSLA 2014), figure 17.
    """
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _MASK
    return x ^ (x >> 31)


def uniform(seed: int, position: int) -> float:
    """A number inside (0, 1) that depends only on the seed and on the position of the token it decides."""
    state = _mix((seed + _GOLDEN) & _MASK)
    state = _mix((state + (position + 1) * _GOLDEN) & _MASK)
    return ((state >> 12) + 0.5) * 2.0**-52


def sample_index(sequence: str) -> int:
    """Which answer of its request a sequence is: 3 for "r0.3"."""
    return int(sequence.rpartition(".")[2])


def choose(logits: torch.Tensor, rows: Sequence[Scheduled], sampling: Mapping[str, Sampling]) -> Outcome:
    """Samples and candidates of one step. logits: [R, V], a row for each of ``rows``; sampling by request."""
    outcome = Outcome()
    if not rows:
        return outcome
    logits = logits.float()
    normaliser = torch.logsumexp(logits, dim=-1)  # [R]
    beams = [r for r, row in enumerate(rows) if row.num_candidates]
    greedy = [r for r, row in enumerate(rows) if row.num_samples and not sampling[row.request].temperature]
    random = [r for r, row in enumerate(rows) if row.num_samples and sampling[row.request].temperature]
    if beams:
        most = max(rows[r].num_candidates for r in beams)
        found = best_candidates(_of(logits, beams) - _of(normaliser, beams)[:, None], most)
        for r, best in zip(beams, found, strict=True):
            outcome.candidates[rows[r].sequence] = best[: rows[r].num_candidates]
    if greedy:
        ids = _of(logits, greedy).argmax(dim=-1).tolist()
        drawn = [[token] * rows[r].num_samples for r, token in zip(greedy, ids, strict=True)]
        _record(outcome, logits, normaliser, rows, greedy, drawn)
    if random:
        settings = [sampling[rows[r].request] for r in random]
        numbers = [_numbers(rows[r], s.seed) for r, s in zip(random, settings, strict=True)]
        drawn = draw(_of(logits, random), settings, numbers)
        _record(outcome, logits, normaliser, rows, random, drawn)
    return outcome


def _of(values: torch.Tensor, which: list[int]) -> torch.Tensor:
    """These rows; all of them without a copy, which is worth milliseconds."""
    return values if len(which) == len(values) else values[which]


def _numbers(row: Scheduled, seed: int) -> list[float]:
    """The numbers that decide this row's tokens; their position is the length of what was read."""
    first = sample_index(row.sequence)
    return [uniform(seed + first + i, row.kv_len) for i in range(row.num_samples)]


def _record(
    outcome: Outcome,
    logits: torch.Tensor,
    normaliser: torch.Tensor,
    rows: Sequence[Scheduled],
    which: Sequence[int],
    drawn: Sequence[Sequence[int]],
) -> None:
    """Add the drawn tokens with their log-probabilities under the model itself (no temperature, no cut)."""
    flat = [(r, token) for r, tokens in zip(which, drawn, strict=True) for token in tokens]
    index = torch.tensor(flat, dtype=torch.int64, device=logits.device)
    chances = iter((logits[index[:, 0], index[:, 1]] - normaliser[index[:, 0]]).tolist())
    for r, tokens in zip(which, drawn, strict=True):
        outcome.samples[rows[r].sequence] = tuple(Candidate(token, next(chances)) for token in tokens)


def draw(
    logits: torch.Tensor, settings: Sequence[Sampling], numbers: Sequence[Sequence[float]]
) -> list[list[int]]:
    """Draw len(numbers[r]) tokens from each row by inverting its cumulative distribution in float64.

    logits: [R, V]. The sum runs in order of token id, not of probability: a rounding difference that swaps
    two near equals in a sorted order would move the sum under every number in between.
    """
    probabilities = _cut(_tempered(logits, settings), settings)  # [R, V] float64
    cumulative = probabilities.cumsum(dim=-1)
    total = cumulative[:, -1:].contiguous()
    most = max(len(n) for n in numbers)
    padded = [list(n) + [0.0] * (most - len(n)) for n in numbers]
    targets = torch.tensor(padded, dtype=torch.float64, device=logits.device) * total  # [R, most]
    ids = torch.searchsorted(cumulative, targets, right=True)
    last = torch.searchsorted(cumulative, total)  # a number next to 1 may round up to the total
    ids = torch.minimum(ids, last).tolist()
    return [row[: len(n)] for row, n in zip(ids, numbers, strict=True)]


def _tempered(logits: torch.Tensor, settings: Sequence[Sampling]) -> torch.Tensor:
    """Probabilities at each row's temperature: [R, V] float64."""
    temperature = torch.tensor([s.temperature for s in settings], dtype=torch.float64, device=logits.device)
    return torch.softmax(logits.double() / temperature[:, None], dim=-1)


def _cut(probabilities: torch.Tensor, settings: Sequence[Sampling]) -> torch.Tensor:
    """Zero what top-k and then top-p leave out (ties: the lower token id stays). [R, V] -> [R, V].

    top-p keeps the smallest set of the best tokens that reaches top_p of what top-k has left.
    """
    if not any(s.top_k or s.top_p < 1.0 for s in settings):
        return probabilities
    size = probabilities.shape[-1]
    device = probabilities.device
    top_k = torch.tensor([s.top_k or size for s in settings], device=device)[:, None]
    top_p = torch.tensor([s.top_p for s in settings], dtype=torch.float64, device=device)[:, None]
    ordered, order = probabilities.sort(dim=-1, descending=True, stable=True)
    ordered = ordered * (torch.arange(size, device=device) < top_k)
    before = ordered.cumsum(dim=-1) - ordered  # the sum of all better tokens
    keep = (before < top_p * ordered.sum(dim=-1, keepdim=True)) | (top_p >= 1.0)
    return torch.zeros_like(probabilities).scatter_(-1, order, ordered * keep)


def best_candidates(logprobs: torch.Tensor, count: int) -> list[tuple[Candidate, ...]]:
    """The ``count`` best tokens of each row, best first, equal ones by token id. logprobs: [R, V] float32."""
    count = min(count, logprobs.shape[-1])
    worst = logprobs.topk(count, dim=-1).values[:, -1:]
    found: list[list[Candidate]] = [[] for _ in range(logprobs.shape[0])]
    places = (logprobs >= worst).nonzero()  # [N, 2]: topk alone breaks ties as it likes
    values = logprobs[places[:, 0], places[:, 1]].tolist()
    for (row, token), value in zip(places.tolist(), values, strict=True):
        found[row].append(Candidate(token, value))
    return [tuple(sorted(f, key=lambda c: (-c.logprob, c.token_id))[:count]) for f in found]
