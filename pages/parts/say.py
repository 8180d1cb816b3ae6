"""One function for each kind of event: what happened and why, in the words of assets/words, with the numbers
of the step. Captions whose content depends on the sharing rule name the rule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from core.memory import events as ev
from core.memory.events import Event
from core.trace.hits import hit_end
from pages.parts.scene import Scene
from pages.parts.words import t

Narrator = Callable[[Scene, Any], str]


def rule(scene: Scene) -> str:
    """The sharing rule of the trace, in brackets, for captions that depend on it."""
    name = scene.trace.meta.get("sharing") if scene.trace else None
    known = name if name in ("copy-on-write", "append-only", "none") else "copy-on-write"
    return t(f"rule.{known}", scene.lang)


def depends_on_rule(event: Event) -> bool:
    """Whether what this event says holds under one sharing rule only."""
    return isinstance(event, (ev.Copy, ev.Fork)) or (isinstance(event, ev.Share) and event.cause != "swap")


def _arrive(scene: Scene, event: ev.Arrive) -> str:
    request = scene.request(event.request)
    name = scene.request_name(event.request)
    if request is None:
        return t("say.arrive.bare", scene.lang, name=name)
    prompt = len(request.prompt_token_ids)
    return t("say.arrive", scene.lang, name=name, prompt=prompt, new=request.max_new_tokens)


def _wait(scene: Scene, event: ev.Wait) -> str:
    """``need`` and ``have`` are in blocks, sequences or tokens: the reason says which."""
    reason = event.reason if event.reason in ("sequences", "tokens", "watermark") else "blocks"
    name = scene.request_name(event.request)
    return t(f"say.wait.{reason}", scene.lang, name=name, need=event.need, have=event.have)


def _reject(scene: Scene, event: ev.Reject) -> str:
    key = "say.reject.blocks" if event.have == scene.num_blocks else "say.reject.limit"
    name = scene.request_name(event.request)
    return t(key, scene.lang, name=name, need=event.need, have=event.have)


def _admit(scene: Scene, event: ev.Admit) -> str:
    """With a prefix cache also why not more of the text was found."""
    said = t("say.admit", scene.lang, name=scene.request_name(event.request))
    first = next((s.id for s in scene.step.sequences if s.request == event.request), None)
    cached = scene.trace is not None and scene.trace.meta.get("prefix_cache")
    return said + (why_the_hit_ends(scene, first) if cached and first else "")


def why_the_hit_ends(scene: Scene, sequence: str) -> str:
    """Why no more of a text was found in the cache: with which text it was compared, and where they part."""
    index = scene.step.index
    if scene.trace is None or not any(scene.step is s for s in scene.trace.steps[index : index + 1]):
        return ""  # a step that is only planned
    end = hit_end(scene.trace, index, sequence)
    if end is None:
        return ""
    numbers = {"number": end.number, "size": scene.block_size, "other": scene.name(end.other)}
    start = t("say.hit.more" if end.hit else "say.hit.nothing", scene.lang)
    return start + t(f"say.hit.{end.why}", scene.lang, **numbers)


def _fork(scene: Scene, event: ev.Fork) -> str:
    shared = [e for e in scene.step.events if isinstance(e, ev.Share) and e.sequence == event.child]
    child, parent = scene.name(event.child), scene.name(event.parent)
    return t("say.fork", scene.lang, child=child, parent=parent, n=len(shared))


def _allocate(scene: Scene, event: ev.Allocate) -> str:
    free = max(scene.holders_at(event).free - 1, 0)
    key = "say.allocate.first" if event.logical == 0 else "say.allocate.next"
    numbers = {"s": scene.name(event.sequence), "block": event.block, "logical": event.logical}
    text = t(key, scene.lang, last=event.logical - 1, **numbers)
    return text + (t("say.allocate.left", scene.lang, n=free) if scene.num_blocks else "")


def _share(scene: Scene, event: ev.Share) -> str:
    size = scene.block_size
    first = event.logical * size
    cause = event.cause if event.cause in ("fork", "prefix", "swap") else "fork"
    numbers = {"s": scene.name(event.sequence), "block": event.block, "ref": event.ref}
    return t(
        f"say.share.{cause}",
        scene.lang,
        **numbers,
        logical=event.logical,
        first=first,
        last=first + max(size, 1) - 1,
        n=size,
    )


def _others(scene: Scene, event: ev.Copy) -> list[str]:
    owners = scene.holders_at(event).lists.get(event.source, [])
    return [owner for owner in owners if owner != event.sequence]


def _copy(scene: Scene, event: ev.Copy) -> str:
    others = _others(scene, event)
    written = _written_after(scene, event)
    key = "say.copy.then" if written else "say.copy"
    return t(
        key,
        scene.lang,
        n=len(others),
        s=scene.name(event.sequence),
        others=scene.join(others),
        source=event.source,
        target=event.target,
        ref=len(others) + 1,
        less=len(others),
        tokens=event.tokens,
        token=written,
    )


def _written_after(scene: Scene, copy: ev.Copy) -> str:
    """The token that the copier then writes into its new block, in quotes; "" when none follows."""
    for event in scene.step.events:
        if isinstance(event, ev.Write) and (event.sequence, event.block) == (copy.sequence, copy.target):
            return token_at(scene, event.sequence, event.position)
    return ""


def token_at(scene: Scene, sequence: str, position: int) -> str:
    view = scene.now.get(sequence)
    return scene.token(view.token_ids[position]) if view and position < len(view.token_ids) else ""


def _write(scene: Scene, event: ev.Write) -> str:
    numbers: dict[str, object] = {
        "s": scene.name(event.sequence),
        "block": event.block,
        "slot": event.offset,
        "last": event.offset + event.count - 1,
        "first_position": event.position,
        "last_position": event.position + event.count - 1,
        "n": event.count,
        "token": token_at(scene, event.sequence, event.position),
    }
    before = scene.before.get(event.sequence)
    if event.count == 1 and before is not None and event.position == before.written:
        text = t("say.write.one", scene.lang, **numbers)
        return text + (t("say.write.alone", scene.lang, **numbers) if _last_holder(scene, event) else "")
    return t("say.write.many", scene.lang, **numbers)


def _last_holder(scene: Scene, event: ev.Write) -> bool:
    """Whether others listed the block before this step or earlier in it, and only the writer does now."""
    if event.offset == 0 or scene.holders_at(event).ref(event.block) != 1:
        return False
    lost = [e for e in scene.step.events if isinstance(e, ev.Copy) and e.source == event.block]
    return bool(lost)


def _release(scene: Scene, event: ev.Release) -> str:
    owners = [o for o in scene.holders_at(event).lists.get(event.block, []) if o != event.sequence]
    key = "say.release.kept" if event.ref else "say.release.last"
    numbers = {"s": scene.name(event.sequence), "block": event.block, "ref": event.ref}
    return t(key, scene.lang, n=len(owners), others=scene.join(owners), **numbers)


def _block(scene: Scene, event: ev.Free | ev.Cache | ev.Evict) -> str:
    return t(f"say.{event.name}", scene.lang, block=event.block)


def _preempt(scene: Scene, event: ev.Preempt) -> str:
    how = event.how if event.how in ("recompute", "swap") else "recompute"
    before = scene.before.get(event.sequence)
    blocks, written = (len(before.block_table), before.written) if before else (0, 0)
    name = scene.name(event.sequence)
    return t(f"say.preempt.{how}", scene.lang, s=name, n=blocks, written=written)


def _resume(scene: Scene, event: ev.Resume) -> str:
    how = event.how if event.how in ("recompute", "swap") else "recompute"
    before = scene.before.get(event.sequence)
    tokens = len(before.token_ids) if before else 0
    return t(f"say.resume.{how}", scene.lang, s=scene.name(event.sequence), n=tokens)


def _swap_out(scene: Scene, event: ev.SwapOut) -> str:
    ref = scene.holders_at(event).ref(event.block)
    return t("say.swap_out", scene.lang, block=event.block, host=event.host_block, n=ref)


def _swap_in(scene: Scene, event: ev.SwapIn) -> str:
    numbers = {"block": event.block, "host": event.host_block, "logical": event.logical}
    return t("say.swap_in", scene.lang, s=scene.name(event.sequence), **numbers)


def _sample(scene: Scene, event: ev.Sample) -> str:
    view = scene.now.get(event.sequence)
    length, written = (len(view.token_ids), view.written) if view else (0, 0)
    key = "say.sample" if view is None or view.state != "finished" else "say.sample.last"
    token = scene.token(event.token_id)
    return t(key, scene.lang, s=scene.name(event.sequence), token=token, length=length, written=written)


def _finish(scene: Scene, event: ev.Finish) -> str:
    view = scene.now.get(event.sequence)
    request = scene.request(view.request) if view else None
    new = len(view.token_ids) - len(request.prompt_token_ids) if view and request else 0
    reason = event.reason if event.reason in FINISH_REASONS else "length"
    return t(f"say.finish.{reason}", scene.lang, s=scene.name(event.sequence), n=new)


FINISH_REASONS = ("length", "stop", "dropped", "cancelled", "out_of_memory")


def strategy_name(name: str, lang: str) -> str:
    """A contiguous strategy as the screen calls it; an unknown one keeps its own name."""
    try:
        return t(f"strategy.{name}", lang)
    except ValueError:
        return name


def _contiguous(scene: Scene, event: ev.Reserve | ev.Grow | ev.GiveBack) -> str:
    numbers: dict[str, object] = {
        "strategy": strategy_name(event.strategy, scene.lang),
        "s": scene.name(event.sequence),
        "n": event.length,
        "first": event.start,
        "last": event.start + event.length - 1,
    }
    if isinstance(event, ev.Grow):
        numbers |= {"old": event.old_length, "copied": event.copied}
    return t(f"say.{event.name}", scene.lang, **numbers)


NARRATORS: dict[type[Event], Narrator] = {
    ev.Arrive: _arrive,
    ev.Wait: _wait,
    ev.Reject: _reject,
    ev.Admit: _admit,
    ev.Fork: _fork,
    ev.Allocate: _allocate,
    ev.Share: _share,
    ev.Copy: _copy,
    ev.Write: _write,
    ev.Release: _release,
    ev.Free: _block,
    ev.Cache: _block,
    ev.Evict: _block,
    ev.Preempt: _preempt,
    ev.Resume: _resume,
    ev.SwapOut: _swap_out,
    ev.SwapIn: _swap_in,
    ev.Sample: _sample,
    ev.Finish: _finish,
    ev.Reserve: _contiguous,
    ev.Grow: _contiguous,
    ev.GiveBack: _contiguous,
}
