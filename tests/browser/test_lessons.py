"""The lessons in a real Chromium: by address, gate, answer, reveal, language, keys only, own prompt."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from pages.parts.lessons import LESSON_IDS, lesson
from pages.parts.words import t
from tests.browser.conftest import MODEL_WAIT, VIEWPORT, WAIT, serve

pytestmark = pytest.mark.browser
PICTURE = ".stage[data-step], .sheet[data-step]"


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One server for all lessons."""
    yield from serve(tmp_path_factory.mktemp("lessons") / "log.txt")


class Tab:
    """A browser tab and its complaints. That Streamlit looks for its base path is none."""

    def __init__(self, chromium: Any, address: str) -> None:
        self.address = address
        self.context = chromium.new_context(viewport=VIEWPORT, locale="en-US")
        self.context.set_default_timeout(WAIT)
        self.page = self.context.new_page()
        self.complaints: list[str] = []
        self.page.on("console", self._heard)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def _heard(self, message: Any) -> None:
        if message.type == "error" and "/_stcore/" not in message.location.get("url", ""):
            self.complaints.append(message.text)

    def open(self, name: str, lang: str, step: int = 1) -> None:
        self.page.goto(f"{self.address}/lesson?lesson={name}&step={step}&lang={lang}")
        self.page.locator(PICTURE).first.wait_for()

    def at(self, stop: int) -> None:
        """Wait until the address bar names this stop."""
        self.page.wait_for_function(f"new URL(location.href).searchParams.get('step') === '{stop}'")
        self.page.wait_for_timeout(120)

    def say(self) -> str:
        return self.page.locator(".say").inner_text()

    def asking(self) -> bool:
        return bool(self.page.locator(".say.asking").count())

    def press(self, key: str) -> None:
        self.page.keyboard.press(key)

    def fits(self) -> None:
        """Nothing lies outside the window, and no part of the sentence is cut off."""
        main = self.page.get_by_test_id("stMain")
        tall, room = main.evaluate("m => [m.scrollHeight, m.clientHeight]")
        assert tall <= room + 1, f"{tall - room} px lie below the window"
        wide = self.page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
        assert wide <= 0
        cut = self.page.locator(".say").evaluate("n => n.scrollHeight - n.clientHeight")
        assert cut <= 1, "the sentence is cut off"

    def close(self) -> None:
        self.context.close()
        assert not self.complaints


@pytest.fixture
def tab(chromium: Any, app: str) -> Iterator[Tab]:
    opened = Tab(chromium, app)
    yield opened
    opened.close()


@pytest.mark.parametrize("lang", ("zh", "en"))
@pytest.mark.parametrize("name", LESSON_IDS)
def test_a_lesson_from_its_address_to_its_questions_with_keys_only(tab: Tab, name: str, lang: str) -> None:
    one = lesson(name)
    tab.open(name, lang)
    answered = 0
    for number, stop in enumerate(one.stops, start=1):
        tab.at(number)
        tab.fits()
        if tab.asking():
            assert stop.gate is not None
            answered += answer_by_key(tab)
            tab.page.locator(".told.truth").wait_for()
            tab.fits()
        assert one.head(stop, lang) in tab.say()
        tab.press("PageDown")
    tab.at(len(one.stops) + 1)
    tab.page.locator(".st-key-quiz_back").wait_for()
    tab.page.get_by_test_id("stRadio").nth(len(one.questions) - 1).wait_for()
    assert tab.page.get_by_test_id("stRadio").count() == len(one.questions)
    assert answered == sum(stop.gate is not None for stop in one.stops), "a gate was not asked"


def answer_by_key(tab: Tab) -> int:
    """A digit for a choice; Tab to a block and Enter for a block."""
    if tab.page.locator(".gate .option").count():
        tab.press("1")
    else:
        tab.page.locator(".right .card[data-b], .sheet [data-b]").first.focus()
        tab.press("Enter")
    return 1


def test_the_gate_shows_nothing_before_and_both_after(tab: Tab) -> None:
    tab.open("copy-on-write", "zh", step=2)
    assert tab.asking() and "复制几次" in tab.say()
    assert tab.page.locator(".stage").get_attribute("data-step") == "0"
    assert not tab.page.locator(".stage .link.copy:visible").count()
    tab.page.locator(".gate .option").filter(has_text="3").click()
    tab.page.locator(".told.truth").wait_for()
    assert "你的预测：3" in tab.say() and "答案：2" in tab.say() and "写时复制" in tab.say()
    assert tab.page.locator(".stage").get_attribute("data-step") == "1"


@pytest.mark.parametrize("lang", ("zh", "en"))
@pytest.mark.parametrize(("name", "step"), [("copy-on-write", 3), ("paged-attention", 5), ("holes", 3)])
def test_step_on_an_open_question_tells_its_answer_first(tab: Tab, name: str, step: int, lang: str) -> None:
    """A choice, a block on the map, a question before a drawing: by key, then the next key goes on."""
    tab.open(name, lang, step=step)
    assert tab.asking()
    caps = tab.page.locator(".gate .option .cap").all_inner_texts()
    assert caps == [str(k + 1) for k in range(tab.page.locator(".gate .option").count())]
    tab.press("ArrowRight")
    tab.page.locator(".told.truth").wait_for()
    assert tab.page.locator(".told.you").inner_text() == t("stage.unanswered", lang)
    tab.at(step)
    tab.fits()
    tab.press("ArrowRight")
    tab.at(step + 1)
    tab.press("ArrowLeft")
    tab.at(step)
    assert tab.page.locator(".told.truth").count(), "it stays told"


def test_a_change_of_recording_is_said(tab: Tab) -> None:
    tab.open("copy-on-write", "en", step=4)
    assert tab.page.locator(".stage .at").inner_text() == "run 2 of 3 · step 1 / 5"
    tab.press("PageDown")
    tab.at(5)
    assert tab.page.locator(".stage .at").inner_text().startswith("run 3 of 3 · step 0")


@pytest.mark.parametrize("name", ("paged-attention", "prefix-reuse", "running-dry", "beam-search"))
def test_lecture_mode_draws_larger_and_nothing_is_cut(tab: Tab, name: str) -> None:
    tab.open(name, "zh")
    slot = tab.page.locator(".left .slot").first
    small = slot.evaluate("n => n.offsetHeight")
    tab.page.locator(".st-key-show button").first.click()
    tab.page.locator(".st-key-set_lecture label").first.click()
    tab.page.locator(".stage.lecture").wait_for()
    tab.press("Escape")
    if name == "paged-attention":
        assert slot.evaluate("n => n.offsetHeight") > 1.2 * small
    for number in range(1, len(lesson(name).stops) + 1):
        tab.at(number)
        tab.fits()
        for side in (".rows", ".pool"):
            over = tab.page.locator(side).evaluate("n => n.scrollHeight - n.clientHeight")
            assert over <= 1, f"{over} px of {side} are cut off at point {number}"
        if tab.asking():
            tab.press("PageDown")
            tab.page.locator(".told.truth").wait_for()
        tab.press("PageDown")


# Points of all links that lie in a text of the picture (the letters' boxes, not the lines' boxes).
STRUCK = """stage => {
  const texts = [];
  for (const node of stage.querySelectorAll(".sides *")) {
    if (node.closest(".links, .heard") || !node.offsetParent) continue;
    const own = [...node.childNodes].filter((one) => one.nodeType === Node.TEXT_NODE && one.data.trim());
    for (const text of own) {
      const range = document.createRange();
      range.selectNodeContents(text);
      const { left, right, top, height } = range.getBoundingClientRect();
      if (right > left) texts.push([text.data, left, right, top + height * 0.25, top + height * 0.75]);
    }
  }
  const struck = [];
  const paths = [...stage.querySelectorAll(".links path.link")];
  for (const path of paths) {
    const to = path.getScreenCTM();
    const inside = (x, y) => ([, left, right, top, end]) => x > left && x < right && y > top && y < end;
    for (let at = 0; at < path.getTotalLength(); at += 2) {
      const { x, y } = path.getPointAtLength(at).matrixTransform(to);
      const hit = texts.find(inside(x, y));
      if (hit) struck.push(hit[0]);
    }
  }
  return [paths.length, [...new Set(struck)]];
}"""


@pytest.mark.parametrize(
    ("name", "step"), [("copy-on-write", 2), ("copy-on-write", 6), ("many-answers", 2), ("prefix-reuse", 5)]
)
def test_no_link_strikes_out_a_text(tab: Tab, name: str, step: int) -> None:
    tab.open(name, "en", step=step)
    assert tab.asking() and tab.page.locator(".stage").evaluate(STRUCK)[0] == 0  # a question shouts nothing
    answer_by_key(tab)
    tab.page.locator(".told.truth").wait_for()
    tab.page.locator(".stage .links path.link").first.wait_for(state="attached")
    links, struck = tab.page.locator(".stage").evaluate(STRUCK)
    assert links and struck == []


def test_a_block_is_predicted_on_the_map(tab: Tab) -> None:
    tab.open("paged-attention", "en", step=5)
    assert tab.asking()
    tab.page.locator(".right .card[data-b='7']").click()
    tab.page.locator(".told.truth").wait_for()
    assert "You said: 7" in tab.say() and "Answer: 6" in tab.say()
    assert "Just as good" in tab.say()


def test_the_language_is_switched_in_the_middle(tab: Tab) -> None:
    tab.open("many-answers", "zh", step=3)
    assert "一样的请求" in tab.say()
    tab.page.locator(".st-key-language_switch").get_by_text("EN").click()
    tab.page.locator(".say").get_by_text("Same requests, another bill.").wait_for()
    tab.page.wait_for_function("new URL(location.href).searchParams.get('lang') === 'en'")
    place = {name: values[0] for name, values in parse_qs(urlsplit(tab.page.url).query).items()}
    assert place == {"lesson": "many-answers", "step": "3", "lang": "en"}
    tab.press("PageUp")
    tab.at(2)


def test_gates_switched_off_and_event_by_event(tab: Tab) -> None:
    tab.open("copy-on-write", "en")
    tab.page.locator(".st-key-show button").first.click()
    tab.page.locator(".st-key-gates_switch label").click()
    tab.page.get_by_text("One event", exact=True).click()
    tab.page.wait_for_timeout(400)
    tab.press("Escape")
    tab.page.mouse.click(300, 700)
    tab.press("PageDown")
    tab.page.locator(".say").get_by_text("Event 1 of").wait_for()
    assert tab.page.locator("[data-pointed]").count() or "handed in" in tab.say() or "arrives" in tab.say()


def test_the_questions_are_answered_and_explained(tab: Tab) -> None:
    tab.page.goto(f"{tab.address}/lesson?lesson=copy-on-write&step=7&lang=zh")
    tab.page.locator(".st-key-quiz_back").wait_for()
    tab.page.locator(".st-key-quiz_keys i").wait_for(state="attached")
    tab.at(7)
    tab.press("2")
    tab.page.get_by_text("就地写").first.wait_for()
    tab.press("PageDown")
    tab.page.get_by_text("没有作答").first.wait_for()
    tab.press("2")
    tab.page.get_by_text("对了").nth(1).wait_for()
    tab.press("PageDown")
    tab.page.get_by_text(t("lesson.many-answers.title", "zh")).first.wait_for()
    tab.at(1)


def test_the_course_page_leads_to_every_lesson(tab: Tab) -> None:
    tab.page.goto(f"{tab.address}/course?lang=zh")
    for name in LESSON_IDS:
        tab.page.locator(f".st-key-open_{name}").wait_for()
    tab.page.locator(".st-key-open_beam-search button").click()
    tab.page.locator(".say").get_by_text("一个前缀").wait_for()


def test_a_log_line_leads_to_its_step(tab: Tab) -> None:
    tab.open("copy-on-write", "en")
    tab.page.locator(".st-key-log button").click()
    tab.page.get_by_test_id("stDialog").get_by_text("What differs").wait_for()
    tab.page.get_by_test_id("stDialog").get_by_test_id("stDataFrame").wait_for()


@pytest.mark.parametrize("lang", ("zh", "en"))
def test_own_prompt_under_another_block_size(tab: Tab, lang: str) -> None:
    """The stops, the questions and the captions hold for a run that is made while one looks."""
    tab.open("copy-on-write", lang)
    page = tab.page
    page.locator(".st-key-own button").first.click()
    page.locator(".st-key-own_prompts textarea").fill("The cat sat on the mat and then it")
    page.locator(".st-key-own_prompts textarea").press("Control+Enter")
    page.locator(".st-key-own_size input").fill("5")
    page.locator(".st-key-own_size input").press("Enter")
    page.wait_for_timeout(600)
    page.locator(".st-key-own_start button").click()
    page.locator(".stage .mode[data-mode=live]").wait_for(timeout=MODEL_WAIT)
    page.locator(".stage:not(.busy)").wait_for(timeout=MODEL_WAIT)
    page.locator(".st-key-own_prompts").wait_for(state="detached")  # the panel has closed by itself
    assert t("lesson.copy-on-write.half.head", lang) in tab.say()
    tab.press("PageDown")
    page.locator(".say.asking").wait_for(timeout=MODEL_WAIT)
    assert page.locator(".stage").get_attribute("data-step") == "0"
    tab.press("2")
    page.locator(".told.truth").wait_for(timeout=MODEL_WAIT)
    assert t("lesson.copy-on-write.copy.head", lang) in tab.say()
    assert page.locator(".stage").get_attribute("data-step") == "1"
    page.locator(".st-key-point_3 button:disabled").locator("visible=true").first.hover(force=True)
    page.get_by_text(t("lessons.point.not_yet", lang)).wait_for()
    page.locator(".st-key-point_6 button").click()
    page.get_by_text("5 个槽位" if lang == "zh" else "A block has 5 slots").or_(
        page.get_by_text("块大小 5")
    ).first.wait_for()
