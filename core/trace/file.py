"""Traces on disk: ``save`` and ``load``. A file to be loaded is not trusted; whatever is wrong with it
becomes one sentence (TraceError), within bounded time and memory."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import os
import tempfile
import zlib
from pathlib import Path
from typing import Any, NoReturn

from core.trace.schema import trace_from_json, trace_to_json
from core.trace.shape import Wrong
from core.trace.step import Trace

MAX_BYTES = 32 << 20  # decoded; a session of a thousand steps and 16 sequences has about 10 MB
MAX_CONTAINERS = 2_000_000  # JSON lists and objects: each costs far more memory than its two characters
_GZIP = b"\x1f\x8b"


class TraceError(ValueError):
    """A file that is no trace, or cannot be read or written. ``rule`` is the rule of the format that it
    breaks so badly that it cannot even be loaded, else None."""

    def __init__(self, sentence: str, rule: int | None = None) -> None:
        super().__init__(sentence)
        self.rule = rule


def to_bytes(trace: Trace, *, compressed: bool = False) -> bytes:
    """The file of a trace; the same trace gives the same bytes. Raises TraceError if JSON cannot hold it."""
    try:
        body = json.dumps(trace_to_json(trace), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        data = body.encode() + b"\n"
    except (TypeError, ValueError) as error:
        raise TraceError(f"this trace cannot be written as JSON: {error}.") from error
    if not compressed:
        return data
    out = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", fileobj=out, mtime=0, compresslevel=9) as file:
        file.write(data)
    return out.getvalue()


def save(trace: Trace, path: str | os.PathLike[str]) -> None:
    """Write the trace to ``path``, gzip where the name ends in .gz; the file is there whole or not at all.

    Raises TraceError when it cannot be written (no such folder, no space left, no permission).
    """
    path = Path(path)
    data = to_bytes(trace, compressed=path.suffix == ".gz")
    temporary = None
    try:
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
            temporary = file.name
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)  # temporary files are private; a saved trace is an ordinary file
        os.replace(temporary, path)
    except BaseException as error:
        if temporary is not None:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
        if isinstance(error, OSError):
            raise TraceError(f"cannot write {path}: {error.strerror or error}.") from error
        raise


def load(source: str | os.PathLike[str] | bytes, *, max_bytes: int = MAX_BYTES) -> Trace:
    """Read a trace from a file, or from a file's bytes; gzip is seen from its first bytes, not its name.

    ``max_bytes`` bounds the file and what it unpacks to. Raises TraceError with one sentence that says what
    is wrong and where. What it returns has the right shape; whether it is true, ``core.trace.verify`` says.
    """
    name = "this file" if isinstance(source, bytes) else str(source)
    raw = source if isinstance(source, bytes) else _read(Path(source), max_bytes)
    try:
        return trace_from_json(_decode(name, _unpack(name, raw, max_bytes)))
    except Wrong as wrong:
        where = f"{name}: {wrong.way}" if wrong.way else name
        raise TraceError(f"{where} {wrong.reason}.", wrong.rule) from None
    except RecursionError:
        raise TraceError(f"{name} is nested too deeply to be a trace.") from None


def _read(path: Path, max_bytes: int) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(max_bytes + 1)
    except OSError as error:
        raise TraceError(f"cannot read {path}: {error.strerror or error}.") from error


def _unpack(name: str, raw: bytes, max_bytes: int) -> bytes:
    """The file's text. Unpacks no further than the limit, whatever a small file claims to unpack to."""
    data = raw
    if raw[:2] == _GZIP and len(raw) <= max_bytes:
        try:
            with gzip.GzipFile(fileobj=io.BytesIO(raw)) as file:
                data = file.read(max_bytes + 1)
        except (OSError, EOFError, zlib.error):
            raise TraceError(f"{name} is cut off or damaged: its gzip data cannot be unpacked.") from None
    if len(data) > max_bytes:
        unpacked = " unpacked" if data is not raw else ""
        limit = f"{max_bytes / (1 << 20):g} MiB{unpacked}"
        raise TraceError(f"{name} is larger than {limit}, the limit for a trace.")
    return data


def _decode(name: str, data: bytes) -> Any:
    if data.count(b"[") + data.count(b"{") > MAX_CONTAINERS:
        raise TraceError(
            f"{name} holds more than {MAX_CONTAINERS:,} lists and objects, too many for a trace."
        )

    def refuse(constant: str) -> NoReturn:
        raise ValueError(f"{constant} is no JSON")

    try:
        return json.loads(data.decode("utf-8-sig"), parse_constant=refuse)
    except UnicodeDecodeError as error:
        raise TraceError(f"{name} is no trace: byte {error.start} is no UTF-8.") from None
    except json.JSONDecodeError as error:
        raise TraceError(
            f"{name} is no trace: {error.msg} at line {error.lineno}, column {error.colno}."
        ) from None
    except ValueError as error:  # a constant that JSON lacks, or a number with thousands of digits
        raise TraceError(f"{name} is no trace: {str(error).split(';')[0]}.") from None
