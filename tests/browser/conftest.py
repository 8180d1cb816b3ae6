"""A real Chromium in front of a real server. Skipped, with the reason, where there is no Chromium."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

ROOT = Path(__file__).resolve().parents[2]
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
VIEWPORT = {"width": 1366, "height": 768}
WAIT = 45_000  # milliseconds for anything that needs no model; a busy machine is slow
MODEL_WAIT = 240_000  # a first start fetches and converts the model


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A click that comes late on a busy machine is no fault of the page: two more tries."""
    for item in items:
        if item.get_closest_marker("browser"):
            item.add_marker(pytest.mark.flaky(reruns=2))


def free_port() -> int:
    """A port that nobody listens on just now."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def healthy(address: str) -> bool:
    """Whether the server answers."""
    try:
        with urllib.request.urlopen(f"{address}/_stcore/health", timeout=1) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def serve(log: Path, **environment: str) -> Iterator[str]:
    """Start the app as a user does, give its address, end it."""
    port = free_port()
    command = [sys.executable, "-m", "streamlit", "run", "app.py", f"--server.port={port}"]
    command += ["--server.address=127.0.0.1", "--server.headless=true"]
    with log.open("w") as out:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            stdout=out,
            stderr=subprocess.STDOUT,
            env=os.environ | {"OMP_NUM_THREADS": "1"} | environment,
        )
        try:
            address = f"http://127.0.0.1:{port}"
            until = time.monotonic() + 60
            while not healthy(address):
                if process.poll() is not None or time.monotonic() > until:
                    pytest.fail(f"the server did not start: {log.read_text()[-2000:]}")
                time.sleep(0.1)
            yield address
        finally:
            process.terminate()
            process.wait(20)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One server for the walk-through; the model comes from the user's own cache, or is fetched into it."""
    yield from serve(tmp_path_factory.mktemp("server") / "log.txt")


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """A headless Chromium, driven by playwright."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    names = ("chromium", "chromium-browser", "google-chrome")
    path = next((found for name in names if (found := shutil.which(name))), None)
    if path is None:
        pytest.skip(f"no Chromium on the PATH (looked for {', '.join(names)})")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, headless=True, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def open_page(chromium: Any, server: str) -> Iterator[Callable[..., Any]]:
    """``open_page(path, locale=, color_scheme=)``: a page with a context of its own.

    At the end of the test: nothing on any console, and no request to another host.
    """
    contexts, complaints = [], []

    def check_request(request: Any) -> None:
        if urlsplit(request.url).hostname not in ("127.0.0.1", "localhost", None):
            complaints.append(f"request to {request.url}")

    def check_console(message: Any) -> None:
        # At a deep link Streamlit first asks for its own addresses below the page's: a 404 by design.
        own = "/_stcore/" in message.location.get("url", "") and "404" in message.text
        if message.type == "error" and not own:
            complaints.append(f"console: {message.text} ({message.location.get('url', '')})")

    def open_(path: str = "/", *, locale: str = "en-US", color_scheme: str = "light") -> Any:
        context = chromium.new_context(locale=locale, color_scheme=color_scheme, viewport=VIEWPORT)
        context.set_default_timeout(WAIT)
        contexts.append(context)
        page = context.new_page()
        page.on("console", check_console)
        page.on("pageerror", lambda error: complaints.append(f"page error: {error}"))
        page.on("request", check_request)
        page.goto(server + path)
        return page

    yield open_
    for context in contexts:
        context.close()
    assert not complaints
