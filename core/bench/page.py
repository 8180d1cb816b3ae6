"""The page in a real Chromium: from a click to the new block map, and from navigation to a lesson.

A recorded run of 16 sequences on 256 blocks is shown by the app's own server, in which torch and a model are
loaded: everything is in but the forward pass. Times are taken inside the page by its own clock, from the
click (a real mouse click) to the change of the stage's DOM, and to the last change of any DOM after it.
"""

from __future__ import annotations

import argparse
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from core.bench import BenchResult
from core.config import EngineConfig, Sampling

ROOT = Path(__file__).resolve().parents[2]
LESSON = "bench-page"
TARGETS = {"click_ms": 60.0, "click_p95_ms": 120.0, "settled_ms": 200.0, "first_ms": 2000.0}
SEQUENCES, BLOCKS, STEPS = 16, 256, 40
PLACES = ("China", "India", "Egypt", "Peru", "Japan", "Kenya", "Italy", "Greece")
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
)
QUIET_MS = 350  # so long without any change of the DOM: settled

# Watches the page and every shadow root in it. ``stage`` is set as soon as there is one.
WATCH = """
() => {
  const seen = (window.bench = { last: 0, stepAt: 0, step: null });
  const roots = new Set();
  const note = () => {
    seen.last = performance.now();
    look(document);
  };
  const look = (root) => {
    if (!roots.has(root)) {
      roots.add(root);
      new MutationObserver(note).observe(root, {
        subtree: true, childList: true, attributes: true, characterData: true });
    }
    for (const node of root.querySelectorAll("*")) if (node.shadowRoot) look(node.shadowRoot);
    const stage = root.querySelector(".stage[data-step]");
    if (stage && stage.dataset.step !== seen.step) {
      seen.step = stage.dataset.step;
      seen.stepAt = performance.now();
    }
  };
  addEventListener("click", (event) => (seen.clickAt = event.timeStamp), true);
  note();
}
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``python -m core bench page``."""
    parser.add_argument("--clicks", type=int, default=30, help="steps that are clicked (default 30)")
    parser.add_argument(
        "--starts", type=int, default=3, help="servers started to time the first page (default 3)"
    )


def run(args: argparse.Namespace) -> BenchResult:
    """Measure; raises RuntimeError with a sentence where there is no Chromium or no playwright."""
    path = chromium_path()
    with tempfile.TemporaryDirectory() as folder:
        record(Path(folder) / f"{LESSON}.kvtrace.json.gz")
        with browser(path) as chromium:
            first = [first_page(chromium, folder) for _ in range(args.starts)]
            with server(folder) as address:
                clicks, settled = stepping(chromium, address, args.clicks)
    return result(clicks, settled, first)


def chromium_path() -> str:
    """The Chromium to drive. Raises RuntimeError when there is none."""
    names = ("chromium", "chromium-browser", "google-chrome")
    path = next((found for name in names if (found := shutil.which(name))), None)
    if path is None:
        raise RuntimeError(f"No Chromium on the PATH (looked for {', '.join(names)}); install one.")
    return path


def record(path: Path) -> None:
    """A trace file: 16 sequences of the default model on 256 blocks, two contiguous strategies beside."""
    from core.engine.engine import Engine
    from core.models import DEFAULT_MODEL, load
    from core.trace import save

    strategies = ("reserve max", "doubling")
    config = EngineConfig(num_blocks=BLOCKS, block_size=4, max_model_len=64, strategies=strategies)
    engine = Engine(load(DEFAULT_MODEL), config)
    for i in range(SEQUENCES):
        engine.submit(
            f"Write {i} lines about the history of {PLACES[i % len(PLACES)]}:",
            max_new_tokens=STEPS,
            ignore_eos=True,
            sampling=Sampling(temperature=0.8, seed=i),
        )
    while engine.has_work:
        engine.step()
    save(engine.trace, path)
    engine.close()


@contextmanager
def browser(path: str) -> Iterator[Any]:
    """A headless Chromium. Raises RuntimeError where playwright is not installed."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError as error:
        raise RuntimeError("playwright is not installed: pip install -r requirements-dev.txt.") from error
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, headless=True, args=list(FLAGS))
        yield chromium
        chromium.close()


@contextmanager
def server(lessons: str) -> Iterator[str]:
    """The app on a free port, with the recorded run among its lessons; gives its address."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    command = [sys.executable, "-m", "streamlit", "run", "app.py", f"--server.port={port}"]
    command += ["--server.address=127.0.0.1", "--server.headless=true"]
    environment = os.environ | {"PAGED_KV_LESSONS": lessons}
    process = subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        address = f"http://127.0.0.1:{port}"
        wait_for(address, process)
        yield address
    finally:
        process.terminate()
        process.wait(30)


def wait_for(address: str, process: subprocess.Popen[bytes]) -> None:
    """Until the server answers. Raises RuntimeError when it ends or takes more than two minutes."""
    until = time.monotonic() + 120
    while time.monotonic() < until and process.poll() is None:
        try:
            with urllib.request.urlopen(f"{address}/_stcore/health", timeout=1):
                return
        except OSError:
            time.sleep(0.05)
    raise RuntimeError("The app's server did not start; run `streamlit run app.py` to see why.")


def open_page(chromium: Any, address: str) -> Any:
    """A page of 1366 x 768 at the start of the recorded run, watched from its first moment."""
    context = chromium.new_context(locale="en-US", viewport={"width": 1366, "height": 768})
    page = context.new_page()
    page.add_init_script(f"addEventListener('DOMContentLoaded', {WATCH})")
    page.goto(f"{address}/?lesson={LESSON}&lang=en", wait_until="commit")
    page.locator(".stage[data-step='0']").wait_for(timeout=120_000)
    return page


def first_page(chromium: Any, lessons: str) -> float:
    """Milliseconds from navigation to a complete lesson, on a server that has just started."""
    with server(lessons) as address:
        page = open_page(chromium, address)
        shown = page.evaluate("bench.stepAt")
        page.context.close()
    return float(shown)


def stepping(chromium: Any, address: str, clicks: int) -> tuple[list[float], list[float]]:
    """Milliseconds from each click to the new block map, and to the page at rest, once the model is in."""
    page = open_page(chromium, address)
    page.locator(".st-key-model_status").get_by_text("Model ready").wait_for(timeout=600_000)
    page.wait_for_timeout(1000)
    step = page.locator(".stage").get_by_role("button", name="Step", exact=True)
    changed, settled = [], []
    for number in range(1, clicks + 1):
        step.click()
        page.locator(f".stage[data-step='{number}']").wait_for(timeout=60_000)
        page.wait_for_function(f"performance.now() - bench.last > {QUIET_MS}")
        click, step_at, last = page.evaluate("[bench.clickAt, bench.stepAt, bench.last]")
        changed.append(step_at - click)
        settled.append(last - click)
    page.context.close()
    return changed, settled


def result(clicks: list[float], settled: list[float], first: list[float]) -> BenchResult:
    """The figures beside their targets."""
    p95 = statistics.quantiles(clicks, n=20, method="inclusive")[-1] if len(clicks) > 1 else clicks[0]
    figures = {
        "click_ms": ("click to new block map, median", statistics.median(clicks)),
        "click_p95_ms": ("click to new block map, 95th percentile", p95),
        "settled_ms": ("click to page settled, median", statistics.median(settled)),
        "first_ms": ("navigation to a recorded lesson, fresh server, median", statistics.median(first)),
    }
    rows = [
        {"what": what, "ms": round(value, 1), "at most": TARGETS[name], "met": value <= TARGETS[name]}
        for name, (what, value) in figures.items()
    ]
    missed = [str(row["what"]) for row in rows if not row["met"]]
    verdict = f"not met: {'; '.join(missed)}" if missed else "all four targets are met"
    return BenchResult(
        name="page",
        title=f"The page in Chromium: {BLOCKS} blocks, {SEQUENCES} sequences, {len(clicks)} clicks",
        rows=rows,
        columns=("what", "ms", "at most", "met"),
        verdict=verdict,
        ok=not missed,
        notes=[f"first pages: {', '.join(f'{ms:,.0f}' for ms in first)} ms"],
    )
