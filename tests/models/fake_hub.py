"""A model hub on 127.0.0.1 with one model: what huggingface_hub asks for, answered from a folder."""

from __future__ import annotations

import hashlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class FakeHub:
    """Serves the folder as ``somebody/model``. ``asked``: the paths of all requests, in order."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.asked: list[str] = []
        hub = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: object) -> None: ...

            def do_HEAD(self) -> None:
                hub.answer(self, body=False)

            def do_GET(self) -> None:
                hub.answer(self, body=True)

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()

    def answer(self, request: BaseHTTPRequestHandler, body: bool) -> None:
        path = request.path.split("?")[0]
        self.asked.append(path)
        headers = {"X-Repo-Commit": COMMIT, "Content-Type": "application/json"}
        files = sorted(self.folder.iterdir())
        if path.startswith("/api/models/somebody/model/tree/"):
            file = {"type": "file", "oid": "0" * 40}
            tree = [{**file, "path": p.name, "size": p.stat().st_size} for p in files]
            data = json.dumps(tree).encode()
        elif path.startswith("/api/models/somebody/model"):
            siblings = [{"rfilename": p.name, "size": p.stat().st_size} for p in files]
            info = {"id": "somebody/model", "modelId": "somebody/model", "sha": COMMIT, "siblings": siblings}
            data = json.dumps(info).encode()
        elif path.startswith("/somebody/model/resolve/") and (self.folder / Path(path).name).is_file():
            data = (self.folder / Path(path).name).read_bytes()
            headers["ETag"] = f'"{hashlib.sha1(data).hexdigest()}"'
        else:
            headers["X-Error-Code"] = "EntryNotFound" if "somebody/model" in path else "RepoNotFound"
            return self._send(request, 404, b"{}", headers, body)
        return self._send(request, 200, data, headers, body)

    def _send(
        self, request: BaseHTTPRequestHandler, status: int, data: bytes, headers: dict[str, str], body: bool
    ) -> None:
        request.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(data))}.items():
            request.send_header(name, value)
        request.end_headers()
        if body:
            request.wfile.write(data)
