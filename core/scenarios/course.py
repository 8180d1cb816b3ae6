"""The first lessons of the course: cache, reservation, holes, doubling, batch size."""

from __future__ import annotations

from core.config import EngineConfig
from core.scenarios.scenario import SMOLLM2, Moment, Scenario

_OPEN_QUESTIONS = (  # prompt, arrival step: greedy, the answers end by themselves after 8 to 108 tokens
    ("Explain in two sentences why the sky is blue.", 0),
    ("Give me three tips for sleeping well.", 2),
    ("Say hello in five languages.", 4),
    ("What is the capital of France?", 6),
)
_COMING = (  # prompt, new tokens, arrival step
    ("The sky is blue because", 8, 0),
    ("The capital of France is", 14, 0),
    ("The history of China is very long and", 6, 0),
    ("My name is", 6, 0),
    ("One, two, three,", 5, 0),
    ("Roses are red, violets are", 3, 2),
    ("I like to read books about", 17, 4),
    ("Twinkle, twinkle, little", 5, 5),
    ("Mountains are high and", 5, 6),
    ("To make a cup of tea, first", 8, 7),
    ("The sun rises in the east and sets in the", 12, 11),
)
_BATCH_PROMPTS = tuple(prompt for prompt, _, _ in _COMING[:4])
_BATCH_ARRIVALS = (0, 8, 16, 16, *[24] * 4, *[32] * 8)  # 1, 2, 4, 8, 16 requests at once

COURSE = (
    Scenario(
        name="one-answer",
        title_zh="一个短回答，一步一个 token",
        title_en="One short answer, a token a step",
        model=SMOLLM2,
        requests=({"prompt": "Once upon a time", "max_new_tokens": 8, "ignore_eos": True},),
        config=EngineConfig(block_size=4, num_blocks=8, max_model_len=16, free_order=(2, 5, 1)),
        look_zh="算过的键和值留着：每一步只计算最新的一个 token。",
        look_en="Keys and values are kept: after the prompt, each step computes one token only.",
        moments=(
            Moment(
                step=1,
                zh="只计算一个 token，前四个从缓存里读。",
                en="One token is computed; the first four are read from the cache.",
            ),
        ),
    ),
    Scenario(
        name="four-answers",
        title_zh="四个问题，长短没人知道",
        title_en="Four questions, answers of unknown length",
        model=SMOLLM2,
        requests=tuple(
            {"prompt": prompt, "chat": True, "max_new_tokens": 200, "arrival_step": arrival}
            for prompt, arrival in _OPEN_QUESTIONS
        ),
        config=EngineConfig(
            block_size=16, num_blocks=128, max_model_len=1024, strategies=("reserve max", "doubling")
        ),
        look_zh="每个请求都按最大长度 1,024 预留，可模型自己决定何时停下：内存只放得下两个请求，大半是空的。",
        look_en="Each request reserves the maximum of 1,024 slots, but the model decides when it stops: "
        "two requests fill the memory, and most of it stays empty.",
        moments=(
            Moment(
                step=90,
                zh="第一个回答结束：预留的 1,024 个槽位用了 130 个。",
                en="The first answer ends: of 1,024 slots reserved it used 130.",
            ),
        ),
    ),
    Scenario(
        name="coming-and-going",
        title_zh="来来去去：连续内存里的空洞",
        title_en="Coming and going: holes in contiguous memory",
        model=SMOLLM2,
        requests=tuple(
            {"prompt": prompt, "max_new_tokens": new, "arrival_step": arrival, "ignore_eos": True}
            for prompt, new, arrival in _COMING
        ),
        config=EngineConfig(
            block_size=4, num_blocks=24, max_model_len=32, strategies=("reserve max", "doubling")
        ),
        look_zh="十一个长短不一的请求先后到来又离开。连续分配时，空闲的槽位够多，却没有一段够长。",
        look_en="Eleven requests of ragged lengths come and go. In contiguous memory enough is free, "
        "and no piece of it is long enough.",
        moments=(
            Moment(
                step=8,
                zh="第十个请求要连续的 15 个槽位；空闲 36 个，最长一段 12 个。",
                en="The tenth request needs 15 slots in a row; 36 are free, 12 in the longest piece.",
            ),
        ),
    ),
    Scenario(
        name="growing-batch",
        title_zh="批一次次变大：1、2、4、8、16",
        title_en="A batch that grows: 1, 2, 4, 8, 16",
        model=SMOLLM2,
        requests=tuple(
            {
                "prompt": _BATCH_PROMPTS[k % len(_BATCH_PROMPTS)],
                "max_new_tokens": 40 - arrival,
                "arrival_step": arrival,
                "ignore_eos": True,
            }
            for k, arrival in enumerate(_BATCH_ARRIVALS)
        ),
        config=EngineConfig(block_size=16, num_blocks=64, max_model_len=64, strategies=("reserve max",)),
        look_zh="每八步，同时运行的请求翻一倍：看一步用多少时间，一步得到几个 token。",
        look_en="Every eight steps twice as many requests run at once: see how long a step takes, "
        "and how many tokens it gives.",
        moments=(
            Moment(
                step=33,
                zh="十六个请求一起走一步。",
                en="Sixteen requests take a step together.",
            ),
        ),
    ),
)
