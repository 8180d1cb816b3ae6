"""What the drawings of lessons share: texts, strips of slots, owners' badges. Pure; lengths in units."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from core.compare.report import StepReport
from core.memory.views import SequenceView
from core.trace.step import Trace
from pages.parts.labels import letter, token_label
from pages.parts.lessons.pictures import Drawing, mark
from pages.parts.words import t

WIDTH, HEIGHT = 1320, 500
Marks = list[Any]
Segment = tuple[str, int, str | None]  # "live" | "empty" | "hole" | "free" | "cached", slots, owner


def text(x: float, y: float, content: object, cls: str = "", **more: Any) -> list[Any]:
    """A line of text; ``y`` is its middle."""
    return mark("text", str(content), x=round(x, 1), y=round(y, 1), cls=cls or None, **more)


def rect(x: float, y: float, width: float, height: float, cls: str, **more: Any) -> list[Any]:
    """A box; ``data_s`` gives it the hue of a sequence, ``inner`` a title to rest the pointer on."""
    inner = more.pop("inner", "")
    return mark(
        "rect", [mark("title", inner)] if inner else "", x=round(x, 1), y=round(y, 1),
        width=round(max(width, 0.5), 1), height=round(height, 1), rx=more.pop("rx", 3), cls=cls, **more,
    )  # fmt: skip


def line(x1: float, y1: float, x2: float, y2: float, cls: str = "rule") -> list[Any]:
    """A straight line."""
    return mark("line", x1=round(x1, 1), y1=round(y1, 1), x2=round(x2, 1), y2=round(y2, 1), cls=cls)


def drawing(marks: Marks, alt: str, height: float = HEIGHT) -> Drawing:
    """Marks as a drawing of the usual width; ``alt`` says in words what it shows."""
    return {"width": WIDTH, "height": height, "alt": alt, "marks": marks}


def choices(label: str, options: Sequence[str], drawings: Sequence[Drawing], at: int = 0) -> Drawing:
    """Several drawings of which one is shown: chosen with a slider, or with buttons when they are few."""
    return dict(drawings[at]) | {
        "choices": {"label": label, "options": list(options), "at": at, "drawings": list(drawings)}
    }


# -- owners ----------------------------------------------------------------------------------------------


def places(sequences: Iterable[SequenceView]) -> dict[str, int]:
    """The place of every sequence in the order of creation: its letter and its hue."""
    return {view.id: place for place, view in enumerate(sequences)}


def hues(trace: Trace, index: int, *strategies: Sequence[StepReport]) -> dict[str, int]:
    """A hue for every sequence that has held memory up to step ``index``, in the trace's own run or under one
    of ``strategies``: the lowest that nobody who holds memory, or waits at the head, has at that time."""
    found: dict[str, int] = {}
    for at, step in enumerate(trace.steps[: index + 1]):
        now = [reports[at] for reports in strategies]
        held = {view.id for view in step.sequences if view.block_table}
        held |= {holding.sequence for one in now for holding in one.holdings}
        held |= {one.waiting.sequence for one in now if one.waiting is not None}
        taken = {found[name] for name in held if name in found}
        for name in (view.id for view in step.sequences if view.id in held and view.id not in found):
            found[name] = next(number for number in range(len(taken) + 1) if number not in taken)
            taken.add(found[name])
    return found


def badge(x: float, y: float, place: int) -> Marks:
    """A sequence's letter on a disc of its hue."""
    ink = "onhue0" if place % 6 == 0 else "onhue"
    return [
        mark("circle", cx=x, cy=y, r=11, cls="badge", data_s=place),
        text(x, y + 1, letter(place), f"middle strong {ink}"),
    ]


# -- a strip of slots ------------------------------------------------------------------------------------


def segments(runs: Iterable[Any], capacity: int, gap: str = "free") -> list[Segment]:
    """A strip from its runs (start, length, owner, live): what lies between them is ``gap``."""
    found: list[Segment] = []
    at = 0
    for run in sorted(runs):
        if run.start > at:
            found.append((gap, run.start - at, None))
        if run.live:
            found.append(("live", run.live, run.owner))
        if run.length > run.live:
            found.append(("empty", run.length - run.live, run.owner))
        at = run.start + run.length
    if at < capacity:
        found.append((gap, capacity - at, None))
    return found


def strip(
    x: float, y: float, width: float, height: float, parts: Sequence[Segment], place: Mapping[str, int],
    *, label_free: bool = True, hue: Mapping[str, int] | None = None,
) -> Marks:  # fmt: skip
    """All slots of a memory as one strip, to scale, with letters and lengths where there is room. ``hue``:
    the sequences' colours where they are not those of their letters."""
    hue = place if hue is None else hue
    capacity = sum(length for _, length, _ in parts) or 1
    unit = width / capacity
    marks: Marks = []
    at = x
    for kind, length, owner in parts:
        wide = length * unit
        cls = "free" if kind in ("free", "hole") else kind
        who = place.get(owner) if owner else None
        marks.append(rect(at, y, wide, height, cls, data_s=hue.get(owner) if owner else None, rx=2))
        label = letter(who) if kind == "live" and who is not None else ""
        if kind == "live" and label and width_of(told := f"{label} {length:,}", 14) + 6 <= wide:
            label = told
        if kind in ("free", "hole") and label_free and wide > 16:
            label = f"{length:,}"
        if label and wide > 11:
            cls = "middle strong" if kind == "live" else "middle quiet"
            marks.append(text(at + wide / 2, y + height / 2 + 1, label, cls))
        at += wide
    return [*marks, mark("rect", x=x, y=y, width=round(width, 1), height=height, cls="edge", rx=3)]


def legend(x: float, y: float, kinds: Sequence[tuple[str, str]], lang: str) -> Marks:
    """What the drawings of a slot mean: (class, key of its words) side by side."""
    marks: Marks = []
    for cls, key in kinds:
        words = t(key, lang)
        marks += [rect(x, y - 7, 20, 14, cls, data_s=0), text(x + 27, y + 1, words, "quiet")]
        x += 50 + width_of(words)
    return marks


SLOTS = (("live", "drawing.live"), ("empty", "drawing.reserved"), ("free", "drawing.free"))


def width_of(words: str, size: float = 13) -> float:
    """About how wide a line of text is: wide characters are as wide as high, others about half."""
    return sum(size if ord(char) > 0x2E7F else size * 0.53 for char in words)


def fitted(words: str, room: float, size: float = 13) -> list[str]:
    """``words`` broken into lines that fit into ``room``; Chinese breaks anywhere, English between words."""
    lines, rest = [""], words
    while rest:
        word = rest[0] if ord(rest[0]) > 0x2E7F else rest.split(" ")[0] or " "
        word = word if ord(word[0]) > 0x2E7F else _until_wide(word)
        rest = rest[len(word) :]
        if rest.startswith(" ") and word != " ":
            word, rest = word + " ", rest[1:]
        closing = word[0] in "，。；：、）」”！？"
        if width_of(lines[-1] + word.rstrip(), size) > room and lines[-1] and not closing:
            lines.append("")
        lines[-1] += word
    return [one.strip() for one in lines]


def _until_wide(word: str) -> str:
    for place, char in enumerate(word):
        if ord(char) > 0x2E7F and place:
            return word[:place]
    return word


def paragraph(x: float, y: float, words: str, room: float, cls: str = "", size: float = 14) -> Marks:
    """Several lines of text, the first at ``y``."""
    return [text(x, y + k * size * 1.4, one, cls) for k, one in enumerate(fitted(words, room, size))]


def token(trace: Any, token_id: int, room: float) -> str:
    """A token's label, cut to the room there is for it."""
    label = token_label(trace.tokens.get(token_id, str(token_id).encode()))
    return label if width_of(label, 13) <= room else label[: max(int(room / 8), 1)] + "…"


def curve(points: Sequence[tuple[float, float]], cls: str, **more: Any) -> list[Any]:
    """A line through points that rises in steps."""
    path = f"M{points[0][0]:.1f} {points[0][1]:.1f}"
    for x, y in points[1:]:
        path += f"H{x:.1f}V{y:.1f}"
    return mark("path", d=path, cls=cls, **more)


def bytes_text(count: int) -> str:
    """Bytes as a person reads them: 1,234 B, 12.5 KiB, 3.1 MiB."""
    if count < 10_000:
        return f"{count:,} B"
    unit, size = ("KiB", 1 << 10) if count < 10 << 20 else ("MiB", 1 << 20)
    return f"{count / size:,.{0 if count >= 100 * size else 1}f} {unit}"
