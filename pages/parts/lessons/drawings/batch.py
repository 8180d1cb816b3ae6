"""Batch size: tokens a second and milliseconds a step by batch; and how many requests fit at once."""

from __future__ import annotations

from typing import Any

from pages.parts.labels import letter
from pages.parts.lessons.batches import Batch
from pages.parts.lessons.drawings.basics import Marks, drawing, line, rect, text
from pages.parts.lessons.pictures import Drawing
from pages.parts.words import t

LEFT, RIGHT, BASE = 60.0, 760.0, 400.0


def batch(trace: Any, index: int, lang: str) -> Drawing:
    """What has been measured up to this batch size; in the last step also how large a batch the memory lets
    each strategy have."""
    seen, fits = trace.steps[index].seen, trace.steps[index].fits
    model = trace.meta["model"]
    marks: Marks = [text(0, 14, t("drawing.batch.rate", lang), "strong")]
    sizes = trace.meta["sizes"]
    across = (640.0 if fits else 1150.0) / max(len(sizes), 1)
    asked = int(trace.meta.get("asked", -1))
    loud = trace.meta["at_once"]["paged"] if fits else seen[-1].size if asked < 0 else 0
    for place, one in enumerate(seen):
        marks += _bar(one, LEFT + place * across, across, trace.meta["peak"], one.size == loud, lang)
    for place, size in enumerate(sizes[len(seen) :], len(seen)):
        marks += _coming(size, LEFT + place * across, across, place == asked)
    marks.append(line(LEFT - 20, BASE, LEFT + across * len(sizes), BASE))
    marks.append(text(LEFT - 20, 458, t("drawing.batch.axis", lang), "quiet"))
    if fits:
        marks += _fits(trace.meta, lang)
    about = {"model": model.get("name", ""), "device": trace.meta["device"], "dtype": model.get("dtype", "")}
    marks.append(text(0, 484, t("drawing.batch.machine", lang, **about), "quiet"))
    told = ", ".join(f"{one.size}: {one.rate:.0f}" for one in seen)
    return drawing(marks, t("drawing.batch.alt", lang, told=told), 500)


def _coming(size: int, x: float, across: float, asked: bool) -> Marks:
    """Where the bar of a batch will stand that has not been shown yet; all alike, so that none tells."""
    wide = min(across * 0.62, 110.0)
    left = x + (across - wide) / 2
    return [
        rect(left, BASE - 300, wide, 300, "ghost" if asked else "ahead"),
        text(left + wide / 2, BASE + 18, size, "middle shout" if asked else "middle quiet"),
    ]


def _bar(one: Batch, x: float, across: float, peak: float, news: bool, lang: str) -> Marks:
    high = 300 * one.rate / peak
    wide = min(across * 0.62, 110.0)
    left = x + (across - wide) / 2
    middle = left + wide / 2
    loud = (" news", " shout") if news else ("", "")
    return [
        rect(left, BASE - high, wide, high, "live" + loud[0], data_s=0),
        text(middle, BASE - high - 16, f"{one.rate:,.0f}", "middle big" + loud[1]),
        text(middle, BASE + 18, one.size, "middle strong"),
        text(middle, BASE + 36, t("drawing.batch.ms", lang, ms=f"{one.ms:,.0f}"), "middle quiet"),
    ]


def _fits(meta: dict[str, Any], lang: str) -> Marks:
    told = {"n": meta["capacity"], "reserve": meta["reserve"], "requests": meta["requests"]}
    marks: Marks = [text(RIGHT, 14, t("drawing.batch.fits", lang, **told), "strong")]
    most = max(meta["at_once"].values(), default=1)
    for place, (name, count) in enumerate(meta["at_once"].items()):
        y = 60 + place * 82.0
        marks.append(text(RIGHT, y, t(f"strategy.{name}", lang), "shout" if name == "paged" else ""))
        unit = min(480 / max(most, 1), 52.0)
        for k in range(count):
            cls = "live news" if name == "paged" else "live"
            left = RIGHT + k * unit
            marks.append(rect(left, y + 14, unit - 5, 34, cls, data_s=k))
            marks.append(text(left + (unit - 5) / 2, y + 32, letter(k), "middle strong"))
        for k in range(count, most):
            marks.append(rect(RIGHT + k * unit, y + 14, unit - 5, 34, "free"))
        marks.append(text(RIGHT + most * unit + 10, y + 32, count, "big"))
    return marks
