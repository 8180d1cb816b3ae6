"""Screenshots of every lesson and page, in both languages, light and dark, to be looked at one by one.

Starts the app, drives a headless Chromium at 1366 x 768 and walks every lesson to its questions with the keys
that a clicker sends. Where a lesson asks, there are two pictures: the question, and prediction and truth. A
picture in which something lies outside the window is reported, and the command then ends with 1.
"""

from __future__ import annotations

import argparse
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from core.bench import BenchResult
from core.cli.errors import CommandError

ROOT = Path(__file__).resolve().parents[2]
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run")
WINDOW = {"width": 1366, "height": 768}
MOST_STOPS = 40
SETTLE_MS = 4000  # charts come after the first line, and not all pages have the same parts
SHOWN = ", ".join(
    (
        ".stage[data-step]",
        ".sheet[data-step]",
        ".st-key-quiz_back",
        "[class*=st-key-path_]",
        "[data-testid=stPlotlyChart]",
    )
)
# What lies outside the window or is cut off inside the picture's own sentence.
OUTSIDE = """() => {
  const bad = [];
  const main = document.querySelector("[data-testid=stMain]");
  const [down, right] = [main.scrollHeight - main.clientHeight, main.scrollWidth - main.clientWidth];
  if (down > 1) bad.push(`${down} px below`);
  if (right > 1) bad.push(`${right} px to the right`);
  return bad.join(", ");
}"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Where the pictures go, and which."""
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="the pictures' folder")
    parser.add_argument("--pages", nargs="*", metavar="NAME", help="lessons or addresses (default: all)")
    parser.add_argument("--lang", nargs="*", default=["zh", "en"], choices=["zh", "en"])
    parser.add_argument("--theme", nargs="*", default=["light", "dark"], choices=["light", "dark"])
    parser.add_argument("--address", help="an app that runs already, such as http://127.0.0.1:8501")


def run(options: argparse.Namespace) -> BenchResult:
    """Take the pictures. Raises CommandError without a browser to drive, or if the app does not start."""
    options.out.mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, Any]] = []
    with _served(options.address) as address, _browser() as browser:
        for theme in options.theme:
            for lang in options.lang:
                context = browser.new_context(viewport=WINDOW, color_scheme=theme, locale="en-US")
                context.set_default_timeout(45_000)
                page = context.new_page()
                for name in options.pages or _pages(page, address, lang):
                    rows += list(_walk(page, address, name, lang, theme, options.out))
                context.close()
    outside = [row for row in rows if row["outside"]]
    return BenchResult(
        name="shots",
        title="Screenshots, 1366 x 768",
        rows=rows,
        columns=("page", "lang", "theme", "file", "outside"),
        verdict=f"{len(rows)} pictures in {options.out}; {len(outside)} with something outside the window",
        ok=not outside,
    )


def _pages(page: Any, address: str, lang: str) -> list[str]:
    """The app's other pages and every lesson, in the order of the course page."""
    page.goto(f"{address}/course?lang={lang}")
    page.locator("[class*=st-key-path_]").first.wait_for()
    classes = page.locator("[class*=st-key-path_]").evaluate_all("nodes => nodes.map(n => n.className)")
    mark = "st-key-path_"
    lessons = [part.removeprefix(mark) for text in classes for part in text.split() if part.startswith(mark)]
    links = page.locator("[data-testid=stSidebarNavLink]").evaluate_all("nodes => nodes.map(n => n.pathname)")
    pages = [path for path in dict.fromkeys(["/", "/course", *links]) if path != "/lesson"]
    # The course lists pages, too; "sharing" is the name of both a page and a lesson.
    return pages + [n for n in lessons if f"/{n}" not in pages or _is_lesson(page, address, n, lang)]


def _is_lesson(page: Any, address: str, name: str, lang: str) -> bool:
    """Whether the lesson page opens that lesson: of a name that it does not know it opens the first one, and
    says so in its address."""
    page.goto(f"{address}/lesson?lesson={name}&step=1&lang={lang}")
    page.locator(SHOWN).first.wait_for()
    page.wait_for_timeout(1000)
    return bool(page.evaluate("new URL(location.href).searchParams.get('lesson')") == name)


def _walk(page: Any, address: str, name: str, lang: str, theme: str, out: Path) -> Iterator[dict[str, Any]]:
    """One page, or one lesson from its first stop to its questions."""

    def shot(part: str) -> dict[str, Any]:
        page.wait_for_timeout(500)
        label = name.strip("/") or "main"
        file = f"{label}.{part}.{lang}.{theme}.png" if part else f"{label}.{lang}.{theme}.png"
        page.screenshot(path=out / file)
        return {"page": name, "lang": lang, "theme": theme, "file": file, "outside": page.evaluate(OUTSIDE)}

    if name.startswith("/"):
        page.goto(f"{address}{name}?lang={lang}")
        page.locator(".st-key-top_line, [class*=st-key-path_]").first.wait_for()
        page.wait_for_timeout(SETTLE_MS)
        yield shot("")
        return
    page.goto(f"{address}/lesson?lesson={name}&step=1&lang={lang}")
    for stop in range(1, MOST_STOPS):
        page.locator(SHOWN).first.wait_for()
        yield shot(f"{stop}")
        if page.locator(".st-key-quiz_back").count():
            return
        if page.locator(".say.asking").count():
            _answer(page)
            yield shot(f"{stop}b")
        page.keyboard.press("PageDown")
        page.wait_for_function(f"new URL(location.href).searchParams.get('step') !== '{stop}'")


def _answer(page: Any) -> None:
    """Give the first answer that there is."""
    option = page.locator(".gate .option")
    (option.first if option.count() else page.locator("[data-b]:visible").last).click()
    page.locator(".told.truth").wait_for()


@contextmanager
def _browser() -> Iterator[Any]:
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        raise CommandError("shots drives a browser with playwright; pip install playwright.") from None
    path = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if path is None:
        raise CommandError(f"there is no browser to drive; install one of {', '.join(BROWSERS)}.")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=list(FLAGS))
        yield browser
        browser.close()


@contextmanager
def _served(address: str | None) -> Iterator[str]:
    """The address of the app; it is started, and ended, unless one is given."""
    if address:
        yield address.rstrip("/")
        return
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "streamlit", "run", "app.py", f"--server.port={port}"]
    command += ["--server.address=127.0.0.1", "--server.headless=true"]
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(command, cwd=ROOT, stdout=quiet, stderr=quiet, env=dict(os.environ))
    try:
        here = f"http://127.0.0.1:{port}"
        _wait(process, here)
        yield here
    finally:
        process.terminate()
        process.wait(20)


def _wait(process: subprocess.Popen[bytes], address: str) -> None:
    until = time.monotonic() + 60
    while time.monotonic() < until and process.poll() is None:
        try:
            with urllib.request.urlopen(f"{address}/_stcore/health", timeout=1):
                return
        except OSError:
            time.sleep(0.1)
    raise CommandError("the app did not start within a minute; python -m streamlit run app.py says why.")
