"""Labels: tokens as visible text, never a replacement mark; letters and the table of labels."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.trace.step import Trace
from pages.parts.labels import GAP, MAX_LABEL, Labels, hue, letter, token_label


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        (b" to", f"{GAP}to"),
        (b"to", "to"),
        (b"\n", "\\n"),
        (b"\n\n", "\\n\\n"),
        (b"\t", "\\t"),
        (b" ", "␣"),
        (b"    x", "␣␣␣␣x"),
        ("历史".encode(), "历史"),
        (b"\xe4\xbd", "E4 BD"),
        (b"\xa0", "A0"),
        (b" \xc3", f"{GAP}C3"),
        (b"caf\xc3", "caf C3"),
        (b"\xa9x", "A9 x"),
        ("\U0001f603".encode(), "\U0001f603"),
        ("\U0001f603".encode()[:2], "F0 9F"),
        ("\ufffd".encode(), "EF BF BD"),
        (b"\x00", "U+0000"),
        ("\u200d".encode(), "U+200D"),
        (b"", "∅"),
        (b"incomprehensible", "incomprehen…"),
        (b"<b>", "<b>"),
    ],
)
def test_label(data: bytes, shown: str) -> None:
    assert token_label(data) == shown


@given(st.binary(max_size=40))
def test_every_token_can_be_seen(data: bytes) -> None:
    shown = token_label(data)
    assert shown.strip()
    assert "\ufffd" not in shown
    assert len(shown) <= MAX_LABEL
    shown.encode("utf-8")  # no half of a surrogate pair is left


def test_letters_go_on_after_z() -> None:
    assert [letter(i) for i in (0, 1, 25, 26, 27, 51, 52, 701, 702)] == [
        "A", "B", "Z", "AA", "AB", "AZ", "BA", "ZZ", "AAA",
    ]  # fmt: skip
    assert len({letter(i) for i in range(2000)}) == 2000
    assert hue(0) == hue(6) and len({hue(i) for i in range(6)}) == 6


def test_a_label_travels_once_and_unknown_tokens_show_their_id() -> None:
    labels = Labels(Trace(meta={}, tokens={7: b" cat"}))
    assert [labels.index(7), labels.index(9), labels.index(7)] == [0, 1, 0]
    assert labels.table == [f"{GAP}cat", "#9"]
