"""The kernel page by AppTest, on a tiny random model: one click in, other heads, the check, the cost."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
from streamlit.testing.v1 import AppTest

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
    """Click, and wait until the decode steps are there."""
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


def same_output(drawn: dict[str, Any]) -> bool:
    """Whether the picture's and the engine's numbers agree but for the last digit."""
    ours, engine = (
        [float(text.replace("−", "-")) for text in drawn["output"][name]] for name in ("ours", "engine")
    )
    return ours == pytest.approx(engine, abs=2e-5) and max(map(abs, engine)) > 0.01


def test_one_click_runs_a_prompt_and_looks_inside(page: AppTest) -> None:
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
