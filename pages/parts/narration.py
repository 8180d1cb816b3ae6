"""What happened and why, in one or two plain sentences a lecturer would say; every number is of the step.

``narrate`` speaks about one event, ``sentence`` about a step: its most important event, with what belongs to
it. What each event is called is in ``say.py``, the words themselves in assets/words.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from core.memory import events as ev
from core.memory.events import Event
from core.trace.step import Step, Trace
from pages.parts.say import NARRATORS, depends_on_rule, rule, token_at, why_the_hit_ends
from pages.parts.scene import Scene
from pages.parts.words import t


@dataclass(frozen=True, slots=True)
class Narration:
    """``kind``: the jump kind it speaks about (see ``transport.JUMPS``) or "prefill", "decode", "wait",
    "reject", "idle"; ``headline``: two or three words; ``text``: one to three sentences."""

    kind: str
    headline: str
    text: str


def narrate(event: Event, step: Step, previous: Step | None, lang: str, trace: Trace | None = None) -> str:
    """One or two sentences on ``event``, which happened in ``step``; ``previous``: the step before, or None.

    With ``trace`` the sentence can name tokens, the block size, what stays free and the sharing rule.
    Raises ValueError for an event type that it has no words for.
    """
    narrator = NARRATORS.get(type(event))
    if narrator is None:
        raise ValueError(f"there are no words for the event {event.name!r}; add a narrator for it.")
    scene = Scene(step, previous, lang, trace)
    return narrator(scene, event) + (rule(scene) if depends_on_rule(event) else "")


def sentence(trace: Trace, index: int, lang: str) -> Narration:
    """The one sentence above the picture: the most important thing that step ``index`` did, and why."""
    scene = Scene(trace.steps[index], trace.steps[index - 1] if index else None, lang, trace)
    for speak in _IN_ORDER_OF_WEIGHT:
        found = speak(scene)
        if found:
            kind, text = found
            return Narration(kind, t(f"headline.{kind}", lang), text)
    return Narration("idle", t("headline.idle", lang), t("step.idle", lang))


Found = tuple[str, str] | None  # kind and text


def _all(scene: Scene, *types: type[Event]) -> list[Event]:
    return [event for event in scene.step.events if isinstance(event, types)]


def _say(scene: Scene, event: Event) -> str:
    return NARRATORS[type(event)](scene, event)


def _more(scene: Scene, count: int) -> str:
    """ "The same happens n more times in this step", or nothing."""
    return t("step.more", scene.lang, n=count) if count > 0 else ""


def _reject(scene: Scene) -> Found:
    rejected = _all(scene, ev.Reject)
    return ("reject", _say(scene, rejected[0])) if rejected else None


def _preempt(scene: Scene) -> Found:
    events = _all(scene, ev.Preempt)
    if not events:
        return None
    return "preempt", _say(scene, events[0]) + _more(scene, len(events) - 1)


def _copy(scene: Scene) -> Found:
    copies = _all(scene, ev.Copy)
    if not copies:
        return None
    text = _say(scene, copies[0])
    if len(copies) == 2:
        second = copies[1]
        name = scene.name(second.sequence)
        text += t("step.copy.too", scene.lang, s=name, source=second.source, target=second.target)
    else:
        text += _more(scene, len(copies) - 1)
    return "copy", text + _in_place(scene, copies) + rule(scene)


def _in_place(scene: Scene, copies: list[Event]) -> str:
    """The last holder of a copied block writes without a copy: say so where it happens."""
    sources = {copy.source for copy in copies}
    for event, holders in scene.walk():
        if isinstance(event, ev.Write) and event.block in sources and holders.ref(event.block) == 1:
            return t("step.in_place", scene.lang, s=scene.name(event.sequence), block=event.block)
    return ""


def _swap(scene: Scene) -> Found:
    back = _all(scene, ev.SwapIn)
    out = _all(scene, ev.SwapOut)
    if not (back or out):
        return None
    if back:
        names = scene.join(list(dict.fromkeys(event.sequence for event in back)))
        return "swap", t("step.swap_in", scene.lang, s=names, n=len(back))
    return "swap", t("step.swap_out", scene.lang, n=len(out))


def _resume(scene: Scene) -> Found:
    events = _all(scene, ev.Resume)
    return ("resume", _say(scene, events[0])) if events else None


def _evict(scene: Scene) -> Found:
    events = _all(scene, ev.Evict)
    return ("evict", _say(scene, events[0]) + _more(scene, len(events) - 1)) if events else None


def _prefix(scene: Scene) -> Found:
    """A prefix hit, how long it is and why it ends there."""
    hits = [e for e in _all(scene, ev.Share) if e.cause == "prefix"]
    if not hits:
        return None
    sequence = hits[0].sequence
    mine = [e.block for e in hits if e.sequence == sequence]
    size = scene.block_size
    text = t("step.prefix", scene.lang, s=scene.name(sequence), n=len(mine), blocks=scene.numbers(mine),
             tokens=len(mine) * size)  # fmt: skip
    return "share", text + why_the_hit_ends(scene, sequence) + rule(scene)


def _fork(scene: Scene) -> Found:
    """One prompt, several answers: who shares what, and that nothing is copied."""
    forks = _all(scene, ev.Fork)
    if not forks or _all(scene, ev.Finish):
        return None
    children = [fork.child for fork in forks]
    shares = [e for e in _all(scene, ev.Share) if e.sequence == children[0]]
    ref = max((e.ref for e in _all(scene, ev.Share)), default=1)
    start = t(
        "step.fork",
        scene.lang,
        n=len(children),
        children=scene.join(children),
        parent=scene.name(forks[0].parent),
    )
    same = t("step.fork.same", scene.lang, n=len(shares), ref=ref)
    return "share", start + same + rule(scene)


def _finish(scene: Scene) -> Found:
    """Who is over, what came back, and what stays because others hold it."""
    events = _all(scene, ev.Finish)
    if not events:
        return None
    freed, kept = len(_all(scene, ev.Free)), len(_all(scene, ev.Cache))
    dropped = [e for e in events if e.reason == "dropped"]
    text = _say(scene, events[0])
    if len(dropped) == len(events) and len(events) > 1:
        names = scene.join([e.sequence for e in events])
        text = t("step.dropped", scene.lang, s=names, n=len(events))
    elif len(events) > 1:
        text += t(
            "step.finish.too", scene.lang, n=len(events) - 1, s=scene.join([e.sequence for e in events[1:]])
        )
    text += t("step.given_back", scene.lang, n=freed)
    if kept:
        text += t("step.cached", scene.lang, n=kept)
    still = len({e.block for e in _all(scene, ev.Release) if e.ref > 0 and _still_held(scene, e.block)})
    return "finish", text + (t("step.still_held", scene.lang, n=still) if still else "")


def _still_held(scene: Scene, block: int) -> bool:
    return any(block in view.block_table for view in scene.step.sequences)


def _prefill(scene: Scene) -> Found:
    """A prompt computed at once, or the part of it that fits into this step."""
    grown: dict[str, int] = {}
    for event in _all(scene, ev.Write):
        grown[event.sequence] = grown.get(event.sequence, 0) + event.count
    first = next((s for s, n in grown.items() if n > 1 or s not in scene.before), None)
    if first is None:
        return None
    view = scene.now[first]
    request = scene.request(view.request)
    prompt = len(request.prompt_token_ids) if request else view.written
    blocks = scene.numbers(list(view.block_table))
    numbers = {"s": scene.name(first), "blocks": blocks, "prompt": prompt, "written": view.written}
    key = "step.prefill" if view.written >= prompt else "step.prefill.chunk"
    return "prefill", t(key, scene.lang, n=grown[first], **numbers) + _sampled_not_written(scene, first)


def _sampled_not_written(scene: Scene, sequence: str) -> str:
    view = scene.now[sequence]
    if view.state != "running" or len(view.token_ids) != view.written + 1:
        return ""
    return t("step.not_yet_written", scene.lang, token=scene.token(view.token_ids[-1]))


def _allocate(scene: Scene) -> Found:
    events = _all(scene, ev.Allocate)
    return ("allocate", _say(scene, events[0]) + _more(scene, len(events) - 1)) if events else None


def _wait(scene: Scene) -> Found:
    events = _all(scene, ev.Wait)
    return ("wait", _say(scene, events[0])) if events else None


def _decode(scene: Scene) -> Found:
    """Nothing but one token each: written now, the next one sampled."""
    writes = _all(scene, ev.Write)
    if not writes:
        return None
    first = writes[0]
    view = scene.now[first.sequence]
    numbers = {
        "s": scene.name(first.sequence),
        "token": token_at(scene, first.sequence, first.position),
        "block": first.block,
        "slot": first.offset,
        "next": scene.token(view.token_ids[-1]),
        "length": len(view.token_ids),
        "written": view.written,
    }
    key = "step.decode.one" if len(writes) == 1 else "step.decode.many"
    return "decode", t(key, scene.lang, n=len(writes), **numbers)


def _arrive(scene: Scene) -> Found:
    events = _all(scene, ev.Arrive)
    return ("arrive", _say(scene, events[0])) if events else None


_IN_ORDER_OF_WEIGHT: tuple[Callable[[Scene], Found], ...] = (
    _reject, _preempt, _copy, _swap, _evict, _prefix, _fork, _finish, _resume, _prefill, _allocate, _wait,
    _decode, _arrive,
)  # fmt: skip
