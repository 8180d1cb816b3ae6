"""The crafted lessons: each a few requests, a pool, and what to look at. Importing this imports no torch.

A recording of each comes with the app (``python -m core record NAME`` makes it again, with the same
figures). Where the model's tokens are not those of the drawing in the course text, ``note`` says so: real
tokenizers cut as they cut, and Gemma's texts begin with a token <bos> of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from core.config import EngineConfig, Sampling

LESSONS = Path(__file__).resolve().parent.parent / "assets" / "lessons"
SMOLLM2, GEMMA = "smollm2-135m-instruct", "gemma-3-270m"


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """A step that matters, and what it shows."""

    step: int
    zh: str
    en: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One lesson. ``requests`` are the arguments of ``Engine.submit``, in order of submission."""

    name: str
    title_zh: str
    title_en: str
    model: str
    requests: tuple[Mapping[str, Any], ...]
    config: EngineConfig
    look_zh: str
    look_en: str
    note_zh: str = ""
    note_en: str = ""
    moments: tuple[Moment, ...] = field(default=())


def recorded_path(name: str) -> Path:
    """Where the recording of a scenario lies."""
    return LESSONS / f"{name}.kvtrace.json.gz"


_STORY = "Once upon a time, there lived a poor young"  # 10 tokens: two blocks of four, and half of a third
_LONGER_STORY = "Once upon a time, there lived a very poor and young"  # 12 tokens: three full blocks
_MOVED = (
    "The king went to the sea with two of his ships today",
    "The king went to the sea with two of his ships again",
    "Today the king went to the sea with two of his ships",
)
_QUESTIONS = (
    "What is the capital of France?",
    "How many days are in a week?",
    "What color is the sky?",
    "What is the opposite of hot?",
)


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
    (_STORY, 9, 3),
    ("Name one fruit that is yellow:", 32, 3),
    ("Translate to French: Good morning.", 40, 3),
    ("Reply with one word: what color is grass?", 24, 4),
)
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


def _drawn(seed: int) -> Sampling:
    return Sampling(temperature=0.8, top_k=40, seed=seed)


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


_ALL = (
    Scenario(
        name="first-steps",
        title_zh="同一提示，两个回答",
        title_en="One prompt, two answers",
        model=SMOLLM2,
        requests=({"prompt": _STORY, "max_new_tokens": 23, "n": 2, "sampling": _drawn(1)},),
        config=EngineConfig(
            block_size=4,
            num_blocks=16,
            max_model_len=32,
            free_order=(1, 3, 4, 9, 14, 6, 11, 2),
            strategies=("reserve max", "doubling"),
        ),
        look_zh="提示只计算一次，两个回答共享它的三个块（引用计数 2）。谁先写进那个半满的块，谁就先复制它。",
        look_en="The prompt is computed once, and both answers share its three blocks (ref 2). "
        "Whoever writes into the half-full one first copies it first.",
        moments=(
            Moment(
                step=0,
                zh="提示占三个块，两个回答都指向它们。",
                en="The prompt takes three blocks; both answers point at them.",
            ),
            Moment(
                step=1,
                zh="写时复制：块 4 还有别人在读，先复制到块 9 再写。",
                en="Copy-on-write: block 4 has another reader, so it is copied to block 9 first.",
            ),
        ),
    ),
    Scenario(
        name="two-blocks",
        title_zh="一个序列，两个不相邻的块",
        title_en="One sequence, two blocks that are not neighbours",
        model=GEMMA,
        requests=({"prompt": "中国的历史非常悠久", "max_new_tokens": 7},),
        config=EngineConfig(block_size=4, num_blocks=8, max_model_len=32, free_order=(1, 3, 6, 4)),
        look_zh="对序列来说逻辑块 0 和 1 是连续的，实际却在物理块 1 和 3。",
        look_en="To the sequence, logical blocks 0 and 1 follow each other; "
        "they lie in physical blocks 1 and 3.",
        note_zh="课文里第一块是“中国 的 历史 非常”。真实的分词是 <bos> 中国的 历史 非常 | 悠 久："
        "开头多一个 <bos>，“中国的”是一个 token，“悠久”却是两个。课文的块从 1 数起，这里的逻辑块从 0 数起。",
        note_en="The course text has 中国, 的, 历史, 非常 in its first block. The real tokens are "
        "<bos>, 中国的, 历史, 非常 | 悠, 久: one <bos> in front, 中国的 is one token, 悠久 is two. "
        "The text counts blocks from 1; logical blocks count from 0 here.",
        moments=(
            Moment(
                step=0,
                zh="六个 token 要两个块：物理块 1 和 3。",
                en="Six tokens take two blocks: physical 1 and 3.",
            ),
            Moment(
                step=3,
                zh="有 token 要写、块 3 又满了，才取下一个块。",
                en="A token has to be written and block 3 is full: only now is another one taken.",
            ),
        ),
    ),
    Scenario(
        name="two-translations",
        title_zh="一个翻译请求，两个回答",
        title_en="Two answers to one translation request",
        model=GEMMA,
        requests=(
            {
                "prompt": "把下面的句子翻译成英文：今天天气很好。",
                "max_new_tokens": 8,
                "n": 2,
                "sampling": _drawn(1),
            },
        ),
        config=EngineConfig(block_size=4, num_blocks=8, max_model_len=32, free_order=(1, 3, 4, 2, 5, 7, 0)),
        look_zh="提示正好占满三个块：物理块 1、3、4，引用计数都是 2。"
        "从第四块起各写各的：2 和 5。一次复制也没有。",
        look_en="The prompt fills exactly three blocks, physical 1, 3 and 4, each with ref 2. From the "
        "fourth block on each answer has its own, 2 and 5. Nothing is ever copied.",
        note_zh="十二个 token，其中第一个是 <bos>。多一个或少一个 token，先写的那个回答就必须复制最后一块。",
        note_en="Twelve tokens, the first of them <bos>. With one token more or less, "
        "the first writer would have to copy the last block.",
        moments=(
            Moment(
                step=0,
                zh="三个块，引用计数 2。",
                en="Three blocks, each with ref 2.",
            ),
            Moment(
                step=1,
                zh="第四块各不相同：2 和 5。",
                en="The fourth block differs: 2 and 5.",
            ),
        ),
    ),
    Scenario(
        name="three-beams",
        title_zh="三个搜索束共享一个前缀",
        title_en="Three beams share one prefix",
        model=GEMMA,
        requests=({"prompt": "中国的历史", "max_new_tokens": 8, "beam": 3},),
        config=EngineConfig(block_size=3, num_blocks=12, max_model_len=24, free_order=(2, 5, 7, 1, 9, 4)),
        look_zh="“中国的历史”所在的块引用计数是 3：三个束都指向它。被淘汰的束只归还自己独有的块。",
        look_en="The block of 中国的历史 has ref 3: all three beams point at it. "
        "A beam that is dropped gives back only what is its own.",
        note_zh="真实的 token 是 <bos> 中国的 历史，三个；所以这一课的块是三个 token 一块，前缀正好一块。",
        note_en="The real tokens are <bos>, 中国的, 历史: three. "
        "Blocks have three tokens in this lesson, so that the prefix is exactly one.",
        moments=(
            Moment(
                step=0,
                zh="前缀的块：引用计数 3。",
                en="The prefix's block: ref 3.",
            ),
        ),
    ),
    Scenario(
        name="half-full-block",
        title_zh="半满的块：必须复制",
        title_en="A half-full block: it has to be copied",
        model=SMOLLM2,
        requests=({"prompt": _STORY, "max_new_tokens": 6, "n": 3, "sampling": _drawn(6)},),
        config=EngineConfig(block_size=4, num_blocks=12, max_model_len=16, free_order=(5, 2, 8, 0, 7, 3)),
        look_zh="十个 token，第三块半满，三个回答共享它。三个都要写，两次复制：最后一个就地写。",
        look_en="Ten tokens: the third block is half full and three answers share it. "
        "Three writers, two copies: the last one writes in place.",
        moments=(
            Moment(
                step=1,
                zh="两次复制，第三个回答就地写。",
                en="Two copies; the third answer writes in place.",
            ),
        ),
    ),
    Scenario(
        name="full-block",
        title_zh="写满的块：无需复制",
        title_en="A full block: nothing to copy",
        model=SMOLLM2,
        requests=({"prompt": _LONGER_STORY, "max_new_tokens": 6, "n": 3, "sampling": _drawn(2)},),
        config=EngineConfig(block_size=4, num_blocks=12, max_model_len=20, free_order=(5, 2, 8, 0, 7, 3)),
        look_zh="多两个 token，提示正好在块边界结束。三个回答各拿一个新块，一次复制也没有。",
        look_en="Two tokens more, and the prompt ends on a block's edge. "
        "Each of the three answers takes a new block, and nothing is copied.",
        moments=(
            Moment(
                step=1,
                zh="三个新块，零次复制。",
                en="Three new blocks, no copy.",
            ),
        ),
    ),
    Scenario(
        name="system-prompt",
        title_zh="许多问题，同一个系统提示",
        title_en="Many questions under one system prompt",
        model=SMOLLM2,
        requests=tuple(
            {"prompt": question, "chat": True, "max_new_tokens": 12, "arrival_step": 2 * k}
            for k, question in enumerate(_QUESTIONS)
        ),
        config=EngineConfig(
            block_size=4, num_blocks=32, max_model_len=50, prefix_cache=True, free_order=(3, 8, 1, 12, 6, 17)
        ),
        look_zh="每个问题前面都有同一个系统提示：24 个 token，正好六个块。第一个问题把它算出来；"
        "后来的问题在缓存里找到这六个块（引用计数增加），只计算自己的部分。",
        look_en="Before each question stands the same system prompt: 24 tokens, exactly six blocks. The "
        "first question computes it; later ones find these six blocks in the cache (ref goes up) and "
        "compute only their own part.",
        note_zh="系统提示来自模型自己的对话模板。有两个问题都以 What is the 开头，"
        "但第七块的第四个 token 不同：只有整块相同才能共享。",
        note_en="The system prompt comes with the model's own chat template. Two questions both begin with "
        "“What is the”, but the fourth token of their seventh blocks differs: only whole blocks are shared.",
        moments=(
            Moment(
                step=2,
                zh="第二个问题找到六个块：引用计数 2。",
                en="The second question finds six blocks: ref 2.",
            ),
        ),
    ),
    Scenario(
        name="no-copy-on-write",
        title_zh="关掉写时复制：错在哪里",
        title_en="Copy-on-write switched off: what goes wrong",
        model=SMOLLM2,
        requests=({"prompt": _STORY, "max_new_tokens": 6, "n": 3, "sampling": _drawn(6)},),
        config=EngineConfig(
            block_size=4,
            num_blocks=12,
            max_model_len=16,
            free_order=(5, 2, 8, 0, 7, 3),
            copy_on_write_disabled=True,
        ),
        look_zh="同样的请求，共享的半满块不复制就写：后写的盖掉先写的，先写的回答读到了别人的 token。",
        look_en="The same request, but the shared half-full block is written without a copy: the last "
        "writer wins, and the others read a token that is not theirs.",
        note_zh="只是演示：这一次运行故意违反“只写引用计数为 1 的块”。",
        note_en="A demonstration: on purpose, this run breaks the rule that only blocks with ref 1 are "
        "written.",
        moments=(
            Moment(
                step=1,
                zh="三个回答先后写进块 8 的同一个位置：后写的 C 读到自己的 token，A 和 B 读到 C 的。",
                en="All three write into the same slot of block 8: C, the last, reads its own token, "
                "and A and B read that of C.",
            ),
        ),
    ),
    Scenario(
        name="answers-append-only",
        title_zh="同样的三个回答，块表只增不改",
        title_en="The same three answers, block tables append-only",
        model=SMOLLM2,
        requests=({"prompt": _STORY, "max_new_tokens": 6, "n": 3, "sampling": _drawn(6)},),
        config=EngineConfig(
            block_size=4,
            num_blocks=12,
            max_model_len=16,
            sharing="append-only",
            free_order=(5, 2, 8, 0, 7, 3),
        ),
        look_zh="只共享写满的块：半满的那块每个回答各有一份，所以从来不用复制。",
        look_en="Only full blocks are shared: each answer has its own half-full block, so nothing is ever "
        "copied.",
        moments=(
            Moment(
                step=1,
                zh="不复制：B 和 C 各拿一个新块，把提示最后两个 token 重新计算一遍。",
                en="Nothing is copied: B and C each take a new block and compute the prompt's last two "
                "tokens again.",
            ),
        ),
    ),
    Scenario(
        name="beams-append-only",
        title_zh="同样的三个搜索束，块表只增不改",
        title_en="The same three beams, block tables append-only",
        model=GEMMA,
        requests=({"prompt": "中国的历史", "max_new_tokens": 8, "beam": 3},),
        config=EngineConfig(
            block_size=3,
            num_blocks=12,
            max_model_len=24,
            sharing="append-only",
            free_order=(2, 5, 7, 1, 9, 4),
        ),
        look_zh="只共享写满的块：新的束要把父束没写满的那块里的 token 重新计算一遍，而不是复制。",
        look_en="Only full blocks are shared: a new beam computes the tokens of its parent's half-full block "
        "again, instead of copying them.",
        moments=(
            Moment(
                step=0,
                zh="前缀正好一块，三个束都列着它：引用计数 3。",
                en="The prefix is exactly one block, which all three beams list: ref 3.",
            ),
        ),
    ),
    Scenario(
        name="prefix-moved",
        title_zh="同样的词，挪了一个",
        title_en="The same words, one of them moved",
        model=SMOLLM2,
        requests=tuple(
            {"prompt": prompt, "max_new_tokens": 4, "ignore_eos": True, "arrival_step": 2 * k}
            for k, prompt in enumerate(_MOVED)
        ),
        config=EngineConfig(
            block_size=4, num_blocks=24, max_model_len=32, prefix_cache=True, free_order=(3, 8, 1, 12, 6, 17)
        ),
        look_zh="第二个请求换了结尾，前面的块全部命中；第三个把一个词挪到开头，一块也没有命中。",
        look_en="The second request ends in other words, and every block before that is found. "
        "The third has one word moved to the front, and nothing is.",
        moments=(
            Moment(
                step=2,
                zh="第二个请求从缓存里找到前两个块。",
                en="The second request finds its first two blocks in the cache.",
            ),
            Moment(
                step=4,
                zh="第三个请求从第一个 token 起就不同：一块也没有命中。",
                en="The third differs from its first token on: no block is found.",
            ),
        ),
    ),
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
    # -- the first lessons of the course: cache, reservation, holes, doubling, batch size
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

SCENARIOS: Mapping[str, Scenario] = MappingProxyType({scenario.name: scenario for scenario in _ALL})
