"""Token text in a terminal: what a token says in few cells, and columns that align with wide characters."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping

_NAMES = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}


def width(text: str) -> int:
    """Columns that the text takes in a terminal: two for a wide character, none for a mark on another one."""
    columns = 0
    for character in text:
        if unicodedata.combining(character) or unicodedata.category(character) in ("Cf", "Me", "Mn"):
            continue
        columns += 2 if unicodedata.east_asian_width(character) in "WF" else 1
    return columns


def fit(text: str, columns: int) -> str:
    """The text in exactly ``columns`` columns: padded, or cut with an ellipsis."""
    if width(text) > columns:
        while text and width(text) > columns - 1:
            text = text[:-1]
        text += "…"
    return text + " " * (columns - width(text))


def token_text(token: bytes | None, token_id: int) -> str:
    """What a token stands for: its text, its bytes (E4 BD) where it is part of a character, or its id.

    Line breaks and other control characters are spelled out; a token of spaces alone shows them as ␣.
    """
    if token is None:
        return f"#{token_id}"
    try:
        text = token.decode()
    except UnicodeDecodeError:
        return token.hex(" ").upper()
    if text and not text.strip(" "):
        return "␣" * len(text)
    return "".join(_NAMES.get(c, c if c.isprintable() else f"\\x{ord(c):02x}") for c in text)


def cells(token_ids: tuple[int, ...], tokens: Mapping[int, bytes], slots: int, columns: int) -> str:
    """A block as |text|text|    |: one cell a slot, ``columns`` wide, empty slots dotted."""
    shown = [fit(token_text(tokens.get(token), token), columns) for token in token_ids]
    empty = ["·" * columns] * (slots - len(shown))
    return "|" + "|".join(shown + empty) + "|"
