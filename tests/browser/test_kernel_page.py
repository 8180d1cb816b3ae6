"""The kernel page in a real Chromium: recorded at once, live on request, turns by keys, the kernel itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.browser.conftest import MODEL_WAIT, VIEWPORT

pytestmark = [pytest.mark.browser, pytest.mark.model, pytest.mark.timeout(600)]


def look_inside(open_page: Callable[..., Any], path: str, **options: str) -> Any:
    """Go to the page through the side bar, go live, run its prompt, wait for the last of the first steps."""
    page = open_page(path, **options)
    page.get_by_test_id("stExpandSidebarButton").click()
    page.get_by_test_id("stSidebarNav").locator('a[href*="/kernel"]').click()
    page.get_by_test_id("stSidebarCollapseButton").locator("button").click(force=True)
    page.locator(".kernel .picture").wait_for()
    page.locator(".st-key-kernel_source").get_by_text("Live" if "=en" in path else "现场", exact=True).click()
    page.locator(".st-key-kernel_run button").first.click()
    page.get_by_text("step 8 ·" if "=en" in path else "第 8 步").first.wait_for(timeout=MODEL_WAIT)
    return page


def whole_picture_is_seen(page: Any) -> bool:
    """Whether the picture needs no scrolling."""
    box = page.locator(".kernel .picture").bounding_box()
    return bool(box["y"] + box["height"] <= VIEWPORT["height"])


@pytest.mark.parametrize(("lang", "scheme"), [("en", "light"), ("zh", "dark")])
def test_opens_with_the_recorded_step(open_page: Callable[..., Any], lang: str, scheme: str) -> None:
    words = {"en": ("Recorded on", "positions 0 to 7"), "zh": ("录制于", "位置 0 到 7")}[lang]
    page = open_page(f"/kernel?lang={lang}", color_scheme=scheme)
    page.locator(".kernel .picture").wait_for()
    page.get_by_text(words[0]).first.wait_for()
    say = page.locator(".kernel .say")
    assert words[1] in say.inner_text()
    assert page.locator(".kernel .physical").first.text_content() == "▾ 29"
    assert whole_picture_is_seen(page)
    page.locator(".st-key-kernel_layer").click()
    options = page.get_by_role("option")
    options.first.wait_for()
    assert [text.split()[-1] for text in options.all_inner_texts()] == ["0", "15", "29"]
    page.keyboard.press("Escape")
    page.locator(".st-key-kernel_launch button").first.click()
    page.get_by_text("interpreter ran" if lang == "en" else "解释器").first.wait_for(timeout=MODEL_WAIT)


def test_turns_by_keys_and_the_kernel_itself(open_page: Callable[..., Any]) -> None:
    page = look_inside(open_page, "/?lang=en")
    say = page.locator(".kernel .say")
    assert "positions 0 to 7" in say.inner_text()
    page.keyboard.press("ArrowRight")
    assert "positions 8 to 15" in say.inner_text()
    page.keyboard.press("PageUp")
    assert "positions 0 to 7" in say.inner_text()
    page.keyboard.press("End")
    assert "merges the 2 splits" in say.inner_text()
    assert page.locator(".kernel .picture").get_attribute("aria-label") == say.inner_text()
    assert whole_picture_is_seen(page)
    page.locator(".st-key-kernel_launch button").first.click()
    page.get_by_text("interpreter ran the very kernel").wait_for(timeout=MODEL_WAIT)
    assert "merges the 2 splits" in say.inner_text()  # the turn outlives a rerun


def test_chinese_in_the_dark(open_page: Callable[..., Any]) -> None:
    page = look_inside(open_page, "/?lang=zh", locale="zh-CN", color_scheme="dark")
    assert "这一轮读入位置 0 到 7" in page.locator(".kernel .say").inner_text()
    page.locator(".kernel .key.primary").click()
    assert "位置 8 到 15" in page.locator(".kernel .say").inner_text()
