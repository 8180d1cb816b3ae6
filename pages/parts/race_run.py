"""A race in a thread of its own: asked for by a click, read by whoever draws. One races at a time."""

from __future__ import annotations

import logging
import tempfile
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import streamlit as st

from core.compare.race_file import OPENING
from core.compare.workload import KINDS, Drawn, draw, read_requests

if TYPE_CHECKING:
    from core.compare.race_result import Progress, RaceResult

_log = logging.getLogger("paged_kv")
# Names only: importing core.compare.race would import torch before the first picture.
CONTENDERS: Final = (
    "reserve max", "reserve power of two", "exact", "grow by one", "doubling", "promised pages",
    "paged without sharing", "paged",
)  # fmt: skip
MAX_TOKENS = 40_000  # prompts and answers of a race together, for each contender
Phase = Literal["idle", "queued", "running", "done", "stopped", "failed"]


@dataclass(slots=True)
class Choices:
    """The workload and the budget, as in ``RaceSetting``; a new tab has those of the recorded race."""

    source: str = "drawn"  # or "file"
    workload: str = OPENING.workload
    count: int = OPENING.count
    scale: int = OPENING.scale
    rate: float = OPENING.rate
    seed: int = OPENING.seed
    system_tokens: int = OPENING.system_tokens
    megabytes: float = OPENING.megabytes
    max_len: int = OPENING.max_len
    block_size: int = OPENING.block_size
    contenders: tuple[str, ...] = OPENING.contenders
    file: tuple[Drawn, ...] = ()
    file_name: str = ""


def requests_of(chosen: Choices) -> list[Drawn]:
    """The lengths and arrivals that the choices describe. Raises ValueError with a sentence."""
    if chosen.source == "file":
        if not chosen.file:
            raise ValueError("No workload file is open: choose a JSONL file, or draw the requests.")
        drawn = list(chosen.file)
    else:
        lengths = KINDS[chosen.workload].scaled(chosen.scale / 100)
        drawn = draw(lengths, chosen.count, chosen.rate, chosen.seed)
    tokens = sum(r.prompt + r.new for r in drawn) + chosen.system_tokens * len(drawn)
    if tokens > MAX_TOKENS:
        raise ValueError(
            f"These {len(drawn)} requests have {tokens:,} tokens together, and a race takes at most "
            f"{MAX_TOKENS:,}: take fewer or shorter ones."
        )
    return drawn


def read_upload(name: str, content: bytes, count_tokens: Callable[[str], int] | None) -> tuple[Drawn, ...]:
    """Requests from an uploaded JSONL file. Raises ValueError with a sentence that names the line."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "workload.jsonl"
        path.write_bytes(content)
        try:
            return tuple(read_requests(path, count_tokens))
        except UnicodeDecodeError:
            raise ValueError(f"{name} is not a text file in UTF-8.") from None
        except ValueError as error:
            raise ValueError(str(error).replace(str(path), name)) from None


@dataclass(eq=False)
class Runner:
    """One tab's race. The worker writes; a page reads ``phase``, ``progress`` and ``results`` at any time."""

    phase: Phase = "idle"
    sentence: str = ""
    progress: Progress | None = None
    results: list[RaceResult] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)  # of the race that ``results`` belong to
    _stop: threading.Event = field(default_factory=threading.Event)

    @property
    def busy(self) -> bool:
        """Whether there is something to wait for."""
        return self.phase in ("queued", "running")

    def start(self, model: Any, chosen: Choices, drawn: list[Drawn]) -> None:
        """Begin; does nothing while a race goes on. When the tab's state is dropped the race stops."""
        if self.busy:
            return
        self.phase, self.sentence, self.progress, self._stop = "queued", "", None, threading.Event()
        weakref.finalize(self, self._stop.set)
        job = _Job(model, drawn, chosen.system_tokens, int(chosen.megabytes * 1e6), chosen.max_len,
                   chosen.block_size, [name for name in CONTENDERS if name in chosen.contenders])  # fmt: skip
        threading.Thread(
            target=_work, args=(weakref.ref(self), job, self._stop), name="race", daemon=True
        ).start()

    def stop(self) -> None:
        """Ask the worker to stop after its step; what has been found stays."""
        self._stop.set()


@dataclass(frozen=True, slots=True)
class _Job:
    model: Any
    drawn: list[Drawn]
    system_tokens: int
    kv_bytes: int
    max_len: int
    block_size: int
    contenders: list[str]


@st.cache_resource(show_spinner=False)
def turn() -> threading.Lock:
    """Held by the race that runs: two at once would measure each other."""
    return threading.Lock()


def _work(runner: weakref.ref[Runner], job: _Job, stop: threading.Event) -> None:
    """The thread. Holds no reference to the runner but while it writes, so that a closed tab ends it."""

    def write(**values: Any) -> None:
        mine = runner()
        if mine is None:
            stop.set()
            return
        for name, value in values.items():
            setattr(mine, name, value)

    try:
        while not turn().acquire(timeout=0.2):
            if stop.is_set():
                write(phase="stopped")
                return
        try:
            _race(job, stop, write)
        finally:
            turn().release()
    except ValueError as error:
        write(phase="failed", sentence=str(error))
    except Exception as error:
        _log.exception("race")
        write(phase="failed", sentence=f"The race failed: {type(error).__name__}: {error}.")


def _race(job: _Job, stop: threading.Event, write: Callable[..., None]) -> None:
    from core.compare.race import Race, race_requests

    requests = race_requests(job.model, job.drawn, system_tokens=job.system_tokens)
    race = Race(
        job.model, requests, kv_bytes=job.kv_bytes, max_model_len=job.max_len, block_size=job.block_size,
        contenders=job.contenders,
    )  # fmt: skip
    write(phase="running", results=[], facts=race.facts)

    def told(progress: Progress) -> None:
        write(progress=progress, results=list(race.results))

    results = race.run(told, stop.is_set)
    write(results=list(results), phase="stopped" if stop.is_set() else "done")
