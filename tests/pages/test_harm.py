"""Whose logits moved: said for the run that breaks the rule, and for no other."""

from __future__ import annotations

import pytest

from core.scenarios import recorded_path
from core.trace import load
from pages.parts.main_page import harm_text


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_screen_says_whose_logits_moved_and_by_how_much(lang: str) -> None:
    trace = load(recorded_path("no-copy-on-write"))
    assert harm_text(trace, 0, lang) == "", "nothing is wrong before the first shared block is written"
    text = harm_text(trace, 1, lang)
    harmed, unharmed = text.split("Unharmed" if lang == "en" else "没有受影响")
    proof = trace.steps[1].proof
    assert proof is not None
    for name, sequence in (("A", "r0.0"), ("B", "r0.1")):
        assert f"{proof.by_sequence[sequence]:.2g}" in harmed and name in harmed and name not in unharmed
    assert "C" in unharmed and "C" not in harmed.replace("Copy", "")


@pytest.mark.parametrize("name", ["half-full-block", "answers-append-only", "pool-runs-dry"])
def test_nothing_is_said_where_nobody_is_harmed(name: str) -> None:
    trace = load(recorded_path(name))
    assert not any(harm_text(trace, index, "en") for index in range(len(trace.steps)))
