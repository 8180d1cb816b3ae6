"""What the kernel picture draws, as plain data: a pure function of one told decode step and a head of it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pages.parts.words import t

if TYPE_CHECKING:
    from kernels.trace_decode import DecodeTrace, SplitPart, TileStep

TILES = (4, 8, 16, 32)  # keys a tile that the picture can show
FEW = 3  # tiles that a story needs
SHOWN = 6  # numbers of an output


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """Where the told step comes from. ``tokens``: a label for each position; ``refs``: of each logical block.

    ``place``: the sequence's place in the order of creation (its colour and letter on every page).
    """

    name: str
    place: int
    layer: int
    step: int
    block_size: int
    table: Sequence[int]
    tokens: Sequence[str]
    refs: Sequence[int]
    engine: Sequence[float]  # the engine's own output [D] of the told head


def number(value: float, digits: int = 3) -> str:
    """A number as the screen writes it: a real minus sign, infinity as a sign."""
    if math.isinf(value):
        return "−∞" if value < 0 else "∞"
    if value and abs(value) < 10**-digits / 2:
        return f"{value:.1e}".replace("-", "−")
    return f"{value:.{digits}f}".replace("-", "−")


def good_tile(kv_len: int) -> int:
    """The largest tile that still needs a few turns for this context; the smallest where none does."""
    return max((tile for tile in TILES if kv_len >= FEW * tile), default=TILES[0])


def build(told: DecodeTrace, scene: Scene, head: int, lang: str, *, lecture: bool = False) -> dict[str, Any]:
    """The picture's payload for query head ``head`` of the group (0 is the group's first).

    ``say[i]``: the sentence of turn i; the last one, behind all tiles, is the merge.
    """
    return {
        "v": 1,
        "lang": lang,
        "lecture": lecture,
        "key": f"{scene.name}/{scene.step}/{scene.layer}/{told.kv_head}/{head}/{told.tile}/{len(told.parts)}",
        "place": scene.place,
        "size": scene.block_size,
        "kv_len": told.kv_len,
        "first": told.first,
        "tile": told.tile,
        "table": list(scene.table),
        "refs": list(scene.refs),
        "tok": list(scene.tokens),
        "tiles": [_turn(step, head) for step in told.tiles],
        "parts": [_part(part, head) for part in told.parts],
        "sink": None if told.sinks is None else number(told.sinks[head]),
        "m": number(told.maximum[head]),
        "l": number(told.total[head]),
        "output": _output(told.output[head], scene.engine),
        "say": [
            *(_said(step, told, scene, head, lang) for step in told.tiles),
            _merged(told, head, lang),
        ],
    }


def _turn(step: TileStep, head: int) -> dict[str, Any]:
    """One turn of the loop, for one query head: per lane what was read, its score and its weight."""
    after = step.max_after[head]
    scores = step.scores[head]
    return {
        "split": step.split,
        "base": step.positions[0],
        "read": [int(ok) for ok in step.read],
        "block": list(step.blocks),
        "slot": list(step.slots),
        "s": [number(s, 2) if ok else None for s, ok in zip(scores, step.read, strict=True)],
        "p": [round(math.exp(s - after), 4) if ok else None for s, ok in zip(scores, step.read, strict=True)],
        "tm": number(step.tile_max[head]),
        "m0": number(step.max_before[head]),
        "m1": number(after),
        "l0": number(step.sum_before[head]),
        "l1": number(step.sum_after[head]),
        "add": number(step.sum_after[head] - step.sum_before[head] * step.shrink[head]),
        "shrink": number(step.shrink[head]),
        "acc": number(step.accumulator_norm[head]),
    }


def _output(ours: Sequence[float], engine: Sequence[float]) -> dict[str, Any]:
    """The first numbers of both outputs, with enough digits to see where they part."""
    shown = min(SHOWN, len(ours))
    return {
        "shown": shown,
        "all": len(ours),
        "ours": [number(x, 5) for x in ours[:shown]],
        "engine": [number(x, 5) for x in engine[:shown]],
    }


def _part(part: SplitPart, head: int) -> dict[str, Any]:
    return {
        "start": part.start,
        "stop": part.stop,
        "m": number(part.m[head]),
        "l": number(part.sum[head]),
        "w": number(part.weight[head]),
        "wl": number(part.weight[head] * part.sum[head]),
    }


def _said(step: TileStep, told: DecodeTrace, scene: Scene, head: int, lang: str) -> str:
    """What this turn loads, and what it does to the running maximum and sum."""
    seen = [p for p, ok in zip(step.positions, step.read, strict=True) if ok]
    blocks = list(dict.fromkeys(b for b, ok in zip(step.blocks, step.read, strict=True) if ok))
    masked = len(step.read) - len(seen)
    loads = t(
        "kernel.say.loads", lang, first=seen[0], last=seen[-1], blocks=_list(blocks, lang), n=len(blocks)
    )
    if masked:
        loads += t("kernel.say.masked", lang, n=masked)
    before, after = step.max_before[head], step.max_after[head]
    numbers = {
        "before": number(before), "after": number(after), "shrink": number(step.shrink[head]),
        "sum": number(step.sum_after[head]),
    }  # fmt: skip
    if math.isinf(before):
        does = t("kernel.say.opens", lang, **numbers)
    elif after > before:
        does = t("kernel.say.rises", lang, **numbers)
    else:
        does = t("kernel.say.stays", lang, **numbers)
    return loads + does


def _merged(told: DecodeTrace, head: int, lang: str) -> str:
    """How the splits become one; with a single one, the division that ends the loop."""
    numbers = {"max": number(told.maximum[head]), "sum": number(told.total[head])}
    busy = [part for part in told.parts if not math.isinf(part.m[head])]
    if len(told.parts) == 1:
        return t("kernel.say.alone", lang, **numbers)
    text = t("kernel.say.merge", lang, n=len(told.parts), **numbers)
    if empty := len(told.parts) - len(busy):
        text += t("kernel.say.empty", lang, n=empty)
    return text


def _list(ids: Sequence[int], lang: str) -> str:
    shown = [str(i) for i in ids[:6]]
    more = "…" if len(ids) > len(shown) else ""
    return ("、" if lang == "zh" else ", ").join(shown) + more


def labels_of(token_ids: Sequence[int], texts: Mapping[int, str]) -> list[str]:
    """A label for each position; ``#id`` where the trace does not know the token."""
    return [texts.get(token, f"#{token}") for token in token_ids]
