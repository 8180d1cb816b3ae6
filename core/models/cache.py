"""The folder where models lie: one writer at a time, and what is there is whole.

<home>/downloads/<sha256>.whl[.partial]   wheels on their way; removed once the model is converted
<home>/models/<name>/                     converted models; source.json says from what, and lists the files
<home>/building/<name>-*/                 work of the process that holds the lock; left-overs are removed
<home>/locks/<name>.lock
"""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import filelock
import platformdirs

from core.models.errors import FetchError

Progress = Callable[[str, int, int], None]
"""``progress(stage, done, total)``; stages: wait, resolve, download, unpack, convert, check, load.

``download`` and ``unpack`` count bytes, the others steps; ``total`` 0: not known.
"""

HOME_VARIABLE = "PAGED_KV_HOME"
RECORD = "source.json"


def home() -> Path:
    """The cache folder: what PAGED_KV_HOME says in the environment, else the system's place for caches."""
    chosen = os.environ.get(HOME_VARIABLE)
    return Path(chosen).expanduser() if chosen else platformdirs.user_cache_path("paged-kv-classroom")


def silent(stage: str, done: int, total: int) -> None:
    """The progress callback that does nothing."""


@contextmanager
def writer(name: str, progress: Progress) -> Iterator[None]:
    """Be the only process and thread that writes the model ``name``. The lock dies with its process."""
    with storage_sentences():
        folder = home() / "locks"
        folder.mkdir(parents=True, exist_ok=True)
        lock = filelock.FileLock(folder / f"{name}.lock", thread_local=False)
        try:
            lock.acquire(timeout=0)
        except filelock.Timeout:
            progress("wait", 0, 0)
            lock.acquire(poll_interval=0.2)
    try:
        yield
    finally:
        lock.release()


@contextmanager
def storage_sentences() -> Iterator[None]:
    """Turn what a file system can refuse into one sentence."""
    try:
        yield
    except OSError as error:
        where = error.filename or home()
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            reason = "the disk is full"
        elif error.errno in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST):
            reason = f"it cannot be written ({error.strerror})"
        else:
            raise
        raise FetchError(
            f"the model cannot be kept at {where}: {reason}; make room there or set {HOME_VARIABLE} to "
            f"another folder."
        ) from error


def need_space(num_bytes: int, what: str) -> None:
    """FetchError with both numbers if the cache's disk has fewer than ``num_bytes`` free."""
    with storage_sentences():
        home().mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(home()).free
    if free < num_bytes:
        raise FetchError(
            f"{what} needs {num_bytes / 1e6:,.0f} MB free at {home()} and there are {free / 1e6:,.0f} MB; "
            f"make room or set {HOME_VARIABLE} to a folder on another disk."
        )


def work_folder(name: str) -> Path:
    """A fresh folder to build the model in; call it under `writer`. Left-overs of killed builds go."""
    building = home() / "building"
    for old in building.glob(f"{name}-*"):
        shutil.rmtree(old, ignore_errors=True)
    folder = building / f"{name}-{os.getpid()}"
    folder.mkdir(parents=True)
    return folder


def publish(folder: Path, name: str, record: dict[str, Any]) -> Path:
    """Make a finished folder the model ``name``, at once and for good: written to disk, then renamed."""
    files = {p.name: p.stat().st_size for p in sorted(folder.iterdir())}
    (folder / RECORD).write_text(json.dumps({**record, "files": files}, indent=1))
    for path in folder.iterdir():
        path.chmod(0o644)  # a class may share the cache
        sync(path)
    target = home() / "models" / name
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.exists():  # damaged or of an older converter; a process that has it open keeps its files
        shutil.rmtree(target)
    folder.rename(target)
    return target


def published(name: str, record: dict[str, Any]) -> Path | None:
    """The folder of the model ``name``, if it is there, made as ``record`` says, each file whole."""
    folder = home() / "models" / name
    try:
        found = json.loads((folder / RECORD).read_text())
        sizes = {file: (folder / file).stat().st_size for file in found["files"]}
    except (OSError, ValueError, KeyError):
        return None
    return folder if found == {**record, "files": sizes} else None


def sync(path: Path) -> None:
    """Wait until the file's content is on the disk."""
    with path.open("rb+") as file:
        os.fsync(file.fileno())
