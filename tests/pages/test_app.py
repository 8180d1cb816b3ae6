"""The app by AppTest: what opens, what a switch of language keeps, what is refused. No model, no browser."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from core.trace import TraceError, load
from pages.parts import library, models
from pages.parts.models import ModelStore, Wanted

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "tests" / "data" / "example.kvtrace.json"


@pytest.fixture(autouse=True)
def lesson_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Two recorded lessons of the tests' own, and no model that would be fetched."""
    for name in ("a-first", "b-second"):
        (tmp_path / f"{name}.kvtrace.json.gz").write_bytes(gzip.compress(EXAMPLE.read_bytes()))
    monkeypatch.setattr(library, "LESSONS", tmp_path)
    monkeypatch.setenv(library.EXTRA_FOLDER, "")
    store = ModelStore(lambda wanted, progress, terms: pytest.fail("a model was asked for"))
    monkeypatch.setattr(models, "store", lambda: store)
    monkeypatch.chdir(ROOT)
    yield tmp_path
    library._read.clear()


def app(lang: str | None = "en", **query: str) -> AppTest:
    """A tab, run once."""
    at = AppTest.from_file(str(ROOT / "app.py"), default_timeout=30)
    for name, value in {**({"lang": lang} if lang else {}), **query}.items():
        at.query_params[name] = value
    return at.run().run()  # a tab's second run, which a browser asks for by itself, brings the side bar


def component(at: AppTest, name: str) -> dict[str, Any]:
    """What the component ``name`` was given to draw."""
    found = [e for e in at.get("bidi_component") if e.proto.component_name.endswith(name)]
    assert len(found) == 1, [e.proto.component_name for e in at.get("bidi_component")]
    data = json.loads(found[0].proto.json)
    return dict(data[0] if isinstance(data, list) else data)  # pictures: see component.in_a_list


def stage(at: AppTest) -> dict[str, Any]:
    """The stage's payload."""
    return component(at, "paged_kv_stage")


def clean(at: AppTest) -> None:
    """Nothing went wrong in this run."""
    assert not at.exception
    assert [e.value for e in at.error] == []


def test_opens_with_a_recorded_lesson() -> None:
    at = app()
    clean(at)
    drawn = stage(at)
    assert (drawn["index"], drawn["last"], drawn["mode"], drawn["lang"]) == (0, 2, "recorded", "en")
    assert component(at, "paged_kv_address") == {"lang": "en", "lesson": "a-first", "step": "0"}


@pytest.mark.parametrize(("locale", "lang"), [("zh-CN", "zh"), ("de-DE", "en"), ("en-US", "en")])
def test_language_of_the_browser(locale: str, lang: str) -> None:
    at = AppTest.from_file(str(ROOT / "app.py"), default_timeout=30)
    at.context["locale"] = locale
    at.run()
    clean(at)
    assert stage(at)["lang"] == lang


def test_the_side_bar_comes_after_the_picture() -> None:
    """A tab's first run draws the picture and the line of controls; the next one the closed side bar too."""
    at = AppTest.from_file(str(ROOT / "app.py"), default_timeout=30)
    at.query_params["lang"] = "en"
    at.run()
    assert stage(at)["index"] == 0 and at.get_by_key("proof_switch") is not None
    keys = [node.key for node in at.sidebar.text_area]
    assert keys == []
    at.run()
    assert [node.key for node in at.sidebar.text_area] == ["set_prompts"]


def test_a_deep_link_opens_exactly_there() -> None:
    at = app(lang="zh", lesson="b-second", step="2")
    clean(at)
    drawn = stage(at)
    assert (drawn["index"], drawn["lang"]) == (2, "zh")
    assert component(at, "paged_kv_address")["lesson"] == "b-second"


@pytest.mark.parametrize("step", ["-1", "x", "99999999999", "7", ""])
def test_a_wrong_step_in_the_address_is_the_nearest(step: str) -> None:
    at = app(lesson="no-such", step=step)
    clean(at)
    assert 0 <= stage(at)["index"] <= 2


def test_switching_the_language_keeps_the_step() -> None:
    at = app(lesson="a-first", step="2")
    at.get_by_key("language_switch").set_value("zh").run()
    clean(at)
    drawn = stage(at)
    assert (drawn["index"], drawn["lang"]) == (2, "zh")
    at.get_by_key("language_switch").set_value("en").run()
    assert (stage(at)["index"], stage(at)["lang"]) == (2, "en")


def test_choosing_a_lesson_and_coming_back_keeps_its_step() -> None:
    at = app(lesson="a-first", step="2")
    at.get_by_key("lessons").click("b-second").run()
    assert stage(at)["index"] == 0
    at.get_by_key("lessons").click("a-first").run()
    clean(at)
    assert stage(at)["index"] == 2


def _two_pages() -> None:
    """A script with the settings on one of its two faces."""
    import streamlit as st

    from pages.parts import controls

    if not st.toggle("other page", key="other"):
        controls.first_controls("en")


def test_settings_survive_a_change_of_page() -> None:
    at = AppTest.from_function(_two_pages, default_timeout=30).run()
    at.get_by_key("set_block_size").set_value(8).run()
    at.get_by_key("set_num_blocks").set_value(12).run()
    at.get_by_key("set_mode").set_value("sample").run()
    at.get_by_key("set_n").set_value(5).run()
    at.get_by_key("other").set_value(True).run()
    assert len(at.number_input) == 0
    at.get_by_key("other").set_value(False).run()
    clean(at)
    values = {name: at.get_by_key(f"set_{name}").value for name in ("block_size", "num_blocks", "mode", "n")}
    assert values == {"block_size": 8, "num_blocks": 12, "mode": "sample", "n": 5}


def test_an_impossible_setting_is_a_sentence_and_loses_nothing() -> None:
    at = app(lesson="a-first", step="2")
    at.get_by_key("set_prompts").set_value("  ").run()
    at.get_by_key("start").click().run()
    assert not at.exception
    assert ["prompt" in e.value for e in at.error] == [True]
    assert stage(at)["index"] == 2


def test_a_damaged_upload_is_a_sentence(tmp_path: Path) -> None:
    at = app()
    at.get_by_key("upload").upload("bad.json", b'{"format": "something else"}', "application/json").run()
    assert not at.exception
    assert len(at.error) == 1
    assert stage(at)["index"] == 0
    with pytest.raises(TraceError) as raised:
        load(b'{"format": "something else"}')
    assert at.error[0].value == str(raised.value)


def test_an_uploaded_trace_is_shown_from_its_start() -> None:
    at = app(lesson="a-first", step="2")
    at.get_by_key("upload").upload("mine.kvtrace.json", EXAMPLE.read_bytes(), "application/json").run()
    clean(at)
    drawn = stage(at)
    assert drawn["index"] == 0
    assert "mine.kvtrace.json" in drawn["title"]
    assert component(at, "paged_kv_address")["lesson"] is None


def test_a_damaged_lesson_does_not_take_the_page_down(lesson_folder: Path) -> None:
    (lesson_folder / "b-second.kvtrace.json.gz").write_bytes(b"\x1f\x8bnothing")
    at = app()
    at.get_by_key("lessons").click("b-second").run()
    assert not at.exception
    assert len(at.error) >= 1
    at.get_by_key("lessons").click("a-first").run()
    clean(at)


def test_without_any_lesson_the_page_says_so(lesson_folder: Path) -> None:
    for path in lesson_folder.iterdir():
        path.unlink()
    at = app()
    clean(at)
    assert any("open a trace" in info.value for info in at.info)


def test_live_waits_for_its_model(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Wanted] = []

    def loader(wanted: Wanted, progress: Any, terms: bool) -> Any:
        asked.append(wanted)
        raise ValueError("No network: connect and try again.")

    store = ModelStore(loader)
    monkeypatch.setattr(models, "store", lambda: store)
    at = app()
    at.get_by_key("source_switch").set_value("live").run()
    assert not at.exception
    assert asked == [Wanted("smollm2-135m-instruct")]
    at.run()
    assert any("No network" in e.value for e in at.error)
    at.get_by_key("source_switch").set_value("recorded").run()
    assert stage(at)["mode"] == "recorded"


def test_a_page_run_without_the_app_goes_through_it() -> None:
    at = AppTest.from_file(str(ROOT / "app.py"), default_timeout=30).run()
    at.switch_page("pages/live.py").run()
    clean(at)
    assert stage(at)["mode"] == "recorded"


def test_both_languages_have_the_same_words() -> None:
    folder = ROOT / "assets" / "words"
    zh, en = (json.loads((folder / f"app.{lang}.json").read_text()) for lang in ("zh", "en"))
    assert zh.keys() == en.keys()
    assert all(zh[key] and en[key] for key in en)


def test_the_saved_file_opens_again() -> None:
    from pages.parts.upload import file_bytes, file_name

    trace = load(EXAMPLE.read_bytes())
    again = load(file_bytes(trace))
    assert again.steps == trace.steps
    assert file_name("../a b/同一提示") == "a-b-同一提示.kvtrace.json.gz"
