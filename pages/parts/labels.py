"""What the screen writes for a token, a sequence, a slot: pure functions from a trace to short texts."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass, field
from string import ascii_uppercase

from core.trace.step import Trace

HUES = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")  # Okabe and Ito
MAX_LABEL = 12  # characters of one token; more is cut with an ellipsis
# Tokens of most vocabularies carry the space before a word: it shows as a thin gap.
GAP = "\u2009"
_SPACE = "\u2423"  # a space that stands for itself: a token of nothing else, or one of several in a row
_MARKS = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def letter(position: int) -> str:
    """The name of a sequence on the screen, from its place in the order of creation: A ... Z, AA, AB, ..."""
    name = ""
    position += 1
    while position > 0:
        position, rest = divmod(position - 1, 26)
        name = ascii_uppercase[rest] + name
    return name


def hue(position: int) -> int:
    """Index into ``HUES``; the letter tells sequences with the same hue apart."""
    return position % len(HUES)


def _visible(char: str) -> str:
    """One character as something that can be seen; a byte that is no whole character as two digits."""
    code = ord(char)
    if 0xDC80 <= code <= 0xDCFF:  # where "surrogateescape" keeps a byte that it could not decode
        return f"{code - 0xDC00:02X}"
    if char == "\ufffd":  # some vocabularies hold the replacement mark itself: show its bytes
        return "EF BF BD"
    if char in _MARKS:
        return _MARKS[char]
    hidden = unicodedata.category(char) in ("Cc", "Cf", "Zl", "Zp", "Cs", "Co", "Cn")
    return f"U+{code:04X}" if hidden else char


def token_label(data: bytes) -> str:
    """A token's bytes as a short visible text.

    A leading space shows as a thin gap, a newline as \\n; bytes that are no whole characters show as pairs
    of hexadecimal digits (E4 BD), never as a replacement mark.
    """
    if not data:
        return "∅"
    text = data.decode("utf-8", "surrogateescape")
    word = text.lstrip(" ")
    spaces = len(text) - len(word)
    shown = GAP if spaces == 1 and word else _SPACE * spaces
    broken = False
    for char in word:
        here = 0xDC80 <= ord(char) <= 0xDCFF
        shown += (" " if (here or broken) and shown not in ("", GAP) else "") + _visible(char)
        broken = here
    return shown if len(shown) <= MAX_LABEL else shown[: MAX_LABEL - 1] + "…"


@dataclass(slots=True)
class Labels:
    """Labels of one trace's tokens, and the table of those that a payload really uses.

    ``index(token_id)`` gives the token's place in ``table``, so that a token which occurs a hundred times
    travels once.
    """

    trace: Trace
    table: list[str] = field(default_factory=list)
    _seen: dict[int, int] = field(default_factory=dict)

    def text(self, token_id: int) -> str:
        """The visible text of a token, ``#id`` where the trace does not say what it stands for."""
        data = self.trace.tokens.get(token_id)
        return f"#{token_id}" if data is None else token_label(data)

    def index(self, token_id: int) -> int:
        """Place of the token's label in ``table``."""
        place = self._seen.get(token_id)
        if place is None:
            place = self._seen[token_id] = len(self.table)
            self.table.append(self.text(token_id))
        return place
