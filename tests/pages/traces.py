"""Traces for tests of the picture, made by hand: no engine, no model. Every event keeps the state honest."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from core.memory import events as ev
from core.memory.events import Event
from core.memory.views import BlockView, RequestView, SequenceView, Usage
from core.trace.step import Step, Trace


class Book:
    """Writes a trace step by step: each method notes the events and moves the tables and counts with them."""

    def __init__(self, size: int, blocks: int, *, order: list[int] | None = None, **meta: object) -> None:
        base = {"model": {"name": "by hand"}, "device": "cpu", "block_size": size, "num_blocks": blocks}
        base |= {"sharing": "copy-on-write", "prefix_cache": False, "scenario": None, "seed": 0}
        self.trace = Trace(meta=base | {"strategies": ["paged"]} | meta)
        self.size, self.blocks = size, blocks
        self.free = list(
            order or [(7 * i + 3) % blocks if blocks % 7 else (5 * i + 3) % blocks for i in range(blocks)]
        )
        self.free += [block for block in range(blocks) if block not in self.free]
        self.sequences: dict[str, SequenceView] = {}
        self.content: dict[int, tuple[int, ...]] = {}
        self.cached: list[int] = []
        self.host: dict[int, tuple[int, ...]] = {}
        self.events: list[Event] = []
        self.runs: dict[str, tuple[int, int]] = {}
        self.max_len = 0
        self.waiting = 0

    # requests and words

    def request(self, prompt: list[bytes], *, n: int = 1, new: int = 8, mode: str = "sample") -> str:
        """A request arrives and is admitted; its tokens get ids of their own by text."""
        name = f"r{len(self.trace.requests)}"
        ids = tuple(self.token(data) for data in prompt)
        text = b"".join(prompt).decode("utf-8", "replace")
        request = RequestView(
            id=name, prompt_text=text, prompt_token_ids=ids, mode=mode, n=n, max_new_tokens=new,
            arrival_step=len(self.trace.steps),
        )  # fmt: skip
        self.trace.requests.append(request)
        self.events += [ev.Arrive(name), ev.Admit(name)]
        return name

    def token(self, data: bytes) -> int:
        """The id of a token's bytes."""
        for known, there in self.trace.tokens.items():
            if there == data:
                return known
        token_id = 100 + len(self.trace.tokens)
        self.trace.tokens[token_id] = data
        return token_id

    def ref(self, block: int) -> int:
        return sum(block in view.block_table for view in self.sequences.values())

    def change(self, name: str, **fields: object) -> None:
        self.sequences[name] = replace(self.sequences[name], **fields)

    # what can happen

    def start(self, request: str, *, reserve: int = 0) -> str:
        """The request's next sequence, empty so far."""
        number = sum(view.request == request for view in self.sequences.values())
        name = f"{request}.{number}"
        prompt = next(r for r in self.trace.requests if r.id == request).prompt_token_ids
        self.sequences[name] = SequenceView(
            id=name,
            request=request,
            parent=None,
            state="running",
            token_ids=prompt,
            written=0,
            block_table=(),
        )
        if reserve:
            at = sum(length for _, length in self.runs.values())
            self.runs[name] = (at, reserve)
            self.events.append(ev.Reserve("reserve max", name, at, reserve))
        return name

    def take(self) -> int:
        """A free block; the oldest cached one is evicted when there is none."""
        if not self.free:
            oldest = self.cached.pop(0)
            self.events.append(ev.Evict(oldest))
            del self.content[oldest]
            self.free.append(oldest)
        return self.free.pop(0)

    def write(self, name: str, count: int | None = None) -> None:
        """Write the next ``count`` tokens (default: all not yet written): allocate and copy as needed."""
        view = self.sequences[name]
        end = len(view.token_ids) if count is None else view.written + count
        while (position := self.sequences[name].written) < end:
            view = self.sequences[name]
            offset, logical = position % self.size, position // self.size
            if logical == len(view.block_table):
                block = self.take()
                self.events.append(ev.Allocate(block, name, logical))
                self.change(name, block_table=(*view.block_table, block))
                self.content[block] = ()
            block = self.sequences[name].block_table[logical]
            if self.ref(block) > 1 and self.trace.meta["sharing"] == "copy-on-write":
                block = self._copy(name, logical, offset)
            run = min(self.size - offset, end - position)
            self.events.append(ev.Write(name, position, block, offset, run))
            self.content[block] = self.content[block][:offset] + view.token_ids[position : position + run]
            self.change(name, written=position + run)

    def _copy(self, name: str, logical: int, tokens: int) -> int:
        table = self.sequences[name].block_table
        target = self.take()
        self.events.append(ev.Copy(table[logical], target, name, logical, tokens))
        self.content[target] = self.content[table[logical]]
        self.change(name, block_table=(*table[:logical], target, *table[logical + 1 :]))
        return target

    def fork(self, parent: str) -> str:
        """A child with the parent's tokens and blocks."""
        view = self.sequences[parent]
        name = f"{view.request}.{sum(v.request == view.request for v in self.sequences.values())}"
        self.events.append(ev.Fork(parent, name))
        self.sequences[name] = replace(view, id=name, parent=parent, block_table=())
        for logical, block in enumerate(view.block_table):
            self.share(name, block, logical, "fork")
        return name

    def share(self, name: str, block: int, logical: int, cause: str) -> None:
        if block in self.cached:
            self.cached.remove(block)
        self.change(name, block_table=(*self.sequences[name].block_table, block))
        self.events.append(ev.Share(block, name, logical, self.ref(block), cause))

    def sample(self, name: str, data: bytes, logprob: float | None = None) -> None:
        view = self.sequences[name]
        token = self.token(data)
        self.events.append(ev.Sample(name, token, data.decode("utf-8", "replace")))
        self.change(name, token_ids=(*view.token_ids, token), logprob=logprob)

    def leave(self, name: str, state: str = "finished", *, cache: bool = False) -> None:
        """Take all blocks off the table, the last one first."""
        while table := self.sequences[name].block_table:
            block = table[-1]
            self.change(name, block_table=table[:-1])
            self.events.append(ev.Release(block, name, self.ref(block)))
            if self.ref(block):
                continue
            if cache and len(self.content[block]) == self.size:
                self.events.append(ev.Cache(block))
                self.cached.append(block)
            else:
                self.events.append(ev.Free(block))
                self.free.append(block)
                del self.content[block]
        self.change(name, state=state)

    def finish(self, name: str, reason: str = "length", *, cache: bool = False) -> None:
        self.events.append(ev.Finish(name, reason))
        self.leave(name, cache=cache)
        if name in self.runs:
            start, length = self.runs.pop(name)
            self.events.append(ev.GiveBack("reserve max", name, start, length))

    def preempt(self, name: str, how: str = "recompute") -> None:
        self.events.append(ev.Preempt(name, how))
        if how == "swap":
            for block in self.sequences[name].block_table:
                if self.content[block] not in self.host.values():
                    self.events.append(ev.SwapOut(block, len(self.host)))
                    self.host[len(self.host)] = self.content[block]
            self.leave(name, "swapped")
            return
        self.leave(name, "preempted")
        self.change(name, written=0)

    def swap_in(self, name: str) -> None:
        self.events.append(ev.Resume(name, "swap"))
        for logical, (host, content) in enumerate(sorted(self.host.items())):
            block = self.take()
            self.events.append(ev.SwapIn(block, host, name, logical))
            self.content[block] = content
            self.change(name, block_table=(*self.sequences[name].block_table, block))
        self.host = {}
        self.change(name, state="running")

    def note(self, event: Event) -> None:
        self.events.append(event)

    # the step

    def step(self, kind: str = "decode") -> Step:
        """Close the step: the picture after everything that was noted."""
        used = {b for view in self.sequences.values() for b in view.block_table}
        blocks = [
            BlockView(
                id=b, state="used" if b in used else "cached", ref=self.ref(b), filled=len(c), token_ids=c
            )
            for b, c in sorted(self.content.items())
        ]
        host = tuple(
            BlockView(id=b, state="used", ref=1, filled=len(c), token_ids=c)
            for b, c in sorted(self.host.items())
        )
        step = Step(
            index=len(self.trace.steps), kind=kind, events=tuple(self.events),
            sequences=tuple(self.sequences.values()),
            blocks=tuple(blocks), usage=self._usage(blocks), host_blocks=host,
        )  # fmt: skip
        self.trace.steps.append(step)
        self.events = []
        return step

    def _usage(self, blocks: list[BlockView]) -> tuple[Usage, ...]:
        capacity = self.size * self.blocks
        live = sum(block.filled for block in blocks if block.state == "used")
        held = sum(self.size for block in blocks if block.state == "used")
        cached = sum(self.size for block in blocks if block.state == "cached")
        running = sum(view.state == "running" for view in self.sequences.values())
        paged = Usage(
            strategy="paged", capacity=capacity, live=live, reserved=held - live, cached=cached,
            free=capacity - held - cached, running=running, waiting=self.waiting,
        )  # fmt: skip
        if "reserve max" not in self.trace.meta["strategies"]:
            return (paged,)
        taken = sum(length for _, length in self.runs.values())
        alive = sum(min(self.sequences[name].written, length) for name, (_, length) in self.runs.items())
        contiguous = Usage(
            strategy="reserve max", capacity=capacity, live=alive, internal=taken - alive,
            free=capacity - taken,
            running=len(self.runs), waiting=max(running - len(self.runs), 0),
        )  # fmt: skip
        return paged, contiguous


def words(text: str) -> list[bytes]:
    """English words as tokens: each with the space before it."""
    first, *rest = text.split(" ")
    return [first.encode(), *(f" {word}".encode() for word in rest)]


BOTH = ["paged", "reserve max"]


def two_answers() -> Trace:
    """One prompt, two answers: shared prompt, copy-on-write, a finish."""
    order = [1, 3, 4, 9, 12, 2, 7, 14, 6]
    book = Book(4, 16, order=order, strategies=BOTH, scenario="two answers")
    request = book.request(
        [b"Trans", b"late", b" to", b" French", b":", b" The", b" cat", b" sat", b".", b"\n"], n=2, new=6
    )
    a = book.start(request, reserve=32)
    book.write(a)
    b = book.fork(a)
    book.runs[b] = (32, 32)
    book.note(ev.Reserve("reserve max", b, 32, 32))
    book.sample(a, b"Le")
    book.sample(b, b"Un")
    book.step("prefill")
    for one, two in (
        ([b" chat", b" chat"]),
        ([b" s", b" \xc3"]),
        ([b"'", b"\xa9"]),
        ([b"est", b"tait"]),
        ([b" assis", b"."]),
    ):
        for name, data in ((a, one), (b, two)):
            book.write(name)
            book.sample(name, data)
        book.step()
    book.write(b)
    book.finish(a)
    book.finish(b)
    book.step()
    return book.trace


def chinese() -> Trace:
    """One Chinese sequence over blocks that are not neighbours, with characters cut in half."""
    book = Book(4, 8, order=[1, 3, 6, 0], strategies=BOTH, scenario="中国的历史")
    pieces = ["中国", "的", "历史", "非常"]
    a = book.start(book.request([p.encode() for p in pieces], new=6), reserve=16)
    book.write(a)
    book.sample(a, "悠久".encode())
    book.step("prefill")
    for data in ("，".encode(), b"\xe4\xbd", b"\xa0", b"\n", b"\xf0\x9f\x98\x80"):
        book.write(a)
        book.sample(a, data)
        book.step()
    book.finish(a)
    book.step()
    return book.trace


def crowd(count: int = 16, blocks: int = 256, size: int = 16, steps: int = 12, prompt: int = 150) -> Trace:
    """Many sequences at once; every fourth step one ends and another arrives."""
    book = Book(size, blocks, scenario="crowd")
    names = []
    for number in range(count):
        text = [f" w{number}_{i}".encode() for i in range(prompt + 5 * number)]
        name = book.start(book.request(text, new=40))
        book.write(name)
        book.sample(name, b" go")
        names.append(name)
    book.step("prefill")
    for k in range(steps):
        for place, name in enumerate(names):
            book.write(name)
            book.sample(name, f" t{(k * 7 + place) % 60}".encode())
        if k % 4 == 3:
            book.finish(names.pop(0))
            late = book.start(book.request([b" new"] * 20, new=9))
            book.write(late)
            book.sample(late, b" hi")
            names.append(late)
        book.step()
    return book.trace


def beams(width: int = 3, steps: int = 7) -> Trace:
    """Beam search: in every step one hypothesis dies and another is continued twice."""
    book = Book(2, 24, scenario="beams")
    request = book.request([p.encode() for p in ("中国", "的", "历史")], n=width, new=steps + 1, mode="beam")
    live = [book.start(request)]
    book.write(live[0])
    live += [book.fork(live[0]) for _ in range(width - 1)]
    for place, name in enumerate(live):
        book.sample(name, ("悠久", "很", "源远")[place % 3].encode(), -0.5 - place)
    book.step("prefill")
    for k in range(steps):
        for name in live:
            book.write(name)
        if k % 2 == 0:
            child, dead = book.fork(live[0]), live.pop()
            book.finish(dead, "dropped")
            live.insert(1, child)
        for place, name in enumerate(live):
            book.sample(
                name, f"{'长远流光'[(k + place) % 4]}".encode(), round(-0.8 * (k + 1) - 0.3 * place, 3)
            )
        book.step()
    return book.trace


def swap() -> Trace:
    """A pool that runs dry: one request moves to the host and comes back."""
    book = Book(4, 6, scenario="runs dry")
    a = book.start(book.request(words("the first request says quite a lot"), new=12))
    b = book.start(book.request(words("and the second too , at length ."), new=9))
    for name in (a, b):
        book.write(name)
        book.sample(name, b" well")
    book.step("prefill")
    for k in range(4):
        for name in (a, b):
            book.write(name)
            book.sample(name, f" x{k}".encode())
        book.step()
    book.preempt(b, "swap")
    for k in range(4):
        book.write(a)
        book.sample(a, f" y{k}".encode())
        book.waiting = 1
        book.step()
    book.finish(a)
    book.waiting = 0
    book.step()
    book.swap_in(b)
    book.write(b)
    book.sample(b, b" back")
    book.step()
    return book.trace


def prefix() -> Trace:
    """A shared system prompt: the second question finds two blocks by hash, one is later evicted."""
    book = Book(4, 8, scenario="system prompt", sharing="append-only", prefix_cache=True)
    system = words("You are a helpful and brief assistant")
    a = book.start(book.request([*system, b" Why", b"?"], new=3))
    book.write(a)
    book.sample(a, b" So")
    book.step("prefill")
    book.write(a)
    book.sample(a, b".")
    book.finish(a, "stop", cache=True)
    book.step()
    b = book.start(book.request([*system, b" How", b" on", b" earth", b"?"], new=4))
    first = book.cached[-1]
    book.share(b, first, 0, "prefix")
    book.change(b, written=4)
    book.write(b)
    book.sample(b, b" By")
    book.step("prefill")
    book.finish(b, "cancelled", cache=True)
    book.step()
    c = book.start(book.request([f" k{i}".encode() for i in range(27)], new=4))
    book.write(c)
    book.sample(c, b" end")
    book.step("prefill")
    return book.trace


def preempted() -> Trace:
    """Recompute: the later request gives everything up and starts again."""
    book = Book(2, 5, scenario="recompute")
    a = book.start(book.request(words("one two three four"), new=6))
    b = book.start(book.request(words("five six seven"), new=4))
    for name in (a, b):
        book.write(name)
        book.sample(name, b" a")
    book.step("prefill")
    book.preempt(b)
    book.write(a)
    book.sample(a, b" b")
    book.waiting = 1
    book.note(ev.Wait("r1", 2, 1, "blocks"))
    book.step()
    book.finish(a)
    book.waiting = 0
    book.step()
    book.note(ev.Resume(b, "recompute"))
    book.change(b, state="running")
    book.write(b)
    book.sample(b, b" c")
    book.step("prefill")
    book.note(ev.Arrive("r9"))
    book.note(ev.Reject("r9", 99, 5, "too long"))
    book.step("idle")
    return book.trace


def samples(count: int = 4) -> Trace:
    """n answers to a prompt whose last block is half full: n - 1 copies, the last holder writes in place."""
    book = Book(4, max(32, 4 * count), scenario="many answers")
    a = book.start(book.request(words("Tell me a joke about cats please"), n=count, new=4))
    book.write(a)
    names = [a, *(book.fork(a) for _ in range(count - 1))]
    for place, name in enumerate(names):
        book.sample(name, (b" Why", b" One", b" Two", b" A")[place % 4])
    book.step("prefill")
    for k in range(3):
        for place, name in enumerate(names):
            book.write(name)
            book.sample(name, f" s{k}{place}".encode())
        book.step()
    return book.trace


BY_NAME = {
    "two": two_answers,
    "chinese": chinese,
    "crowd": crowd,
    "small_crowd": lambda: crowd(6, 64, 8, 10, 20),
    "huge": lambda: crowd(8, 4096, 16, 5, 400),
    "dense": lambda: crowd(32, 1024, 16, 3, 60),
    "beams": beams,
    "wide_beams": lambda: beams(4, 9),
    "swap": swap,
    "prefix": prefix,
    "preempted": preempted,
    "samples": samples,
    "many": lambda: samples(16),
    "one": lambda: crowd(2, 40, 1, 3, 9),
    "big_block": lambda: crowd(3, 16, 64, 3, 100),
    "mid_block": lambda: crowd(3, 24, 16, 20, 25),
}


def scheduled(*requests: dict, blocks: int = 24, size: int = 4, **config: object) -> Trace:
    """A trace of the real scheduler with made-up tokens; ``requests``: arguments of ``driver.request``."""
    from tests.engine.driver import Driver  # only tests that run the scheduler pay for it

    driver = Driver(check=False, block_size=size, num_blocks=blocks, **config)
    meta = {
        "block_size": size,
        "num_blocks": blocks,
        "device": "cpu",
        "model": {"name": "made up"},
        "scenario": None,
    }
    meta |= {
        "sharing": driver.config.sharing,
        "prefix_cache": driver.config.prefix_cache,
        "strategies": ["paged"],
    }
    trace = Trace(meta=meta, tokens={token: f" t{token}".encode() for token in range(0, 400)})
    for number, keywords in enumerate(requests):
        with suppress(ValueError):
            trace.requests.append(driver.submit(**{"name": f"r{number}"} | keywords))
    while driver.scheduler.has_work:
        driver.step()
        scheduler, plan = driver.scheduler, driver.plans[-1]
        trace.steps.append(
            Step(
                index=len(trace.steps), kind=plan.kind, events=driver.events[-1],
                sequences=scheduler.sequences(),
                blocks=scheduler.blocks(), usage=(scheduler.usage(),), host_blocks=scheduler.host_blocks(),
            )
        )  # fmt: skip
    return trace


REAL = {
    "beams": lambda: scheduled({"prompt": 7, "new": 6, "n": 3, "mode": "beam"}, size=2, blocks=40),
    "samples": lambda: scheduled({"prompt": 6, "new": 5, "n": 4}, {"prompt": 5, "new": 3}),
    "recompute": lambda: scheduled(*({"prompt": 6, "new": 12} for _ in range(3)), blocks=8),
    "swap": lambda: scheduled(
        *({"prompt": 6, "new": 9, "n": 2} for _ in range(2)), blocks=8, preempt="swap", host_blocks=12
    ),
    "prefix": lambda: scheduled(
        *({"prompt": 17, "new": 3, "arrival": 4 * i} for i in range(3)),
        {"prompt": range(200, 230), "new": 4, "arrival": 9},
        blocks=10, prefix_cache=True, sharing="append-only",
    ),
    "too large": lambda: scheduled({"prompt": 300, "new": 9}, {"prompt": 3, "new": 2}),
    "chunks": lambda: scheduled({"prompt": 30, "new": 3}, {"prompt": 9, "new": 4}, max_batch_tokens=8),
}  # fmt: skip
