"""The baselines beside paging: what the same requests would get under other ways of allocating the same
slots.

    no cache                 holds nothing; computes every key and value again at every step
    grow by one              a new run one slot longer at every step; old and new both held during the copy
    reserve max              max_model_len slots a sequence, however short its answer
    reserve power of two     prompt + output rounded up to a power of two; buddy allocator (Orca Pow2)
    exact                    the true length, known beforehand; buddy allocator (Orca Oracle)
    doubling                 a C++ vector: full -> twice the length, copy, free the old run
    promised pages           pages on demand, prompt + max_new promised at admission
    paged without sharing    pages on demand, nothing promised; out of pages, the youngest request gives way

A strategy follows the tokens of the paged run, at its own pace: a request that it cannot admit waits in its
own queue, first come first served, and plays the same tokens later. It is never ahead of the paged run. A
lagging request computes its prompt in one step. Sequences of one request each compute the prompt into a run
of their own; a later fork (beam search) copies its parent's tokens: contiguous runs cannot be shared.
"""

from __future__ import annotations

from collections.abc import Mapping

from core.memory.address_space import make_space
from core.memory.buddy import power_of_two
from core.memory.events import Event
from core.memory.holders import Holder
from core.memory.pages import Nothing, Pages
from core.memory.runs import Rule, Runs
from core.memory.scripts import Scripts
from core.memory.strategy import Strategy

STRATEGIES = (
    "no cache",
    "grow by one",
    "reserve max",
    "reserve power of two",
    "exact",
    "doubling",
    "promised pages",
    "paged without sharing",
)
BUDDY = ("reserve power of two", "exact")  # as the paper's baselines; the others take first or best fit
ESTIMATING = ("reserve max", "reserve power of two", "exact")  # they reserve once, and can be wrong


def _rules(max_model_len: int, estimate: int | None, overflow: str) -> dict[str, Rule]:
    """The lengths that each contiguous strategy asks for.

    ``estimate`` takes the place of what the strategy would believe: of max_model_len for "reserve max", of
    the number of new tokens for the other two.
    """

    def double(held: int, length: int) -> int | None:
        # Never past max_model_len: no sequence can become longer than that.
        return max(length, min(2 * held, max_model_len))

    def never(held: int, length: int) -> int | None:
        return None

    more = double if overflow == "move" else never
    return {
        "grow by one": Rule(lambda prompt, new, length: length, lambda held, length: length),
        "doubling": Rule(lambda prompt, new, length: power_of_two(length), double),
        "reserve max": Rule(lambda prompt, new, length: estimate or max_model_len, more),
        "reserve power of two": Rule(
            lambda prompt, new, length: prompt + power_of_two(estimate or new) - 1, more
        ),
        "exact": Rule(lambda prompt, new, length: prompt + (estimate or new) - 1, more),
    }


def make_strategy(
    name: str,
    *,
    capacity: int,
    max_model_len: int,
    policy: str | None = None,
    block_size: int = 16,
    estimate: int | None = None,
    overflow: str = "stop",
    final_lengths: Mapping[str, int] | None = None,
    scripts: Scripts | None = None,
) -> Strategy:
    """A strategy over ``capacity`` token slots, nothing admitted yet.

    ``name``: one of STRATEGIES ("paged" means "paged without sharing"). ``policy``: "first fit" (the
    default), "best fit" or "buddy"; the two Orca baselines are always buddy unless told otherwise.
    ``block_size``: tokens of a page, for the strategies with pages. ``estimate``: what a strategy that
    reserves once believes instead of max_model_len or of the number of new tokens; when it turns out too
    small, the sequence stops or moves (``overflow``). ``final_lengths``: the true number of tokens written
    by each sequence, from a finished trace; without it "exact" and "reserve power of two" go by
    max_new_tokens. ``scripts``: shared by strategies that follow the same run, so that it is read once.
    Raises ValueError with one sentence for a name or a value that does not exist.
    """
    name = "paged without sharing" if name == "paged" else name
    if name not in STRATEGIES:
        raise ValueError(f"there is no strategy {name!r}; choose among {', '.join(STRATEGIES)}.")
    if overflow not in ("stop", "move"):
        raise ValueError(f"overflow is {overflow!r}; it must be 'stop' or 'move'.")
    if estimate is not None and estimate < 1:
        raise ValueError(f"the estimate is {estimate} tokens; it must be at least 1.")
    if capacity < 1 or max_model_len < 1:
        raise ValueError(
            f"capacity is {capacity} and max model length {max_model_len} slots; both must be at least 1."
        )
    events: list[Event] = []
    holder: Holder
    if name == "no cache":
        holder = Nothing(capacity)
    elif name in ("promised pages", "paged without sharing"):
        holder = Pages(name, capacity, block_size, name == "promised pages", events)
    else:
        space = make_space(capacity, policy or ("buddy" if name in BUDDY else "first fit"))
        holder = Runs(name, space, _rules(max_model_len, estimate, overflow)[name], events)
    oracle = final_lengths if name in BUDDY else None
    return Strategy(name, capacity, holder, events, scripts or Scripts(), oracle)
