"""What only the early lessons have: a slider, a button that compacts, links to the steps of recorded runs."""

from __future__ import annotations

from typing import Any

import pytest

from tests.browser.test_lessons import Tab, app, tab  # noqa: F401  fixtures

pytestmark = pytest.mark.browser


def shown(tab: Tab) -> str:  # noqa: F811
    """All that is written in the drawing."""
    return " | ".join(tab.page.locator(".drawing text").all_text_contents())


@pytest.mark.parametrize("lang", ("zh", "en"))
def test_the_reserved_length_is_a_slider(tab: Tab, lang: str) -> None:  # noqa: F811
    tab.open("fixed-reservation", lang, step=4)
    value: Any = tab.page.locator(".choices .value")
    assert value.inner_text() == "128"
    before = shown(tab)
    tab.page.locator(".choices input").focus()
    tab.press("ArrowRight")
    assert value.inner_text() == "64"
    assert shown(tab) != before and "64" in shown(tab)
    for _ in range(4):
        tab.press("ArrowLeft")
    assert value.inner_text() == "1,024"
    tab.fits()
    tab.page.locator(".sheet h2").click()
    tab.page.locator(".choices input").evaluate("node => node.blur()")
    tab.press("PageDown")
    tab.at(5)


def test_compaction_is_a_button_with_a_price(tab: Tab) -> None:  # noqa: F811
    tab.open("holes", "en", step=5)
    assert "J waits: 15 in a row" in shown(tab)
    tab.page.locator(".choices .key", has_text="Compact").click()
    assert "36 tokens were moved" in shown(tab) and "J waits" not in shown(tab)
    assert tab.page.locator(".choices .key.on").inner_text() == "Compact"
    tab.page.locator(".choices .key", has_text="As it is").click()
    assert "J waits: 15 in a row" in shown(tab)


def test_a_line_of_the_comparison_opens_its_step(tab: Tab) -> None:  # noqa: F811
    tab.open("os-pages", "zh", step=9)
    links = tab.page.locator(".drawing a")
    assert links.count() == 7
    with tab.context.expect_page() as opened:
        links.nth(2).click()
    page = opened.value
    page.locator(".stage[data-step='5']").wait_for()
    assert "lesson=pool-runs-dry&" in page.url and "lang=zh" in page.url
    assert "抢占" in page.locator(".stage .say").inner_text()
