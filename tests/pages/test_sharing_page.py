"""Two sharing rules side by side: figures against the events, both languages, the page by AppTest."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from core.memory.events import Copy
from core.scenarios import recorded_path
from core.trace import load
from core.trace.step import Trace
from pages.parts.sharing_page import PAIRS
from pages.parts.sharing_payload import figures, sharing_payload
from pages.parts.words import t

ROOT = Path(__file__).resolve().parents[2]


def pair(name: str) -> tuple[Trace, Trace]:
    return load(recorded_path(name)), load(recorded_path(PAIRS[name]))


@pytest.mark.parametrize("name", PAIRS)
def test_a_pair_is_the_same_run_but_for_the_rule(name: str) -> None:
    one, two = pair(name)
    assert (one.meta["sharing"], two.meta["sharing"]) == ("copy-on-write", "append-only")
    assert [s.token_ids for s in one.steps[-1].sequences] == [s.token_ids for s in two.steps[-1].sequences]
    assert len(one.steps) == len(two.steps) and one.meta["num_blocks"] == two.meta["num_blocks"]


@pytest.mark.parametrize("name", PAIRS)
def test_figures_are_those_of_the_steps(name: str) -> None:
    one, two = pair(name)
    last = len(one.steps) - 1
    copies = [e for step in one.steps for e in step.events if isinstance(e, Copy)]
    copied, again = figures(one, last), figures(two, last)
    assert (copied["copies"], copied["copied"]) == (len(copies), sum(e.tokens for e in copies))
    assert copied["again"] == 0 and again["copies"] == again["copied"] == 0
    assert again["again"] >= copied["copied"] > 0, "what one copies, the other computes again"
    assert copied["use"] == again["use"] == copied["list"] == 0, "all are finished"


def test_the_step_in_which_the_rules_part() -> None:
    traces = pair("half-full-block")
    for lang in ("en", "zh"):
        payload = sharing_payload(traces, 1, lang)
        json.dumps(payload)
        left, right = payload["sides"]
        assert [(f["copies"], f["copied"], f["again"]) for f in (left["figures"], right["figures"])] == [
            (2, 4, 0), (0, 0, 4),
        ]  # fmt: skip
        assert right["say"].endswith(t("sharing_page.again", lang, n=4))
        for one in (left, right):  # the rule's name stands above the sentence
            assert one["say"] and t(f"rule.{one['rule']}", lang) not in one["say"]
        for side in (left, right):
            listed = [block["b"] for row in side["seqs"] for block in row["blocks"]]
            assert {b["b"]: b["ref"] for b in side["pool"] if b["ref"]} == {
                b: listed.count(b) for b in listed
            }


def test_past_the_end_both_stay_at_their_last_step() -> None:
    traces = pair("three-beams")
    assert sharing_payload(traces, 99, "en") == sharing_payload(traces, len(traces[0].steps) - 1, "en")


def test_the_page_steps_and_changes_pairs() -> None:
    at = AppTest.from_file(str(ROOT / "app.py"), default_timeout=60)
    at.run().switch_page("pages/sharing.py").run()
    assert not at.exception and at.session_state.sharing_place["step"] == 0
    at.button(key="sharing_step").click().run()
    assert at.session_state.sharing_place["step"] == 1
    at.button(key="sharing_end").click().run()
    assert at.session_state.sharing_place["step"] == at.session_state.sharing_place["last"] == 5
    assert at.button(key="sharing_step").disabled
    at.segmented_control(key="sharing_pair").set_value("three-beams").run()
    assert at.session_state.sharing_place["pair"] == "three-beams" and not at.exception
    assert at.session_state.sharing_place["step"] == 0
