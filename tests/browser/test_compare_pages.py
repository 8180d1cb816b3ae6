"""The compare, race and capacity pages in a real Chromium, in both languages, light and dark."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from core.trace import load
from pages.parts.compare_page import OPENS_WITH
from pages.parts.library import lessons
from tests.browser.conftest import MODEL_WAIT

pytestmark = pytest.mark.browser
OpenPage = Callable[..., Any]
TITLES = {
    "compare": ("Compare strategies", "策略对比"),
    "capacity": ("Capacity", "容量"),
    "race": ("Race", "竞速"),
}


def picture(page: Any, step: int | None = None) -> Any:
    """The comparison's picture, once it shows this step."""
    found = page.locator(".compare[data-step]" if step is None else f".compare[data-step='{step}']")
    found.wait_for()
    return found


def row(page: Any, name: str) -> Any:
    """A strategy's strip with what is written beside it."""
    return page.locator(f".compare .striprow[data-name='{name}']")


def fits(page: Any) -> None:
    """Nothing to scroll at 1366 x 768, in either direction."""
    tall, room = page.get_by_test_id("stMain").evaluate("m => [m.scrollHeight, m.clientHeight]")
    assert tall <= room + 1
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


def settle(page: Any) -> None:
    """Let a rerun that a click has caused begin and end."""
    page.wait_for_timeout(300)
    page.wait_for_function("() => !document.querySelector('[data-test-script-state=running]')")


@pytest.mark.parametrize(
    ("locale", "scheme", "label"), [("en-US", "light", "Reserve exactly"), ("zh-CN", "dark", "恰好预留")]
)
def test_compare_opens_with_strategies_that_differ(
    open_page: OpenPage, locale: str, scheme: str, label: str
) -> None:
    page = open_page("/compare", locale=locale, color_scheme=scheme)
    shown = picture(page)
    assert int(shown.get_attribute("data-step")) > 0
    fits(page)
    assert row(page, "exact").locator("b").first.inner_text() == label
    told = row(page, "exact").locator(".verdict span").inner_text()
    assert {"18", "27", "17"} <= set(re.findall(r"\d+", told)), told
    running = page.locator(".compare .numbers tbody tr td:nth-child(2)").all_inner_texts()
    assert len(running) == 5 and len(set(running)) >= 3, running
    for strip in page.locator(".compare .strip").all():
        wide, inside = strip.evaluate(
            "s => [s.clientWidth, [...s.children].reduce((n, c) => n + c.offsetWidth, 0)]"
        )
        assert abs(wide - inside) <= 2 + 0.02 * wide, "the segments fill the strip"


def test_compare_steps_with_keys_and_time_line_all_strategies_together(open_page: OpenPage) -> None:
    page = open_page("/compare?lang=en")
    at = int(picture(page).get_attribute("data-step"))
    for key, step in (("ArrowRight", at + 1), ("PageDown", at + 2), ("ArrowLeft", at + 1), ("Home", 0)):
        page.keyboard.press(key)
        picture(page, step)
    page.keyboard.press("End")
    last = int(page.locator(".compare .line").get_attribute("aria-valuemax"))
    assert last > len(load(lessons()[OPENS_WITH.removeprefix("lesson:")]).steps), "others finish later"
    picture(page, last)
    assert set(page.locator(".compare .numbers tbody tr td:nth-child(2)").all_inner_texts()) == {"0"}
    line = page.locator(".compare .line")
    box = line.bounding_box()
    page.mouse.click(box["x"] + 9, box["y"] + box["height"] / 2)
    picture(page, 0)
    page.keyboard.press("Space")
    picture(page, 2)
    page.keyboard.press("Space")
    page.locator(".compare").get_by_role("button", name="Play", exact=True).wait_for()


def test_compare_one_changes_one_thing_and_sees_what_follows(open_page: OpenPage) -> None:
    page = open_page("/compare?lang=en")
    picture(page)
    page.locator(".compare .line").focus()
    page.keyboard.press("Home")
    picture(page, 0)
    for step in range(1, 7):
        page.keyboard.press("ArrowRight")
        picture(page, step)

    before = row(page, "exact").locator(".verdict b").inner_text()
    page.locator(".st-key-cmp_compact button").first.click()
    page.locator(".compare .say").get_by_text(re.compile(r"Reserve exactly 63 \(2\.9 MB\)")).wait_for()
    assert row(page, "exact").locator(".verdict b").inner_text() != before, "who waited goes on"
    page.locator(".st-key-cmp_compact button").first.click()
    page.locator(".compare .say").get_by_text("Compacted").wait_for(state="detached")

    page.locator(".st-key-cmp_policy").get_by_text("buddy", exact=True).click()
    row(page, "exact").get_by_text("buddy").wait_for()
    page.locator(".st-key-cmp_policy").get_by_text("first fit", exact=True).click()
    row(page, "exact").get_by_text("first fit").wait_for()

    slider = page.locator(".st-key-cmp_estimate input[type=range]")
    slider.focus()
    for _ in range(20):
        page.keyboard.press("ArrowLeft")
    row(page, "exact").get_by_text(re.compile("the estimate was too small")).or_(
        page.locator(".compare .sign.stop").first
    ).first.wait_for(state="attached")

    page.locator(".st-key-cmp_strategies").get_by_text("Grow by one", exact=True).click()
    row(page, "grow by one").wait_for()
    page.locator(".compare").get_by_role("radio", name="requests at once").click()
    page.locator(".compare").get_by_role("radio", name="requests at once", checked=True).wait_for()
    page.locator(".st-key-language_switch").get_by_text("中文").click()
    page.locator(".compare[lang^=zh]").wait_for()
    assert row(page, "grow by one").locator("b").first.inner_text() == "每次加一"


def test_compare_keeps_its_settings_over_a_change_of_page(open_page: OpenPage) -> None:
    page = open_page("/compare?lang=en")
    picture(page)
    page.locator(".st-key-cmp_strategies").get_by_text("Paged, reserved up front", exact=True).click()
    row(page, "promised pages").wait_for()
    page.get_by_test_id("stExpandSidebarButton").click()
    page.get_by_test_id("stSidebarNav").get_by_text("Capacity", exact=True).click()
    page.locator(".formula").wait_for()
    page.get_by_test_id("stSidebarNav").get_by_text("Compare strategies", exact=True).click()
    row(page, "promised pages").wait_for()


@pytest.mark.parametrize(("locale", "scheme"), [("en-US", "dark"), ("zh-CN", "light")])
def test_capacity_calculator(open_page: OpenPage, locale: str, scheme: str) -> None:
    page = open_page("/capacity", locale=locale, color_scheme=scheme)
    total = page.locator(".formula .total b")
    total.get_by_text("819,200").wait_for()
    page.locator(".st-key-capacity_requests .bars .point").first.wait_for()
    fits(page)
    heads = page.locator(".st-key-cap_kv_heads input")
    heads.fill("10")
    heads.press("Enter")
    total.get_by_text("204,800").wait_for()
    page.locator(".st-key-error_layers button").click()
    page.locator(".st-key-find_the_error").get_by_text(re.compile("✗")).wait_for()
    page.locator(".st-key-error_heads button").click()
    page.locator(".st-key-find_the_error").get_by_text(re.compile("131,072")).wait_for()
    too_long = page.locator(".st-key-cap_prompt input")
    too_long.fill("5000")
    too_long.press("Enter")
    page.get_by_test_id("stAlert").get_by_text(re.compile("5000")).wait_for()
    assert "Traceback" not in page.content()


def test_capacity_block_size_and_the_papers_figures(open_page: OpenPage) -> None:
    page = open_page("/capacity?lang=en")
    page.locator(".formula").wait_for()
    parts = page.locator(".st-key-cap_part")
    parts.get_by_text("Block size", exact=True).click()
    page.get_by_text(re.compile(r"Blocks of 16: 1\.\d+ %")).wait_for()
    slider = page.locator(".st-key-cap_size input[type=range]")
    slider.focus()
    page.keyboard.press("ArrowRight")
    page.get_by_text(re.compile(r"Blocks of 32: [23]\.\d+ %")).wait_for()
    fits(page)
    parts.get_by_text("The paper's figures", exact=True).click()
    page.get_by_text(re.compile("Furthest from the paper")).wait_for()
    for key in ("figure_2", "figure_13_ShareGPT", "figure_13_Alpaca"):
        page.locator(f".st-key-{key} .bars .point").first.wait_for()
    fits(page)


@pytest.mark.parametrize(("lang", "scheme"), [("en", "light"), ("zh", "dark")])
def test_race_opens_with_a_recorded_race(open_page: OpenPage, lang: str, scheme: str) -> None:
    page = open_page(f"/race?lang={lang}", color_scheme=scheme)
    page.get_by_text("Recorded on" if lang == "en" else "录制于").first.wait_for()
    for name in ("mean", "speed", "first", "waited", "copied"):
        page.locator(f".st-key-race_{name} .bars .point").first.wait_for()
    page.locator(".st-key-race_time .main-svg").first.wait_for()
    assert page.get_by_test_id("stTable").locator("tbody tr").count() == 5
    assert page.locator(".st-key-race_mean .bars .point").count() == 5
    settle(page)
    fits(page)


@pytest.mark.parametrize(("lang", "texts"), [("en", "yes"), ("zh", "是")])
def test_a_small_race_for_real(open_page: OpenPage, lang: str, texts: str) -> None:
    page = open_page(f"/race?lang={lang}")
    page.locator(".st-key-race_start button").first.wait_for()
    for name, value in (("count", "4"), ("scale", "2"), ("max_len", "64"), ("megabytes", "6")):
        field = page.locator(f".st-key-race_{name} input")
        field.fill(value)
        field.press("Enter")
        settle(page)
    ticks = page.locator(".st-key-race_contenders")
    for place in (1, 2, 4):  # power of two, exact, doubling
        ticks.get_by_role("button").or_(ticks.get_by_role("checkbox")).nth(place).click()
        settle(page)
    page.locator(".st-key-race_start button").first.click()
    page.locator(".st-key-race_stop button").first.wait_for(timeout=MODEL_WAIT)
    page.locator(".st-key-race_start button").first.wait_for(timeout=MODEL_WAIT)
    page.get_by_text("Recorded on" if lang == "en" else "录制于").first.wait_for(state="detached")
    settle(page)
    cells = page.get_by_test_id("stTable").locator("tbody tr")
    assert cells.count() == 2
    assert [line.locator("td").last.inner_text() for line in cells.all()] == [texts, texts]
    page.locator(".st-key-race_mean .bars .point").first.wait_for()
    page.get_by_test_id("stExpandSidebarButton").click()
    place = 0 if lang == "en" else 1
    page.get_by_test_id("stSidebarNav").get_by_text(TITLES["capacity"][place], exact=True).click()
    page.locator(".formula").wait_for()
    page.get_by_test_id("stSidebarNav").get_by_text(TITLES["race"][place], exact=True).click()
    page.get_by_test_id("stTable").wait_for()
