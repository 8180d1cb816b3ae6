"""The compare, race and capacity pages by AppTest: what opens, what is refused, what is kept. No model."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from core.compare.race_file import RACE_FILE, load_race
from core.compare.race_result import RaceResult
from pages.parts import models, race_results
from pages.parts.compare_run import TICKED
from pages.parts.models import ModelStore
from pages.parts.race_results import table, verdict
from pages.parts.race_run import Runner

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def no_model(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No model is fetched: asking for one fails with a sentence."""

    def refuse(wanted: Any, progress: Any, terms: bool) -> Any:
        raise ValueError("No model in this test.")

    store = ModelStore(refuse)
    monkeypatch.setattr(models, "store", lambda: store)
    monkeypatch.chdir(ROOT)
    yield


def app(page: str, lang: str = "en") -> AppTest:
    at = AppTest.from_file(str(ROOT / "app.py"), default_timeout=60)
    at.query_params["lang"] = lang
    return at.run().switch_page(f"pages/{page}.py").run()


def clean(at: AppTest) -> None:
    assert not at.exception
    assert [e.value for e in at.error] == []


def picture(at: AppTest) -> dict[str, Any]:
    found = [e for e in at.get("bidi_component") if e.proto.component_name.endswith("paged_kv_compare")]
    assert len(found) == 1
    data = json.loads(found[0].proto.json)
    return dict(data[0] if isinstance(data, list) else data)  # pictures: see component.in_a_list


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("page", ["compare", "race", "capacity"])
def test_every_page_opens_in_both_languages(page: str, lang: str) -> None:
    clean(app(page, lang))


def test_compare_draws_what_is_ticked() -> None:
    at = app("compare")
    assert [row["name"] for row in picture(at)["rows"]] == list(TICKED)
    at.get_by_key("cmp_strategies").set_value(["doubling", "paged"]).run()
    clean(at)
    assert [row["name"] for row in picture(at)["rows"]] == ["doubling", "paged"]
    at.get_by_key("cmp_strategies").set_value([]).run()
    assert "Tick at least one strategy." in [info.value for info in at.info]


def test_compare_compacts_at_the_step_on_the_screen_and_takes_it_back() -> None:
    at = app("compare")
    step = picture(at)["index"]
    at.get_by_key("cmp_compact").click().run()
    assert [step, "compact"] in picture(at)["marks"]
    at.get_by_key("cmp_compact").click().run()
    assert "compact" not in {kind for _, kind in picture(at)["marks"]}


def test_compare_another_trace_opens_at_a_step_of_its_own() -> None:
    at = app("compare")
    before = picture(at)
    at.get_by_key("cmp_trace").set_value("lesson:pool-runs-dry").run()
    clean(at)
    assert picture(at)["slots"] == 24 != before["slots"]


@pytest.mark.parametrize(("lang", "word"), [("en", "**Recorded** on"), ("zh", "**录制**于")])
def test_race_opens_with_a_recorded_race_and_no_model(lang: str, word: str) -> None:
    at = app("race", lang)
    clean(at)
    said = " ".join(m.value for m in at.markdown)
    kept = load_race(RACE_FILE)
    assert f"{word} smollm2-135m-instruct" in said and verdict(kept.results, lang) in said
    assert ("2 cores" if lang == "en" else "2 核") in said
    assert table(kept.results, lang) == {
        str(name): [str(cell) for cell in cells] for name, cells in at.table[0].value.items()
    }
    assert len(at.get("plotly_chart")) == 6


def test_a_live_race_replaces_the_recorded_one(monkeypatch: pytest.MonkeyPatch) -> None:
    at = app("race")
    results = [RaceResult(strategy="paged", seconds=2.0, steps=3, generated=8, peak=2, complete=True)]
    facts = {"requests": 4, "prompt": 5.0, "new": 2.0, "slots": 64, "bytes": 1e6, "max_len": 32}
    at.session_state.race_runner = Runner(phase="done", results=results, facts=facts)
    at.run()
    clean(at)
    assert "Recorded" not in " ".join(m.value for m in at.markdown)
    assert list(at.table[0].value["steps"]) == ["3"]


def test_a_damaged_recorded_race_is_a_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "opening.json").write_bytes(RACE_FILE.read_bytes()[:999])
    monkeypatch.setattr(race_results, "RACE_FILE", tmp_path / "opening.json")
    at = app("race")
    assert not at.exception
    assert [e.value for e in at.error] == ["opening.json is damaged: it is no JSON in UTF-8."]
    assert at.get_by_key("race_start").disabled is False


def test_a_race_without_a_model_says_so_in_a_sentence() -> None:
    at = app("race")
    at.get_by_key("race_start").click().run()
    for _ in range(20):
        if at.error:
            break
        at.run()
    assert [e.value for e in at.error] == ["The model did not arrive: No model in this test."]
    at.get_by_key("race_source").set_value("file").run()
    at.get_by_key("race_start").click().run()
    assert any("No workload file is open" in e.value for e in at.error)


def test_capacity_refuses_in_a_sentence_and_keeps_its_numbers() -> None:
    at = app("capacity")
    at.get_by_key("cap_new").set_value(5000).run()
    assert any("do not fit into a max model length of 2048" in e.value for e in at.error)
    at.get_by_key("cap_new").set_value(100).run()
    clean(at)
    at.switch_page("pages/compare.py").run()
    at.switch_page("pages/capacity.py").run()
    assert at.get_by_key("cap_new").value == 100
    at.get_by_key("cap_weights").set_value(60.0).run()
    assert any("nothing is left for keys and values" in w.value for w in at.warning)
