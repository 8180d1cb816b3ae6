"""A step as lines for the terminal: what happened, what each sequence sees, what the device holds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from core.cli.text import cells, token_text, width
from core.memory import events as ev
from core.memory.views import BlockView, SequenceView
from core.trace.step import Step, Trace

MAX_CELL = 12  # columns a token may take; longer ones are cut


def show_step(trace: Trace, step: Step) -> str:
    """The picture of a step: a pure function of the step, and of the trace's token texts and block size."""
    size, total = trace.meta["block_size"], trace.meta["num_blocks"]
    columns = _columns(step, trace.tokens)
    blocks = {block.id: block for block in step.blocks}
    lines = [f"── step {step.index} · {step.kind} " + "─" * 40]
    lines += [f"   {sentence}" for sentence in _happened(step.events)]
    live = [s for s in step.sequences if s.state != "finished"]
    lines += [line for s in live for line in _sequence(s, blocks, trace.tokens, size, columns)]
    lines += _pool(step, trace.tokens, size, total, columns)
    return "\n".join(lines)


def _columns(step: Step, tokens: Mapping[int, bytes]) -> int:
    shown = {token for block in (*step.blocks, *step.host_blocks) for token in block.token_ids}
    widest = max((width(token_text(tokens.get(token), token)) for token in shown), default=1)
    return min(MAX_CELL, widest)


def _sequence(
    s: SequenceView, blocks: Mapping[int, BlockView], tokens: Mapping[int, bytes], size: int, columns: int
) -> Iterable[str]:
    newest = token_text(tokens.get(s.token_ids[-1]), s.token_ids[-1]) if s.token_ids else ""
    pending = (
        f", next to be written: {newest!r}" if s.state == "running" and s.written < len(s.token_ids) else ""
    )
    yield f"   {s.id}  {s.state}, {len(s.token_ids)} tokens, {s.written} written{pending}"
    for logical, physical in enumerate(s.block_table):
        block = blocks.get(physical)
        ref, held = (block.ref, block.token_ids) if block else (0, ())
        mapping = f"logical {logical:>3} → physical {physical:>4}  ref {ref}"
        yield f"      {mapping}  {cells(held, tokens, size, columns)}"


def _pool(step: Step, tokens: Mapping[int, bytes], size: int, total: int, columns: int) -> Iterable[str]:
    used = [block for block in step.blocks if block.state == "used"]
    cached = len(step.blocks) - len(used)
    filled = sum(block.filled for block in used)
    yield (
        f"   pool: {len(used)} of {total} blocks used, {cached} cached, {total - len(step.blocks)} free; "
        f"{filled} of {total * size} slots hold a token"
    )
    owners = _owners(step.sequences)
    for block in sorted(step.blocks, key=lambda block: block.id):
        whose = " ".join(owners.get(block.id, ())) or "nobody: reusable"
        state = f"ref {block.ref}" if block.state == "used" else "cached"
        yield f"      {block.id:>4}  {state:<6}  {cells(block.token_ids, tokens, size, columns)}  {whose}"
    free = _ranges(set(range(total)) - {block.id for block in step.blocks})
    yield f"      free  {free or 'none'}"
    for block in step.host_blocks:
        yield f"      host {block.id:>3}  ref {block.ref}  {cells(block.token_ids, tokens, size, columns)}"


def _owners(sequences: Iterable[SequenceView]) -> dict[int, list[str]]:
    owners: dict[int, list[str]] = {}
    for s in sequences:
        for block in s.block_table:
            owners.setdefault(block, []).append(s.id)
    return owners


def _ranges(numbers: set[int]) -> str:
    """{0, 1, 2, 5} as "0-2, 5"."""
    parts: list[list[int]] = []
    for number in sorted(numbers):
        if parts and parts[-1][1] == number - 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in parts)


def _happened(events: Iterable[ev.Event]) -> Iterable[str]:
    """One sentence for each event that is not seen in the tables anyway."""
    for e in events:
        match e:
            case ev.Arrive():
                yield f"{e.request} arrives"
            case ev.Admit():
                yield f"{e.request} is admitted"
            case ev.Wait():
                yield f"{e.request} waits: needs {e.need}, has {e.have} ({e.reason})"
            case ev.Reject():
                yield f"{e.request} is refused: needs {e.need}, has {e.have} ({e.reason})"
            case ev.Allocate():
                yield f"block {e.block} is taken for {e.sequence}, logical block {e.logical}"
            case ev.Share(cause="prefix"):
                yield f"{e.sequence} finds block {e.block} in the cache (ref {e.ref})"
            case ev.Fork():
                yield f"{e.child} forks from {e.parent} and shares its blocks"
            case ev.Copy():
                what = f"{e.sequence} copies {e.tokens} tokens"
                yield f"copy-on-write: {what} from block {e.source} to block {e.target}"
            case ev.Evict():
                yield f"block {e.block} is evicted from the cache"
            case ev.Preempt():
                yield f"{e.sequence} is preempted ({e.how})"
            case ev.Resume():
                yield f"{e.sequence} resumes ({e.how})"
            case ev.SwapOut():
                yield f"block {e.block} moves to host block {e.host_block}"
            case ev.SwapIn():
                yield f"host block {e.host_block} comes back to block {e.block}"
            case ev.Sample():
                yield f"{e.sequence} samples {e.text!r}"
            case ev.Finish():
                yield f"{e.sequence} is finished ({e.reason})"
            case ev.Free():
                yield f"block {e.block} is free"
            case ev.Cache():
                yield f"block {e.block} stays in the cache"
