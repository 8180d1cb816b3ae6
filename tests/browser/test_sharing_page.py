"""The two sharing rules in a real browser: keys step both sides, and all of it fits the screen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytestmark = pytest.mark.browser


@pytest.mark.parametrize(
    ("locale", "scheme", "rules"),
    [("en-US", "light", ["Copy-on-write", "Append-only"]), ("zh-CN", "dark", ["写时复制", "只追加"])],
)
def test_both_rules_step_together_and_fit(
    open_page: Callable[..., Any], locale: str, scheme: str, rules: list[str]
) -> None:
    page = open_page("/", locale=locale, color_scheme=scheme)
    page.get_by_test_id("stExpandSidebarButton").click()
    page.get_by_test_id("stSidebarNav").locator("a[href$='/sharing']").click()
    page.locator(".two section").first.wait_for()
    page.get_by_test_id("stSidebarCollapseButton").locator("button").click(force=True)
    assert page.locator(".two h2").all_text_contents() == rules
    page.keyboard.press("ArrowRight")
    copies = page.locator(".two tr:nth-child(2) td:nth-child(5)")
    copies.filter(has_text="2").wait_for()  # the step in which the rules part
    figures = page.locator(".two tr").evaluate_all(
        "rows => rows.slice(1).map(row => [...row.querySelectorAll('td')].map(cell => cell.textContent))"
    )
    assert figures == [["5", "9", "5", "2", "4", "0"], ["5", "9", "5", "0", "0", "4"]], figures
    room = page.evaluate(
        "[document.querySelector('[data-testid=stMain]').scrollHeight, innerHeight, "
        "document.documentElement.scrollWidth, innerWidth]"
    )
    assert room[0] <= room[1] and room[2] <= room[3], "nothing scrolls at 1366 x 768"
    boxes = page.locator(".two .toks i, .two h2, .two td").all()
    assert all(box.evaluate("node => parseFloat(getComputedStyle(node).fontSize) >= 12") for box in boxes[:8])
