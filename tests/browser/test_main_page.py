"""The main page in a real Chromium: what a lecturer does in the first minutes, with mouse and clicker."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from core.scenarios import SCENARIOS
from core.trace import load, verify
from tests.browser.conftest import MODEL_WAIT

pytestmark = pytest.mark.browser
LESSON = "half-full-block"
OpenPage = Callable[..., Any]


def at_step(page: Any, step: int, timeout: float | None = None) -> None:
    """Wait until the stage shows this step."""
    page.locator(f".stage[data-step='{step}']").wait_for(timeout=timeout)


def step_of(page: Any) -> int:
    """The step on the screen."""
    return int(page.locator(".stage").get_attribute("data-step"))


def stage_button(page: Any, name: str) -> Any:
    """A button of the stage by its accessible name."""
    return page.locator(".stage").get_by_role("button", name=name, exact=True)


def address(page: Any) -> dict[str, str]:
    """The address bar's parameters."""
    return {name: values[0] for name, values in parse_qs(urlsplit(page.url).query).items()}


def open_side_bar(page: Any) -> None:
    """Show the side bar, which is folded away at first."""
    page.get_by_test_id("stExpandSidebarButton").click()
    page.locator(".st-key-start").wait_for()


def settled(page: Any) -> None:
    """Wait until nothing is being computed and the step has stood still for a while."""
    for _ in range(100):
        page.locator(".stage:not(.busy)").wait_for(timeout=MODEL_WAIT)
        before = step_of(page)
        page.wait_for_timeout(1500)
        if step_of(page) == before and page.locator(".stage.busy").count() == 0:
            return
    raise AssertionError("the stage does not come to rest")


def first_live_step(page: Any) -> None:
    """Wait until the live run has begun: the model is here and the first step is drawn."""
    page.locator(".stage .mode[data-mode=live]").wait_for(timeout=MODEL_WAIT)
    page.locator(".stage:not(.busy) .say").get_by_text("Prefill").wait_for(timeout=MODEL_WAIT)


def go_live(page: Any) -> None:
    """Press "live" and wait for the first step."""
    page.locator(".st-key-source_switch").get_by_text("Live", exact=True).click()
    first_live_step(page)


def test_first_start(open_page: OpenPage) -> None:
    page = open_page("/")
    at_step(page, 0)
    assert page.locator(".stage .mode").inner_text().lower() == "recorded"
    main = page.get_by_test_id("stMain")
    tall, room = main.evaluate("m => [m.scrollHeight, m.clientHeight]")
    assert tall <= room + 1, "the main screen must not scroll at 1366 x 768"
    wide, room = page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
    assert wide <= room
    for place in main.get_by_role("button").filter(visible=True).all():
        box = place.bounding_box()
        assert box and box["x"] >= 0 and box["x"] + box["width"] <= 1366 and box["y"] + box["height"] <= 768


def test_step_back_jump_play_and_keys(open_page: OpenPage) -> None:
    page = open_page(f"/?lesson={LESSON}&lang=en")
    at_step(page, 0)
    entries = page.evaluate("history.length")
    stage_button(page, "Step").click()
    at_step(page, 1)
    for key, step in (
        ("ArrowRight", 2), ("PageDown", 3), ("ArrowLeft", 2), ("PageUp", 1), ("Home", 0), ("ArrowRight", 1)
    ):  # fmt: skip
        page.keyboard.press(key)
        at_step(page, step)
    stage_button(page, "Back").click()
    at_step(page, 0)  # drawn at once; the address follows with the server's answer
    page.wait_for_function("() => new URL(location.href).searchParams.get('step') === '0'")
    assert address(page) == {"lesson": LESSON, "lang": "en", "step": "0"}
    page.keyboard.press("n")
    page.wait_for_function("() => new URL(location.href).searchParams.get('step') !== '0'")
    assert page.evaluate("history.length") == entries, "a step must not add an entry to the history"
    page.keyboard.press("Home")
    at_step(page, 0)
    page.keyboard.press("Space")
    at_step(page, 2)
    page.keyboard.press("Space")
    page.locator(".stage").get_by_role("button", name="Play", exact=True).wait_for()


def test_a_switch_clicked_with_the_mouse_gives_the_keys_back(open_page: OpenPage) -> None:
    page = open_page(f"/?lesson={LESSON}&lang=en")
    at_step(page, 0)
    page.locator(".st-key-proof_switch label").click()
    page.locator(".st-key-language_switch").get_by_text("中文").click()
    page.locator(".stage[lang^=zh]").wait_for()
    page.keyboard.press("ArrowRight")
    at_step(page, 1)


def test_language_theme_and_deep_link(open_page: OpenPage) -> None:
    page = open_page(f"/?lesson={LESSON}&step=2", locale="zh-CN", color_scheme="dark")
    at_step(page, 2)
    assert page.locator(".stage").get_attribute("lang") == "zh-CN"
    red, green, blue = map(
        int,
        re.findall(
            r"\d+", page.evaluate("getComputedStyle(document.querySelector('.stApp')).backgroundColor")
        )[:3],
    )
    assert max(red, green, blue) < 64, "dark was asked for"
    page.locator(".st-key-language_switch").get_by_text("EN").click()
    page.locator(".stage[lang=en]").wait_for()
    assert step_of(page) == 2
    page.wait_for_function("() => new URL(location.href).searchParams.get('lang') === 'en'")
    page.reload()
    at_step(page, 2)
    assert page.locator(".stage").get_attribute("lang") == "en"


def test_lessons_are_one_click_away(open_page: OpenPage) -> None:
    page = open_page("/?lang=en")
    at_step(page, 0)
    page.keyboard.press("ArrowRight")
    at_step(page, 1)
    page.locator(".st-key-lessons button").first.click()
    page.get_by_text(SCENARIOS[LESSON].title_en, exact=True).click()
    at_step(page, 0)
    page.wait_for_function(f"() => new URL(location.href).searchParams.get('lesson') === '{LESSON}'")


def test_live_from_own_prompt_to_a_saved_file(open_page: OpenPage, tmp_path: Path) -> None:
    page = open_page("/?lang=en")
    at_step(page, 0)
    open_side_bar(page)
    prompt = page.locator(".st-key-set_prompts textarea")
    prompt.fill("The capital of France is")
    page.locator(".st-key-start button").click()
    first_live_step(page)
    page.locator(".stage").get_by_text("capital").first.wait_for()

    step = stage_button(page, "Step")
    for _ in range(5):
        step.click(delay=5, no_wait_after=True, force=True)
    page.locator(".stage:not([data-step='0'])").wait_for(timeout=MODEL_WAIT)  # step 1 may be gone by now
    settled(page)
    assert 1 <= step_of(page) <= 5, "five fast clicks make at most five steps"

    before = step_of(page)
    step.click()
    page.locator(".st-key-set_num_blocks input").fill("12")  # during the step
    page.locator(".st-key-set_num_blocks input").press("Enter")
    at_step(page, before + 1, MODEL_WAIT)
    page.get_by_text("12 blocks × 4 slots").wait_for()

    page.locator(".st-key-set_num_blocks input").fill("1")
    page.locator(".st-key-set_num_blocks input").press("Enter")
    page.get_by_text("1 blocks × 4 slots").wait_for()
    page.locator(".st-key-start button").click()
    page.get_by_text(re.compile(r"need .* blocks and the pool has 1")).wait_for()
    assert step_of(page) == before + 1, "a refused run leaves the one before as it was"

    page.locator(".st-key-file button").first.click()
    with page.expect_download() as caught:
        page.locator(".st-key-save_trace button").click()
    saved = tmp_path / caught.value.suggested_filename
    caught.value.save_as(saved)
    assert saved.name.endswith(".kvtrace.json.gz")
    trace = load(saved)
    assert verify(trace) is None
    assert len(trace.steps) == before + 2

    page.locator(".st-key-upload input[type=file]").set_input_files(saved)
    page.locator(".stage .mode[data-mode=recorded]").wait_for()
    at_step(page, 0)
    page.locator(".stage").get_by_text(saved.name).wait_for()
    broken = tmp_path / "broken.kvtrace.json"
    broken.write_text('{"format": "something"}')
    page.locator(".st-key-upload input[type=file]").set_input_files(broken)
    page.get_by_test_id("stAlert").first.wait_for()
    assert "Traceback" not in page.content()


def test_a_request_joins_a_run_and_is_cancelled(open_page: OpenPage) -> None:
    page = open_page("/?lang=en")
    at_step(page, 0)
    go_live(page)
    open_side_bar(page)
    page.locator(".st-key-set_prompts textarea").fill("Once upon a time")
    page.get_by_role("button", name="Add to this run").click()
    stage_button(page, "Step").click()
    at_step(page, 1, MODEL_WAIT)
    page.locator(".stage").get_by_text("upon").first.wait_for()
    page.get_by_role("button", name=re.compile("Cancel Once")).click()
    at_step(page, 2, MODEL_WAIT)
    page.get_by_role("button", name=re.compile("Cancel Once")).wait_for(state="detached")
