"""An operating system's pages: page tables left, frames right, in the look of the paged pool."""

from __future__ import annotations

from typing import Any

from pages.parts.lessons.drawings.basics import Marks, badge, drawing, rect, text
from pages.parts.lessons.os_model import Entry, OsStep
from pages.parts.lessons.pictures import Drawing
from pages.parts.words import t

CARD = (150.0, 84.0)


def os_pages(trace: Any, index: int, lang: str) -> Drawing:
    """The machine after operation ``index``; what changed in it is drawn in the accent colour."""
    step: OsStep = trace.steps[index]
    names = _processes(trace)
    marks: Marks = [text(0, 14, t("drawing.os.tables", lang), "strong")]
    for number, name in enumerate(names):
        alone = len(step.tables) == 1
        marks += _table(step, name, number, 0 if alone else number * 300.0, 572 if alone else 272, lang)
    marks += _frames(step, names, lang)
    used = sum(1 for count in step.counts if count)
    told = {"n": used, "all": len(step.counts), "faults": sum(e.name == "fault" for e in step.events)}
    marks.append(text(660, 14, t("drawing.os.frames", lang, **told), "strong"))
    marks.append(text(0, 462, t("drawing.os.bits", lang), "quiet"))
    return drawing(marks, t("drawing.os.alt", lang, **told), 480)


def _processes(trace: Any) -> list[str]:
    """Every process of the walk, in order of birth."""
    return list(dict.fromkeys(name for step in trace.steps for name in step.tables))


def _table(step: OsStep, name: str, number: int, x: float, wide: float, lang: str) -> Marks:
    """A process's page table, ``wide`` units across: the columns lie as far apart as there is room."""
    table = step.tables.get(name)
    if table is None:
        return []
    marks: Marks = [*badge(x + 12, 48, number)]
    marks[-1][2] = name
    pages = sum(entry.present for entry in table)
    marks.append(text(x + 34, 49, t("drawing.os.process", lang, name=name, n=len(table), present=pages)))
    for head, at in zip(("page", "present", "writable", "frame"), _columns(wide), strict=True):
        cls = "quiet middle" if head in ("present", "writable") else "quiet"
        marks.append(text(x + at, 78, t(f"drawing.os.{head}", lang), cls))
    changed = {e.page for e in step.events if e.process == name and e.name not in ("touch", "map")}
    if step.what == "fork":
        changed |= {page for page, entry in enumerate(table) if entry.present}
    for page, entry in enumerate(table):
        marks += _row(page, entry, number, (x, 92 + page * 50.0, wide), page in changed)
    return marks


def _columns(wide: float) -> tuple[float, ...]:
    """Where page, present, writable and frame begin, the two in the middle where their centre is."""
    return tuple(round(wide * part, 1) for part in (0.05, 0.40, 0.62, 0.79))


def _row(page: int, entry: Entry, number: int, box: tuple[float, float, float], changed: bool) -> Marks:
    x, y, wide = box
    at = _columns(wide)
    cls = "soft" if entry.present else "free"
    marks = [
        rect(x, y, wide, 42, cls + (" news" if changed else ""), data_s=number if entry.present else None),
        text(x + at[0], y + 22, page, "strong"),
        text(x + at[1], y + 22, "1" if entry.present else "0", "middle mono"),
        text(x + at[2], y + 22, "1" if entry.writable else "0", "middle mono"),
    ]
    if entry.present:
        marks.append(text(x + at[3], y + 22, f"→ {entry.frame}", "shout" if changed else "strong"))
    return marks


def _frames(step: OsStep, names: list[str], lang: str) -> Marks:
    marks: Marks = []
    touched = {e.frame for e in step.events if e.name != "touch"} | {
        e.source for e in step.events if e.source >= 0
    }
    wide, high = CARD
    for frame, count in enumerate(step.counts):
        x, y = 660 + (frame % 4) * 166.0, 36 + (frame // 4) * 104.0
        owners = [n for n, name in enumerate(names) if _maps(step, name, frame)]
        if not count:
            news = " news" if frame in touched else ""
            marks += [rect(x, y, wide, high, "free" + news), text(x + 12, y + 18, frame, "quiet")]
            marks.append(text(x + wide - 12, y + 18, t("stage.free", lang), "quiet end"))
            continue
        news = " news" if frame in touched else ""
        marks.append(rect(x, y, wide, high, "box" + news))
        marks.append(text(x + 12, y + 18, frame, "strong"))
        for place, owner in enumerate(owners):
            who = badge(x + 46 + 26 * place, y + 18, owner)
            who[-1][2] = names[owner]
            marks += who
        marks.append(text(x + wide - 12, y + 18, t("drawing.os.count", lang, n=count), "end strong"))
        for place, owner in enumerate(owners):
            share = 40 / len(owners)
            half = (x + 12, y + 34 + place * share, wide - 24, share)
            marks.append(rect(*half, "soft plain", data_s=owner, rx=0))
        marks.append(rect(x + 12, y + 34, wide - 24, 40, "frame", rx=0))
        marks.append(text(x + wide / 2, y + 55, step.frames[frame], "middle mono strong"))
    return marks + _arrow(step, lang)


def _maps(step: OsStep, name: str, frame: int) -> bool:
    return any(entry.frame == frame for entry in step.tables.get(name, ()))


def _arrow(step: OsStep, lang: str) -> Marks:
    """What the operation did, in the order in which it happened, under the frames."""
    marks: Marks = [text(660, 262, t("drawing.os.what", lang), "strong")]
    shown = step.events[:8]
    for number, event in enumerate(shown):
        key = f"drawing.os.{event.name}"
        key += f".{event.cause}" if event.cause else ""
        told = event._asdict() | {"n": event.count}
        loud = event.name in ("fault", "copy", "bind", "share", "release", "free")
        marks.append(text(660, 290 + number * 24, f"{number + 1}.", "quiet"))
        marks.append(text(684, 290 + number * 24, t(key, lang, **told), "shout" if loud else ""))
    return marks
