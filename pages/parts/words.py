"""Every word on the screen, in Chinese and English: one JSON file an area and language, merged on first use.

A value is a format string, or {"one": ..., "other": ...} where the English differs by the number ``n``.
Files: ``assets/words/en.json`` and ``zh.json`` (the stage and its narration), ``<area>.en.json`` and
``<area>.zh.json`` (everything else). A key occurs once over all areas.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path

LANGUAGES = ("zh", "en")
FOLDER = Path(__file__).resolve().parents[2] / "assets" / "words"

Entry = str | dict[str, str]


@cache
def vocabulary(lang: str) -> Mapping[str, Entry]:
    """All entries of one language, merged over the areas.

    Raises ValueError when the language is unknown or two files define the same key.
    """
    if lang not in LANGUAGES:
        raise ValueError(f"language {lang!r} is not known; it must be one of {', '.join(LANGUAGES)}.")
    merged: dict[str, Entry] = {}
    for path in (FOLDER / f"{lang}.json", *sorted(FOLDER.glob(f"*.{lang}.json"))):
        entries = json.loads(path.read_text(encoding="utf-8"))
        if twice := merged.keys() & entries.keys():
            raise ValueError(f"{path.name} defines {sorted(twice)[0]!r} a second time; keep one of the two.")
        merged.update(entries)
    return merged


def t(key: str, lang: str, **numbers: object) -> str:
    """The text of ``key`` in ``lang`` with ``numbers`` filled in; ``n`` = 1 picks "one" of two forms.

    Raises ValueError when the key or one of its numbers is missing: a screen must not show a bare key.
    """
    entry = vocabulary(lang).get(key)
    if entry is None:
        raise ValueError(f"the words for {lang} have no {key!r}; add it to both languages in assets/words.")
    if isinstance(entry, dict):
        entry = entry["one"] if numbers.get("n") == 1 and "one" in entry else entry["other"]
    try:
        return entry.format(**numbers)
    except (KeyError, IndexError) as error:
        raise ValueError(f"the words {key!r} ({lang}) need the number {error}; pass it.") from None


def area(prefix: str, lang: str) -> dict[str, Entry]:
    """The entries whose key starts with ``prefix.``, without that prefix: what a script in the page needs."""
    cut = len(prefix) + 1
    return {key[cut:]: text for key, text in vocabulary(lang).items() if key.startswith(f"{prefix}.")}
