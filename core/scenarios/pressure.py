"""A pool that runs dry, and a crowd of unequal requests."""

from __future__ import annotations

from typing import Any

from core.config import EngineConfig
from core.scenarios.scenario import SMOLLM2, STORY, Moment, Scenario

# Prompt, most new tokens, step of arrival: prompts of 5 to 34 tokens, answers of 6 to 28.
_CROWD = (
    (
        "An operating system keeps a table for every program. The table says where each page of the "
        "program's memory lies, so that pages need not be neighbours. A page fault",
        14,
        0,
    ),
    ("The history of China is", 6, 0),
    (
        "Dear Anna, thank you for the book that you sent me last week. I have read the first three chapters "
        "and I like it very much. Please tell me",
        19,
        2,
    ),
    (
        "Summarize in one sentence: memory is cut into blocks of one size, and a table says where each block "
        "lies.",
        28,
        2,
    ),
    (STORY, 9, 3),
    ("Name one fruit that is yellow:", 32, 3),
    ("Translate to French: Good morning.", 40, 3),
    ("Reply with one word: what color is grass?", 24, 4),
)


def _dry(name: str, title_zh: str, title_en: str, look_zh: str, look_en: str, **config: Any) -> Scenario:
    """Two requests of 19 slots each on 24: one of them has to give way."""
    return Scenario(
        name=name,
        title_zh=title_zh,
        title_en=title_en,
        model=SMOLLM2,
        requests=(
            {"prompt": "The history of China is very long and", "max_new_tokens": 12},
            {"prompt": "Once upon a time, there was a", "max_new_tokens": 12},
        ),
        config=EngineConfig(
            block_size=4, num_blocks=6, max_model_len=24, free_order=(2, 4, 1, 5, 0, 3), **config
        ),
        look_zh=look_zh,
        look_en=look_en,
        moments=(
            Moment(
                step=5,
                zh="没有空块了：后来的请求被抢占。",
                en="No block is free: the later request is preempted.",
            ),
            Moment(
                step=12, zh="先来的结束了，被抢占的继续。", en="The first one is done; the other one resumes."
            ),
        ),
    )


PRESSURE = (
    _dry(
        "pool-runs-dry",
        "内存池用尽：重新计算",
        "The pool runs dry: recompute",
        "池子只有 6 块，两个请求最后各要 5 块。后来的请求被抢占，交出所有块；"
        "等到有空位，再把已有的 token 重新计算一遍，文本不变。",
        "The pool has 6 blocks, and each request needs 5 in the end. The later one is preempted and gives "
        "up its blocks; when there is room it computes its tokens again, and its text is the same.",
        preempt="recompute",
    ),
    _dry(
        "pool-runs-dry-swap",
        "内存池用尽：换出到主机",
        "The pool runs dry: swap to the host",
        "同样的请求，但被抢占的序列把块复制到主机内存，回来时再复制回来：不用重新计算，要搬的是字节。",
        "The same requests, but the preempted one's blocks are copied to host memory and back: "
        "nothing is computed again, bytes are moved instead.",
        preempt="swap",
        host_blocks=6,
    ),
    Scenario(
        name="ragged-crowd",
        title_zh="长短不一的一群请求",
        title_en="A crowd of ragged requests",
        model=SMOLLM2,
        requests=tuple(
            {"prompt": prompt, "max_new_tokens": new, "arrival_step": arrival}
            for prompt, new, arrival in _CROWD
        ),
        config=EngineConfig(
            block_size=4, num_blocks=44, max_model_len=64, strategies=("reserve max", "doubling")
        ),
        look_zh="八个请求几乎同时到来，最后长度从 11 到 53 个 token 不等，内存只有 176 个槽位。"
        "分页让八个同时运行；每个预留 64 个槽位，只有两个能运行。",
        look_en="Eight requests arrive almost at once; in the end they are 11 to 53 tokens long, and there "
        "are 176 slots. Paging runs all eight at once; with 64 slots reserved for each, two run.",
        moments=(
            Moment(
                step=4,
                zh="八个请求都到了：分页时全部在运行。",
                en="All eight requests are here, and with paging all of them run.",
            ),
        ),
    ),
)
