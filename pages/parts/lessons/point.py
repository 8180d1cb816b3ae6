"""Selectors of things in the stage: what a lesson rings to say "this is a slot", "a count". Pure."""

from __future__ import annotations

from core.memory import events as ev
from core.memory.events import Event


def row(place: int) -> str:
    """What a sequence sees: its whole row."""
    return f'.left .row[data-s="{place}"]'


def logical(place: int, number: int) -> str:
    """A logical block of a sequence."""
    return f'.left .lb[data-s="{place}"][data-l="{number}"]'


def slot(place: int, number: int, offset: int) -> str:
    """A slot of a logical block, drawn open."""
    return f"{logical(place, number)} .slot:nth-child({offset + 1})"


def entry(place: int, number: int) -> str:
    """The entry of the block table: the physical number under a logical block."""
    return f"{logical(place, number)} .down"


def card(block: int) -> str:
    """A physical block."""
    return f'.right .card[data-b="{block}"]'


def place(block: int, offset: int) -> str:
    """A slot of a physical block."""
    return f"{card(block)} .slot:nth-child({offset + 1})"


def count(block: int) -> str:
    """The reference count on a physical block."""
    return f"{card(block)} .ref"


def of_event(event: Event) -> list[str]:
    """The blocks that an event touches."""
    match event:
        case ev.Copy(source, target, _, _, _):
            return [card(source), card(target)]
        case ev.Write(_, _, block, offset, number):
            return [place(block, offset + k) for k in range(number)]
        case ev.SwapIn(block, _, _, _) | ev.SwapOut(block, _):
            return [card(block)]
        case ev.Allocate() | ev.Share() | ev.Release() | ev.Free() | ev.Cache() | ev.Evict():
            return [card(event.block)]
    return []
