"""Models arrive in the background: one thread a model and process; a failure is a sentence."""

from __future__ import annotations

import gc
import logging
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import streamlit as st

from core.models.errors import FetchError, TermsNotAccepted

_log = logging.getLogger("paged_kv")
MAX_MODELS = 2  # kept in memory at once; the one asked for longest ago goes first
Progress = Callable[[str, int, int], None]  # stage, done, total (0: not known)


class Wanted(NamedTuple):
    """What identifies a loaded model."""

    name: str
    dtype: str = "float32"
    device: str = "cpu"


@dataclass(frozen=True, slots=True)
class Arrival:
    """How far a model has come. ``stage``, ``done``, ``total``: the loader's; ``sentence``: why it failed.

    "terms": it comes under terms of use that somebody has to accept first.
    """

    phase: Literal["absent", "loading", "ready", "failed", "terms"] = "absent"
    stage: str = "start"
    done: int = 0
    total: int = 0
    sentence: str = ""
    model: Any = None


def load_model(wanted: Wanted, progress: Progress, accept_terms: bool) -> Any:
    """Import torch, fetch, load, self-test; then keep the collector away from all of it.

    A collection of everything that torch and transformers bring takes a quarter of a second with the
    interpreter held; frozen objects are never looked at again.
    """
    from core.engine.prepare import prepare
    from core.models import load

    model = load(
        wanted.name, dtype=wanted.dtype, device=wanted.device, progress=progress, accept_terms=accept_terms
    )
    prepare(model)
    gc.collect()
    gc.freeze()
    return model


class ModelStore:
    """All models of the process. Thread-safe; asking twice for one model loads it once."""

    def __init__(self, loader: Callable[[Wanted, Progress, bool], Any] = load_model) -> None:
        self._loader = loader
        self._lock = threading.Lock()
        self._arrivals: dict[Wanted, Arrival] = {}

    def look(self, wanted: Wanted) -> Arrival:
        """How far this model is; starts nothing."""
        with self._lock:
            return self._arrivals.get(wanted, Arrival())

    def devices(self) -> tuple[str, ...]:
        """Devices to choose from: "cpu", and "cuda" once a loaded torch has found one."""
        torch = sys.modules.get("torch")
        ready = torch is not None and hasattr(torch, "cuda") and any(a.phase == "ready" for a in self._all())
        return ("cpu", "cuda") if ready and torch.cuda.is_available() else ("cpu",)

    def _all(self) -> list[Arrival]:
        with self._lock:
            return list(self._arrivals.values())

    def request(self, wanted: Wanted, accept_terms: bool = False) -> Arrival:
        """Begin to load unless it is on its way or there already; a failed one is tried again."""
        with self._lock:
            arrival = self._arrivals.pop(wanted, Arrival())
            self._arrivals[wanted] = arrival  # now the youngest
            if arrival.phase in ("loading", "ready"):
                return arrival
            self._make_room()
            self._arrivals[wanted] = Arrival("loading")
        threading.Thread(
            target=self._run, args=(wanted, accept_terms), name=f"load {wanted.name}", daemon=True
        ).start()
        return self.look(wanted)

    def _make_room(self) -> None:
        settled = [key for key, arrival in self._arrivals.items() if arrival.phase == "ready"]
        for key in settled[: max(0, len(settled) - MAX_MODELS + 1)]:
            del self._arrivals[key]

    def _set(self, wanted: Wanted, arrival: Arrival) -> None:
        with self._lock:
            if wanted in self._arrivals:
                self._arrivals[wanted] = arrival

    def _run(self, wanted: Wanted, accept_terms: bool) -> None:
        def progress(stage: str, done: int, total: int) -> None:
            self._set(wanted, replace(self.look(wanted), stage=stage, done=done, total=total))

        try:
            model = self._loader(wanted, progress, accept_terms)
        except TermsNotAccepted as error:
            self._set(wanted, Arrival("terms", sentence=str(error)))
        except (FetchError, ValueError, OSError) as error:
            _log.warning("model %s: %s", wanted.name, error)
            self._set(wanted, Arrival("failed", sentence=str(error)))
        except Exception as error:
            _log.exception("model %s", wanted.name)
            self._set(wanted, Arrival("failed", sentence=f"{type(error).__name__}: {error}"))
        else:
            self._set(wanted, Arrival("ready", model=model))


@st.cache_resource(show_spinner=False)
def store() -> ModelStore:
    """The process's one store, shared by all tabs."""
    return ModelStore()
