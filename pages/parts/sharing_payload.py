"""One step of the same requests under two sharing rules, as plain data: tables, blocks, figures. Pure."""

from __future__ import annotations

from collections import Counter
from typing import Any

from core.memory.events import Copy, Fork, Write
from core.trace.step import Step, Trace
from pages.parts.labels import Labels, hue, letter
from pages.parts.narration import sentence
from pages.parts.words import t


def sharing_payload(traces: tuple[Trace, Trace], index: int, lang: str) -> dict[str, Any]:
    """Both sides at step ``index``; a side that is over stays at its last step."""
    sides = [side(trace, min(index, len(trace.steps) - 1), lang) for trace in traces]
    rows = max(sum(bool(v.block_table) for v in step.sequences) for trace in traces for step in trace.steps)
    return {"lang": lang, "rows": rows, "sides": sides}


def side(trace: Trace, index: int, lang: str) -> dict[str, Any]:
    """One run: {"rule", "say", "seqs", "pool", "figures"}.

    ``seqs``: {"name", "hue", "blocks": [{"b", "ref", "t": labels, "new"}]}; ``pool``: one entry a block,
    {"b", "ref", "filled", "who": names, "hues": one each}; ``figures``: see ``figures``.
    """
    step, previous = trace.steps[index], trace.steps[index - 1] if index else None
    labels, size = Labels(trace), int(trace.meta["block_size"])
    ref = {block.id: block.ref for block in step.blocks}
    filled = {block.id: block.filled for block in step.blocks}
    before = {b.id for b in previous.blocks} if previous else set()
    rows, holders = [], dict[int, list[int]]()
    for place, view in enumerate(step.sequences):
        if not view.block_table:
            continue
        blocks = []
        for logical, block in enumerate(view.block_table):
            holders.setdefault(block, []).append(place)
            tokens = view.token_ids[logical * size : min(logical * size + size, view.written)]
            texts = [labels.text(token).strip() for token in tokens]
            blocks.append({"b": block, "ref": ref.get(block, 0), "t": texts, "new": block not in before})
        rows.append({"name": letter(place), "hue": hue(place), "blocks": blocks})
    pool = [
        {
            "b": block, "ref": ref.get(block, 0), "filled": filled.get(block, 0),
            "who": "".join(letter(place) for place in holders.get(block, ())),
            "hues": [hue(place) for place in holders.get(block, ())],
        }
        for block in range(int(trace.meta["num_blocks"]))
    ]  # fmt: skip
    return {
        "rule": trace.meta["sharing"], "size": size, "say": _said(trace, index, lang),
        "seqs": rows, "pool": pool, "figures": figures(trace, index),
    }  # fmt: skip


def _said(trace: Trace, index: int, lang: str) -> str:
    """The step's sentence, and what the rule makes it compute again. The rule's name stands above it."""
    text = sentence(trace, index, lang).text.removesuffix(t(f"rule.{trace.meta['sharing']}", lang))
    again = figures(trace, index)["again"] - (figures(trace, index - 1)["again"] if index else 0)
    return text + t("sharing_page.again", lang, n=again) if again else text


def figures(trace: Trace, index: int) -> dict[str, int]:
    """Up to and including step ``index``: blocks in ``use`` now, what the tables ``list``, the ``peak``,
    ``copies`` and the tokens ``copied``, and the tokens computed ``again`` although a parent had them."""
    steps = trace.steps[: index + 1]
    copies = [e for step in steps for e in step.events if isinstance(e, Copy)]
    now = [block.ref for block in steps[-1].blocks if block.state == "used"]
    return {
        "use": len(now),
        "list": sum(now),
        "peak": max(sum(b.state == "used" for b in step.blocks) for step in steps),
        "copies": len(copies),
        "copied": sum(e.tokens for e in copies),
        "again": _again(steps),
    }


def _again(steps: list[Step]) -> int:
    """Tokens that a child computes although its parent's keys and values for them existed at the fork."""
    known, again = Counter[str](), 0
    for step in steps:
        again += sum(
            max(min(known[e.sequence], e.position + e.count) - e.position, 0)
            for e in step.events
            if isinstance(e, Write)
        )
        written = {view.id: view.written for view in step.sequences}
        for event in step.events:
            if isinstance(event, Fork):
                known[event.child] = written.get(event.parent, 0)
    return again
