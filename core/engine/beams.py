"""Beam search as pure logic: which hypotheses live, end or are dropped after each step.

Same results as beam search in transformers (generation/utils.py, ``_beam_search``, 5.24), sampling off. In
every step the best max(2, 1 + number of stop tokens) * width continuations of all beams are ranked by the sum
of their log-probabilities. Of these, the first ``width`` may end (stop token or length) and then compete, by
sum / length ** length_penalty, for the ``width`` places of the result; the first ``width`` that did not end
live on. Ties: earlier beam, then lower token. Sums and scores are rounded to 32-bit floats, as there.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from core.engine.plan import Candidate


@dataclass(frozen=True, slots=True, kw_only=True)
class BeamOptions:
    """``length_penalty``: above 0 favours long results, below 0 short ones, 0 compares plain sums.

    ``early_stopping``: True ends at ``width`` results; False when the best beam at its present length cannot
    beat the worst result; "never" assumes the best length that a beam may still reach.
    """

    length_penalty: float = 1.0
    early_stopping: bool | Literal["never"] = False

    def __post_init__(self) -> None:
        if self.early_stopping not in (True, False, "never"):
            raise ValueError(f'early stopping is {self.early_stopping!r}; it must be True, False or "never".')
        if not -5.0 <= self.length_penalty <= 5.0:
            raise ValueError(f"the length penalty is {self.length_penalty}; it must be between -5 and 5.")


@dataclass(slots=True, eq=False)
class Child:
    """A beam of the next step, or one that has just ended: its parent's text and one more token.

    ``logprob``: sum over its new tokens. ``ended``: None, "stop" or "length". ``score``: of one that ended.
    ``sequence``: its id, which the scheduler fills in.
    """

    parent: str
    token_id: int
    logprob: float
    ended: str | None = None
    score: float = 0.0
    sequence: str = ""


@dataclass(frozen=True, slots=True)
class BeamStep:
    """What became of the beams: ``alive`` is best first, and empty when the search is ``over``."""

    ended: list[Child]
    alive: list[Child]
    over: bool


@dataclass(slots=True)
class BeamSearch:
    """One request's search. ``beams``: the living ones, best first (the prompt alone at the start)."""

    width: int
    max_new_tokens: int
    stop_token_ids: frozenset[int]
    options: BeamOptions
    beams: list[Child]
    generated: int = 0
    results: list[Child] = field(default_factory=list)  # best first, at most ``width``

    @property
    def num_candidates(self) -> int:
        """Best continuations to ask for, per beam; enough that ``width`` of them do not stop."""
        return max(2, 1 + len(self.stop_token_ids)) * self.width

    def advance(self, candidates: Mapping[str, tuple[Candidate, ...]]) -> BeamStep:
        """One step. ``candidates``: for each living beam's sequence its ``num_candidates`` best next tokens.

        The children come without a sequence: fill it in, for the living ones before the next step.
        """
        ranked = self._rank(candidates)
        self.generated += 1
        ended = [child for child in ranked[: self.width] if child.ended]
        alive = [child for child in ranked if not child.ended][: self.width]
        for child in ended:
            self._compete(child)
        over = self._is_over(alive)
        self.beams = [] if over else alive
        return BeamStep(ended, self.beams, over)

    def give_up(self) -> None:
        """End here: the living beams compete as they are (their text so far is kept)."""
        for beam in self.beams if self.generated else ():
            self._compete(beam)
        self.beams = []

    def _rank(self, candidates: Mapping[str, tuple[Candidate, ...]]) -> list[Child]:
        last = self.generated + 1 >= self.max_new_tokens
        scored = [
            (-_f32(beam.logprob + c.logprob), place, c.token_id)
            for place, beam in enumerate(self.beams)
            for c in candidates[beam.sequence]
        ]
        scored.sort()
        children = []
        for negative, place, token in scored[: self.num_candidates]:
            ended = "stop" if token in self.stop_token_ids else "length" if last else None
            children.append(Child(self.beams[place].sequence, token, -negative, ended))
        return children

    def _compete(self, child: Child) -> None:
        """Place a hypothesis that ended among the results; the earlier one goes first on a tie."""
        child.score = self._score(child.logprob, self.generated)
        place = next((i for i, r in enumerate(self.results) if r.score < child.score), len(self.results))
        self.results.insert(place, child)
        del self.results[self.width :]

    def _is_over(self, alive: list[Child]) -> bool:
        """Whether no living beam can improve the results."""
        if not alive:
            return True
        if len(self.results) < self.width:
            return False
        if self.options.early_stopping is True:
            return True
        hopeful = self.options.early_stopping == "never" and self.options.length_penalty > 0.0
        length = self.max_new_tokens if hopeful else self.generated
        return not self._score(alive[0].logprob, length) > self.results[-1].score

    def _score(self, logprob: float, length: int) -> float:
        """The sum, divided by length ** penalty; the length counts new tokens, a stop token too."""
        return _f32(logprob / _f32(float(length) ** self.options.length_penalty))


def _f32(value: float) -> float:
    """Round to the nearest 32-bit float."""
    rounded: float = struct.unpack("f", struct.pack("f", value))[0]
    return rounded
