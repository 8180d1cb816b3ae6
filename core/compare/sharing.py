"""How many blocks sharing saves: the PagedAttention paper's Fig. 15, with our own scheduler.

Saved is what the tables list more than there are blocks: of the sum of all tables' lengths (what there would
be without sharing) the part that is no block of its own, summed over all steps. Requests do not share with
each other here, so each is run alone.

Samples need no model: which tokens they are does not matter. Beams do: how much they share depends on how
long ago the living ones had an ancestor in common. ``Guesses`` stands for the model there, with made-up
probabilities; ``real_beams`` measures the same with a real one, which takes some seconds a prompt.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from core.compare.workload import Drawn, Lengths, draw
from core.config import EngineConfig
from core.engine.plan import Candidate, Outcome, StepPlan
from core.engine.scheduler import Scheduler
from core.memory.views import BlockView, RequestView

if TYPE_CHECKING:
    from core.models.loaded import LoadedModel

BLOCK_SIZE = 16  # the paper's
WIDTHS = (2, 4, 6)
Mode = Literal["sample", "beam"]

# Fig. 15 and its text, in per cent. For ShareGPT the paper prints only the smallest and the largest.
PAPER: dict[tuple[str, Mode, int], float] = {
    ("Alpaca", "sample", 2): 6.09, ("Alpaca", "sample", 4): 8.53, ("Alpaca", "sample", 6): 9.79,
    ("Alpaca", "beam", 2): 37.56, ("Alpaca", "beam", 4): 53.13, ("Alpaca", "beam", 6): 55.16,
    ("ShareGPT", "sample", 2): 16.2, ("ShareGPT", "sample", 6): 30.5,
    ("ShareGPT", "beam", 2): 44.3, ("ShareGPT", "beam", 6): 66.3,
}  # fmt: skip


@dataclass(slots=True)
class Saving:
    """Blocks times steps: ``listed`` by tables, and how many of them there ``are``."""

    listed: int = 0
    are: int = 0

    def add(self, blocks: Sequence[BlockView]) -> None:
        """One step's picture: a block with ref 3 is listed by three tables."""
        self.listed += sum(block.ref for block in blocks)
        self.are += sum(block.ref > 0 for block in blocks)

    @property
    def percent(self) -> float:
        """Saved, of what there would be without sharing."""
        return 100 * (self.listed - self.are) / self.listed if self.listed else 0.0


class Guesses:
    """Stands for a model: the best next tokens of each beam, the k-th with a probability in proportion to
    k ** -s. Large s: sure of one token; small s: open between many.

    Each step draws an s, and each beam one near it: texts that differ in a word or two are about equally
    sure of what follows, not exactly. The ranges are chosen so that two beams save what they do with a
    real model (SmolLM2-135M, four instructions, 58 new tokens each: 37.5 %).
    """

    RANGE, NEAR, LEAST = (1.0, 4.0), 1.0, 0.5
    VOCABULARY = 200

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)

    def _best(self, sure: float, count: int) -> tuple[Candidate, ...]:
        """One beam's ``count`` best next tokens."""
        s = max(self.LEAST, sure + self._rng.uniform(-self.NEAR, self.NEAR))
        all_ = math.log(sum(k**-s for k in range(1, self.VOCABULARY + 1)))
        return tuple(Candidate(k, -s * math.log(k + 1) - all_) for k in range(count))

    def outcome(self, plan: StepPlan) -> Outcome:
        """Tokens for every row of the plan."""
        sure = self._rng.uniform(*self.RANGE)
        rows = plan.scheduled
        return Outcome(
            samples={r.sequence: (Candidate(0, 0.0),) * r.num_samples for r in rows if r.num_samples},
            candidates={r.sequence: self._best(sure, r.num_candidates) for r in rows if r.num_candidates},
        )


def representative(lengths: Lengths, count: int, seed: int) -> list[Drawn]:
    """``count`` requests that stand for 64 times as many drawn ones.

    One from each ``count``-th of the answers' lengths; of 64 such choices the one whose prompts hold most
    nearly the same share of all blocks as those of all drawn. A few random ones would be off by chance.
    """
    many = sorted(draw(lengths, 64 * count, 0, seed), key=lambda request: request.new)
    groups = [many[k : k + 64] for k in range(0, 64 * count, 64)]
    share, rng = prompt_share(many), random.Random(seed)
    choices = [[rng.choice(group) for group in groups] for _ in range(64)]
    return min(choices, key=lambda chosen: abs(prompt_share(chosen) - share))


def prompt_share(requests: Sequence[Drawn]) -> float:
    """The full blocks of the prompts, in per cent of all blocks, over all steps."""
    full = sum(r.prompt // BLOCK_SIZE * r.new for r in requests)
    return 100 * full / sum(-(-(r.prompt + k) // BLOCK_SIZE) for r in requests for k in range(r.new))


def saved(requests: Sequence[Drawn], mode: Mode, width: int, seed: int = 0) -> Saving:
    """Run each request alone on the real scheduler, with ``width`` samples or beams."""
    saving = Saving()
    for k, drawn in enumerate(requests):
        _run(drawn, mode, width, Guesses(seed + k), saving)
    return saving


def _run(drawn: Drawn, mode: Mode, width: int, guesses: Guesses, saving: Saving) -> None:
    blocks = 2 * width * -(-(drawn.prompt + drawn.new) // BLOCK_SIZE)  # dead beams free theirs a moment late
    scheduler = Scheduler(
        EngineConfig(
            block_size=BLOCK_SIZE, num_blocks=blocks, max_model_len=drawn.prompt + drawn.new,
            max_batch_tokens=drawn.prompt + width,
        )
    )  # fmt: skip
    prompt = tuple(range(drawn.prompt))
    scheduler.submit(
        RequestView(
            id="r", prompt_text="", prompt_token_ids=prompt, mode=mode, n=width, max_new_tokens=drawn.new
        )
    )
    while scheduler.has_work:
        plan = scheduler.plan()
        scheduler.commit(plan, guesses.outcome(plan))
        saving.add(scheduler.blocks())
    assert not scheduler.blocks()


def real_beams(model: LoadedModel, prompts: Sequence[str], width: int, new_tokens: int) -> Saving:
    """The same, with a real model that chooses: each prompt's beams run to ``new_tokens``."""
    from core.engine.engine import Engine

    saving = Saving()
    for prompt in prompts:
        length = len(model.tokens.encode(prompt)) + new_tokens
        blocks = 2 * width * -(-length // BLOCK_SIZE)
        engine = Engine(
            model, EngineConfig(block_size=BLOCK_SIZE, num_blocks=blocks, max_model_len=length, strategies=())
        )
        engine.submit(prompt, beam=width, max_new_tokens=new_tokens, ignore_eos=True)
        while engine.has_work:
            step = engine.step()
            if step is not None:
                saving.add(step.blocks)
        engine.close()
    return saving
