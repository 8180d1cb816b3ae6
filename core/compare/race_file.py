"""A recorded race: what the race page opens with. Importing this imports no torch.

    python -m core record race        runs ``OPENING`` on the real model and writes RACE_FILE again

The file holds what was observed, step by step; steps, seconds, means, tokens and whether all texts are equal
are worked out from that when it is read, as they are in a live race. Seconds are those of the machine that
made it, which the file describes; who runs when, the waits, the copies and the texts are the same on any.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.compare import race_result
from core.compare.race_result import RaceResult
from core.compare.workload import KINDS, Drawn, draw
from core.trace import shape
from core.trace.shape import Wrong

if TYPE_CHECKING:
    from core.models.loaded import LoadedModel

RACE_FILE = Path(__file__).resolve().parents[2] / "assets" / "race" / "opening.json"
MAX_BYTES = 4 << 20
_FORMAT = "race"


class RaceFileError(ValueError):
    """A file that is no recorded race; one sentence says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RaceSetting:
    """A race as the page sets it. ``megabytes`` of keys and values; ``scale`` of the lengths, in per cent;
    ``rate``: arrivals a step (0: all at once)."""

    workload: str = "sharegpt"
    count: int = 10
    scale: int = 6
    rate: float = 0.0
    seed: int = 0
    system_tokens: int = 16
    megabytes: float = 15.0
    max_len: int = 128
    block_size: int = 16
    contenders: tuple[str, ...] = ("reserve max", "reserve power of two", "exact", "doubling", "paged")

    def drawn(self) -> list[Drawn]:
        """Lengths and arrivals of its requests."""
        return draw(KINDS[self.workload].scaled(self.scale / 100), self.count, self.rate, self.seed)


OPENING = RaceSetting()  # what the race page is set to when it opens, and what is recorded


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedRace:
    """``model``: name, dtype, device; ``machine``: cores, threads; ``facts``: as ``Race.facts``."""

    model: dict[str, Any]
    machine: dict[str, Any]
    setting: RaceSetting
    facts: dict[str, Any]
    results: list[RaceResult]


def record_race(model: LoadedModel, setting: RaceSetting = OPENING) -> RecordedRace:
    """Run the race for real, the contenders taking turns, so that other load on the machine hits all alike.

    Raises ValueError, one sentence, when the setting does not fit this model.
    """
    import torch

    from core.compare.race import Race, race_requests

    race = Race(
        model, race_requests(model, setting.drawn(), system_tokens=setting.system_tokens),
        kv_bytes=int(setting.megabytes * 1e6), max_model_len=setting.max_len, block_size=setting.block_size,
        contenders=setting.contenders,
    )  # fmt: skip
    results = race.run(in_turns=True)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return RecordedRace(
        model={"name": model.name, "dtype": model.geometry.dtype, "device": model.device},
        machine={"cores": cores, "threads": torch.get_num_threads(), "processor": platform.machine()},
        setting=setting,
        facts=race.facts,
        results=results,
    )


def save_race(found: RecordedRace, path: Path) -> None:
    """Write it as JSON; a tenth of a millisecond is as fine as a step's end is kept."""
    data = {
        "format": _FORMAT, "version": 1, "model": found.model, "machine": found.machine,
        "setting": asdict(found.setting), "facts": found.facts,
        "results": [_written(result) for result in found.results],
    }  # fmt: skip
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(data, separators=(",", ":")) + "\n", encoding="utf-8")


def load_race(path: Path) -> RecordedRace:
    """Read one, each value checked. Raises RaceFileError, one sentence."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise RaceFileError(f"{path.name} is larger than {MAX_BYTES >> 20} MiB, the limit for a race.")
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise RaceFileError(f"The recorded race cannot be read: {error.strerror or error}.") from error
    except (ValueError, RecursionError) as error:
        if isinstance(error, RaceFileError):
            raise
        raise RaceFileError(f"{path.name} is damaged: it is no JSON in UTF-8.") from None
    try:
        return _read(data)
    except Wrong as wrong:
        where = f"{path.name}: {wrong.way}" if wrong.way else path.name
        raise RaceFileError(f"{where} {wrong.reason}; record the race again.") from None


def _written(result: RaceResult) -> dict[str, Any]:
    return {
        "strategy": result.strategy,
        "ends": [round(second, 4) for second, _ in result.timeline],
        "running": [running for _, running in result.timeline],
        "first_token": [round(second, 4) for second in result.first_token],
        "waited": result.waited,
        "copied_bytes": result.copied_bytes,
        "preempted": result.preempted,
        "stopped": result.stopped,
        "texts": result.texts,
    }


_COUNT = shape.integer(0, 1 << 40)
_SECONDS = shape.array(shape.number, 1 << 16)
_MODEL = {"name": shape.text(), "dtype": shape.text(32), "device": shape.text(64)}
_MACHINE = {"cores": shape.integer(1), "threads": shape.integer(1), "processor": shape.text(64)}
_FACTS = {
    "requests": shape.integer(1), "slots": shape.integer(1), "max_len": shape.integer(1),
    "bytes": shape.integer(1, 1 << 40), "prompt": shape.number, "new": shape.number,
}  # fmt: skip
_SETTING = {
    "workload": shape.one_of(*KINDS), "count": shape.integer(1, 4096), "scale": shape.integer(1, 100),
    "rate": shape.number, "seed": shape.integer(), "system_tokens": shape.integer(0, 4096),
    "megabytes": shape.number, "max_len": shape.integer(1), "block_size": shape.integer(1, 4096),
    "contenders": shape.array(shape.text(64), 16),
}  # fmt: skip
_RESULT = {
    "strategy": shape.text(64), "ends": _SECONDS, "running": shape.integers(0, 4096),
    "first_token": _SECONDS, "waited": _COUNT, "copied_bytes": _COUNT, "preempted": _COUNT,
    "stopped": shape.an_object, "texts": shape.an_object,
}  # fmt: skip


def _read(data: Any) -> RecordedRace:
    def inside(checks: shape.Checks) -> shape.Check:
        return lambda value: shape.keys(value, checks)

    found = shape.keys(
        data,
        {
            "format": shape.one_of(_FORMAT), "version": shape.integer(1, 1), "model": inside(_MODEL),
            "machine": inside(_MACHINE), "setting": inside(_SETTING), "facts": inside(_FACTS),
            "results": shape.array(_result, 16),
        },
    )  # fmt: skip
    setting = RaceSetting(**found["setting"])
    results: list[RaceResult] = list(found["results"])
    if tuple(result.strategy for result in results) != setting.contenders:
        raise Wrong("has results of other strategies than those of its setting")
    race_result.compare_texts(results)
    return RecordedRace(
        model=found["model"], machine=found["machine"], setting=setting, facts=found["facts"],
        results=results,
    )  # fmt: skip


def _result(value: Any) -> RaceResult:
    found = shape.keys(value, _RESULT)
    ends: Sequence[float] = found["ends"]
    running: Sequence[int] = found["running"]
    if not ends or len(ends) != len(running):
        raise Wrong(f"has {len(ends)} ends of steps and {len(running)} numbers of requests")
    took = [after - before for before, after in pairwise((0.0, *ends))]
    if min(took) < 0 or not ends[-1] > 0:
        raise Wrong("has steps that end before they begin")
    ids = shape.integers()
    texts = {shape.text()(name): ids(tokens) for name, tokens in found["texts"].items()}
    return RaceResult(
        strategy=found["strategy"], seconds=ends[-1], steps=len(ends), peak=max(running),
        generated=sum(map(len, texts.values())),
        mean=sum(s * n for s, n in zip(took, running, strict=True)) / ends[-1],
        first_token=list(found["first_token"]), waited=found["waited"], copied_bytes=found["copied_bytes"],
        preempted=found["preempted"],
        stopped={shape.text()(name): shape.text()(why) for name, why in found["stopped"].items()},
        texts=texts, timeline=list(zip(ends, running, strict=True)), complete=True,
    )  # fmt: skip
