"""The kernel page by AppTest: the recorded step at once; then live, on a tiny random model."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
from streamlit.testing.v1 import AppTest

from core.engine.peek_file import PEEK_FILE, load_peek
from kernels.interpret import KernelRun
from pages.parts import kernel_page, kernel_page_check, library, live, models
from pages.parts.models import ModelStore
from tests.pages.test_app import ROOT, clean, component

if TYPE_CHECKING:
    from core.models.loaded import LoadedModel


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny: Callable[..., LoadedModel]) -> AppTest:
    """The page in English before any run, on a tiny model."""
    from core.engine.session import SessionRegistry

    monkeypatch.setattr(library, "LESSONS", tmp_path)
    monkeypatch.setattr(models, "store", lambda: store)
    store = ModelStore(lambda wanted, progress, terms: tiny("mistral"))
    own = SessionRegistry(1 << 24)
    monkeypatch.setattr(live, "registry", lambda: own)
    monkeypatch.chdir(ROOT)
    at = AppTest.from_file(str(ROOT / "app.py"), default_timeout=60)
    at.query_params["lang"] = "en"
    at.run()
    at.switch_page("pages/kernel.py").run()
    return at


def look_inside(at: AppTest, prompt: str = "Hello there, you") -> None:
    """Go live, and wait until the decode steps are there."""
    at.get_by_key("kernel_source").set_value("live").run()
    at.get_by_key("kernel_prompt").set_value(prompt).run()
    at.get_by_key("kernel_run").click().run()
    for _ in range(300):
        session = at.session_state.run.session
        if session is not None and len(session.trace.steps) >= kernel_page.FIRST_STEPS:
            break
        time.sleep(0.02)
        at.run()
    session.wait(20)
    at.run()


def picture(at: AppTest) -> dict[str, Any]:
    return component(at, "paged_kv_kernel")


def about(at: AppTest) -> str:
    """The line above the picture."""
    (line,) = [caption.value for caption in at.caption if "query head" in caption.value]
    return str(line)


def same_output(drawn: dict[str, Any]) -> bool:
    """Whether the picture's and the engine's numbers agree but for the last digit."""
    ours, engine = (
        [float(text.replace("−", "-")) for text in drawn["output"][name]] for name in ("ours", "engine")
    )
    return ours == pytest.approx(engine, abs=2e-5) and max(map(abs, engine)) > 0.01


def test_opens_with_the_recorded_step_and_no_model(page: AppTest, monkeypatch: pytest.MonkeyPatch) -> None:
    clean(page)
    assert models.store().look(live.wanted()).phase == "absent"
    assert "kernel_run" not in [widget.key for widget in page.button]
    drawn = picture(page)
    kept = load_peek(PEEK_FILE)
    view = kept.trace.steps[-1].sequences[0]
    assert (drawn["kv_len"], tuple(drawn["table"])) == (view.written, view.block_table)
    assert drawn["place"] == 0 and same_output(drawn)
    assert sum("rises" in said for said in drawn["say"]) >= 3  # a head with a story
    assert page.get_by_key("kernel_layer").options == [f"Layer {layer}" for layer in kept.layers]
    caption = about(page)
    assert "**Recorded** on smollm2-135m-instruct, layers 0, 15, 29" in caption and "41 keys" in caption
    for name, value in (("layer", 29), ("head", 8), ("sequence", 1), ("tile", 4), ("splits", 3)):
        page.get_by_key(f"kernel_{name}").set_value(value).run()
        clean(page)
    other = picture(page)
    assert same_output(other) and other["table"] != drawn["table"] and len(other["parts"]) == 3


def test_a_damaged_recording_is_a_sentence_and_live_still_works(
    page: AppTest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "opening.npz").write_bytes(PEEK_FILE.read_bytes()[:9000])
    monkeypatch.setattr("core.engine.peek_file.PEEK_FILE", tmp_path / "opening.npz")
    page.run()
    assert not page.exception
    assert [e.value for e in page.error] == ["opening.npz is cut off or damaged: it is no NumPy archive."]
    assert "FlashInfer" in " ".join(m.value for m in page.markdown)
    look_inside(page)
    clean(page)
    assert same_output(picture(page))


def test_live_takes_over_when_asked_and_the_recording_is_a_click_away(page: AppTest) -> None:
    recording = picture(page)
    page.get_by_key("kernel_source").set_value("live").run()
    assert picture(page)["key"] == recording["key"]  # until there is a run the recording stays
    look_inside(page)
    assert picture(page)["key"] != recording["key"]
    assert len(page.get_by_key("kernel_layer").options) == 3 and "Recorded" not in about(page)
    page.get_by_key("kernel_source").set_value("recorded").run()
    clean(page)
    assert picture(page)["key"] == recording["key"]
    assert "kernel_next" not in [widget.key for widget in page.button]


def test_a_tab_that_looks_at_a_live_run_finds_it_here(page: AppTest) -> None:
    look_inside(page)
    page.session_state.kernel_chosen = None
    page.run()
    assert page.get_by_key("kernel_source").value == "live"


def test_one_click_runs_a_prompt_and_looks_inside(page: AppTest) -> None:
    page.get_by_key("kernel_source").set_value("live").run()
    assert page.get_by_key("kernel_run").label == "Run this prompt and look inside"
    look_inside(page)
    clean(page)
    drawn = picture(page)
    session = page.session_state.run.session
    step = session.trace.steps[kernel_page.FIRST_STEPS - 1]
    view = step.sequences[0]
    assert drawn["kv_len"] == view.written and tuple(drawn["table"]) == view.block_table
    assert drawn["first"] == view.written - 8  # the model's window
    assert max(drawn["refs"]) == 2  # both answers read the prompt's blocks
    assert same_output(drawn)
    markdown = " ".join(m.value for m in page.markdown)
    assert "20 to 26 %" in markdown and "FlashInfer" in markdown and "operations a byte" in markdown


def test_another_layer_head_and_sequence_have_other_numbers(page: AppTest) -> None:
    look_inside(page)
    first = picture(page)
    for name, value in (("layer", 2), ("head", 3), ("sequence", 1)):
        page.get_by_key(f"kernel_{name}").set_value(value).run()
        clean(page)
    drawn = picture(page)
    assert drawn["output"]["ours"] != first["output"]["ours"]
    assert same_output(drawn)
    assert drawn["place"] == 1
    page.get_by_key("kernel_splits").set_value(4).run()
    assert len(picture(page)["parts"]) == 4


def test_the_next_decode_step_is_shown(page: AppTest) -> None:
    look_inside(page)
    before = picture(page)["kv_len"]
    page.get_by_key("kernel_next").click().run()
    page.session_state.run.session.wait(20)
    page.run()
    clean(page)
    assert picture(page)["kv_len"] == before + 1


def test_the_check_holds_the_kernel_against_the_engine(
    page: AppTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The launch is tried in tests/kernels; here a result that is off by 0.25 must show as 0.25."""

    def off(found: Any, told: Any) -> KernelRun:
        return KernelRun(found.output.float() + 0.25, "interpreter", 1.0, 4)

    monkeypatch.setattr(kernel_page_check, "launch", off)
    monkeypatch.setattr("kernels.interpret.can_run", lambda device: True)
    look_inside(page)
    assert "Not run yet" in " ".join(m.value for m in page.markdown)
    page.get_by_key("kernel_launch").click().run()
    clean(page)
    assert "**2.5e-01**" in " ".join(m.value for m in page.markdown)
    page.get_by_key("kernel_tile").set_value(16).run()  # another launch: the old result is not its own
    assert "Not run yet" in " ".join(m.value for m in page.markdown)


def test_measuring_draws_the_roofline(page: AppTest, monkeypatch: pytest.MonkeyPatch) -> None:
    from kernels import roofline

    monkeypatch.setattr(roofline, "COPY_BYTES", {"cpu": 1 << 20})
    monkeypatch.setattr(roofline, "MATRIX", {"cpu": 64})
    look_inside(page)
    assert "Not measured yet" in " ".join(c.value for c in page.caption)
    page.get_by_key("kernel_measure").click().run()
    clean(page)
    assert "Nothing here says anything about a GPU" in " ".join(c.value for c in page.caption)
    assert page.session_state.roofline.this.us > 0


def test_language_changes_words_and_nothing_else(page: AppTest) -> None:
    look_inside(page)
    page.get_by_key("kernel_layer").set_value(0).run()
    english = picture(page)
    page.get_by_key("language_switch").set_value("zh").run()
    clean(page)
    chinese = picture(page)
    assert chinese["say"] != english["say"] and "读入位置" in chinese["say"][0]
    same = ("tiles", "parts", "table", "key")
    assert [chinese[name] for name in same] == [english[name] for name in same]


def test_a_step_of_prompts_only_is_refused_with_a_button(page: AppTest) -> None:
    look_inside(page)
    session = page.session_state.run.session
    while session.has_work:
        session.request_step(50)
        session.wait(20)
    session.submit("A new prompt", max_new_tokens=3, ignore_eos=True)
    session.request_step()
    session.wait(20)
    page.run()
    clean(page)
    assert "the prefill kernel's work" in " ".join(m.value for m in page.markdown)
    page.get_by_key("kernel_next").click().run()
    session.wait(20)
    page.run()
    assert picture(page)["kv_len"] == len("A new prompt") + 1
    assert torch.is_tensor(session.peek(0).q)
