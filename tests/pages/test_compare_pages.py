"""The compare, race and capacity pages by AppTest: what opens, what is refused, what is kept. No model."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from pages.parts import models
from pages.parts.compare_run import TICKED
from pages.parts.models import ModelStore

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
