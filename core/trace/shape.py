"""Checks of shape: small functions that take a decoded JSON value and give what it stands for, or refuse it.

A checker raises :class:`Wrong` with the reason; containers put the way to the value in front of it, and
only then, so that a good file pays nothing for it. Unknown keys are never looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

Check = Callable[[Any], Any]
Checks = Mapping[str, Check]
NONE: Checks = MappingProxyType({})
ABSENT: Any = object()
LARGEST_ID = (1 << 31) - 1


class Wrong(Exception):
    """A value that is not as the format says. ``rule`` is the rule of the format that it breaks, if one."""

    def __init__(self, reason: str, rule: int | None = None) -> None:
        super().__init__(reason)
        self.reason, self.rule, self.way = reason, rule, ""

    def inside(self, part: str | int) -> Wrong:
        """The same error seen from one container further out."""
        step = f"[{part}]" if isinstance(part, int) else part
        self.way = step + ("." if self.way and not self.way.startswith("[") else "") + self.way
        return self


def show(value: Any) -> str:
    """A value for an error sentence, short whatever a hostile file holds."""
    text = repr(value) if isinstance(value, str | int | float | bool | type(None)) else type(value).__name__
    return text if len(text) <= 40 else text[:37] + "..."


def integer(low: int = 0, high: int = LARGEST_ID, rule: int | None = None) -> Check:
    """A whole number between ``low`` and ``high``."""

    def check(value: Any) -> int:
        if type(value) is not int:
            raise Wrong(f"must be a whole number, not {show(value)}")
        if not low <= value <= high:
            raise Wrong(f"is {show(value)}; it must be between {low} and {high}", rule)
        return value

    return check


def integers(low: int = 0, high: int = LARGEST_ID, most: int = 1 << 20, rule: int | None = None) -> Check:
    """A list of whole numbers between ``low`` and ``high``, as a tuple."""
    one = integer(low, high, rule)

    def check(value: Any) -> tuple[int, ...]:
        if type(value) is not list:
            raise Wrong(f"must be a list, not {show(value)}")
        if len(value) > most:
            raise Wrong(f"has {len(value)} entries; {most} are the most", rule)
        # Whole lists are checked at C speed; only a bad one is gone through to say where.
        if value and (set(map(type, value)) != {int} or min(value) < low or max(value) > high):
            for k, item in enumerate(value):
                try:
                    one(item)
                except Wrong as wrong:
                    raise wrong.inside(k) from None
        return tuple(value)

    return check


def number(value: Any) -> float:
    """A finite number (JSON has no other; Python's reader is told so too)."""
    if type(value) not in (int, float):
        raise Wrong(f"must be a number, not {show(value)}")
    if not abs(value) < 1e300:
        raise Wrong("is too large")
    return float(value)


def boolean(value: Any) -> bool:
    """true or false."""
    if type(value) is not bool:
        raise Wrong(f"must be true or false, not {show(value)}")
    return value


def text(most: int = 256) -> Check:
    """A string of at most ``most`` characters that UTF-8 can write (JSON can smuggle in half characters)."""

    def check(value: Any) -> str:
        if type(value) is not str:
            raise Wrong(f"must be a text, not {show(value)}")
        if len(value) > most:
            raise Wrong(f"has {len(value)} characters; {most} are the most")
        if not value.isascii():
            try:
                value.encode()
            except UnicodeEncodeError:
                raise Wrong("holds half a character") from None
        return value

    return check


def one_of(*allowed: str) -> Check:
    """One of a few words."""

    def check(value: Any) -> str:
        if not isinstance(value, str) or value not in allowed:
            raise Wrong(f"is {show(value)}; it must be one of {', '.join(allowed)}")
        return value

    return check


def maybe(check: Check) -> Check:
    """null, or what ``check`` takes."""
    return lambda value: None if value is None else check(value)


def array(check: Check, most: int) -> Check:
    """A list of things, as a tuple."""

    def checked(value: Any) -> tuple[Any, ...]:
        if type(value) is not list:
            raise Wrong(f"must be a list, not {show(value)}")
        if len(value) > most:
            raise Wrong(f"has {len(value)} entries; {most} are the most")
        out = []
        for k, item in enumerate(value):
            try:
                out.append(check(item))
            except Wrong as wrong:
                raise wrong.inside(k) from None
        return tuple(out)

    return checked


def plain(most_values: int = 10_000, depth: int = 8) -> Check:
    """Any JSON value of modest size: what the format leaves open."""
    a_text = text(1 << 20)

    def check(value: Any) -> Any:
        stack, seen = [(value, 0)], 0
        while stack:
            item, level = stack.pop()
            seen += 1
            if seen > most_values or level > depth:
                raise Wrong(f"is nested deeper than {depth} or holds more than {most_values} values")
            if isinstance(item, str):
                a_text(item)
            elif isinstance(item, dict):
                stack += [(part, level + 1) for pair in item.items() for part in pair]
            elif isinstance(item, list):
                stack += [(part, level + 1) for part in item]
        return value

    return check


def an_object(value: Any) -> dict[str, Any]:
    """A JSON object."""
    if type(value) is not dict:
        raise Wrong(f"must be an object, not {show(value)}")
    return value


def keys(value: Any, required: Checks, optional: Checks = NONE) -> dict[str, Any]:
    """The named keys of an object, each checked; an optional one that is absent is left out."""
    an_object(value)
    out: dict[str, Any] = {}
    for checks in (required, optional):
        for name, check in checks.items():
            item = value.get(name, ABSENT)
            if item is ABSENT:
                if checks is required:
                    raise Wrong(f'lacks "{name}"')
                continue
            try:
                out[name] = check(item)
            except Wrong as wrong:
                raise wrong.inside(name) from None
    return out


def record(build: Callable[..., Any], required: Checks, optional: Checks = NONE) -> Check:
    """An object whose keys are the arguments of ``build`` (a dataclass). Its ValueErrors are of shape too."""

    def check(value: Any) -> Any:
        values = keys(value, required, optional)
        try:
            return build(**values)
        except ValueError as error:
            raise Wrong(f"is wrong: {error}") from None

    return check


def unchanged(check: Check) -> Check:
    """``check`` with a memory of the last value under each ``id``: what did not change is the same object.

    Steps repeat most of their picture; comparing is many times faster than checking, and memory is shared.
    """
    last: dict[Any, tuple[Any, Any]] = {}

    def checked(value: Any) -> Any:
        key = value.get("id") if type(value) is dict else None
        known = last.get(key) if type(key) in (int, str) else None
        # Equal is not the same in JSON: true == 1 == 1.0, so what is remembered was spelled by good types,
        # and a value that is equal but of other types is checked by itself.
        if known is not None and known[0] == value and _same_types(known[0], value):
            return known[1]
        out = check(value)
        last[key] = (value, out)
        return out

    return checked


def _same_types(a: Any, b: Any) -> bool:
    if type(a) is not type(b):
        return False
    if type(a) is dict:
        return all(_same_types(item, b[key]) for key, item in a.items())
    if type(a) is list:
        return list(map(type, a)) == list(map(type, b))
    return True
