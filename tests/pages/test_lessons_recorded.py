"""Every recorded run that a lesson shows is made again from the real model and agrees event by event."""

from __future__ import annotations

from dataclasses import replace

import pytest

from core.scenarios import SCENARIOS, recorded_path
from core.trace import load
from core.trace.step import Step
from pages.parts.lessons import LESSON_IDS, lesson

SHOWN = {stop.run for name in LESSON_IDS for stop in (*lesson(name).stops, *lesson(name).questions)}


def picture(step: Step) -> tuple[object, ...]:
    """Sequences and blocks after a step; not the log-probabilities, whose last digits are the machine's."""
    return tuple(replace(s, logprob=None) for s in step.sequences), step.blocks, step.host_blocks


@pytest.mark.slow
@pytest.mark.model
@pytest.mark.timeout(1200)  # each step is held against a dense pass: minutes on two cores
@pytest.mark.parametrize("name", sorted(SHOWN & set(SCENARIOS)))
def test_the_recorded_run_is_made_again(name: str) -> None:
    from core.cli.record import record

    kept, again = load(recorded_path(name)), record(SCENARIOS[name])
    assert len(again.steps) == len(kept.steps)
    for one, two in zip(kept.steps, again.steps, strict=True):
        assert two.events == one.events, f"step {one.index}"
        assert picture(two) == picture(one), f"step {one.index}"
    assert again.requests == kept.requests
    told = {key: value for key, value in kept.meta.items() if key != "app_version"}
    assert {key: again.meta[key] for key in told} == told
