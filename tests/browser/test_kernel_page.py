"""The kernel page in a real Chromium: one click in, turns by keys, the kernel itself, light and dark."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.browser.conftest import MODEL_WAIT, VIEWPORT

pytestmark = [pytest.mark.browser, pytest.mark.model, pytest.mark.timeout(600)]


def look_inside(open_page: Callable[..., Any], path: str, **options: str) -> Any:
    """Go to the page through the side bar, run its prompt, wait for the last of the first steps."""
    page = open_page(path, **options)
    page.get_by_test_id("stExpandSidebarButton").click()
    page.get_by_test_id("stSidebarNav").locator('a[href*="/kernel"]').click()
    page.get_by_test_id("stSidebarCollapseButton").locator("button").click(force=True)
    page.locator(".st-key-kernel_run button").first.click()
    page.locator(".kernel .picture").wait_for(timeout=MODEL_WAIT)
    page.get_by_text("30").first.wait_for()
    return page


def test_turns_by_keys_and_the_kernel_itself(open_page: Callable[..., Any]) -> None:
    page = look_inside(open_page, "/?lang=en")
    say = page.locator(".kernel .say")
    page.get_by_text("step 8 ·").first.wait_for(timeout=MODEL_WAIT)
    assert "positions 0 to 7" in say.inner_text()
    page.keyboard.press("ArrowRight")
    assert "positions 8 to 15" in say.inner_text()
    page.keyboard.press("PageUp")
    assert "positions 0 to 7" in say.inner_text()
    page.keyboard.press("End")
    assert "merges the 2 splits" in say.inner_text()
    assert page.locator(".kernel .picture").get_attribute("aria-label") == say.inner_text()
    bottom = page.locator(".kernel .picture").bounding_box()
    assert bottom["y"] + bottom["height"] <= VIEWPORT["height"]  # the picture needs no scrolling
    page.locator(".st-key-kernel_launch button").first.click()
    page.get_by_text("interpreter ran the very kernel").wait_for(timeout=MODEL_WAIT)
    assert "merges the 2 splits" in say.inner_text()  # the turn outlives a rerun


def test_chinese_in_the_dark(open_page: Callable[..., Any]) -> None:
    page = look_inside(open_page, "/?lang=zh", locale="zh-CN", color_scheme="dark")
    assert "这一轮读入位置 0 到 7" in page.locator(".kernel .say").inner_text()
    page.locator(".kernel .key.primary").click()
    assert "位置 8 到 15" in page.locator(".kernel .say").inner_text()
