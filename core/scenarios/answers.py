"""One prompt and several answers, two prompts, and beams: what a class sees first."""

from __future__ import annotations

from core.config import EngineConfig
from core.scenarios.scenario import GEMMA, SMOLLM2, STORY, Moment, Scenario, drawn

ANSWERS = (
    Scenario(
        name="first-steps",
        title_zh="同一提示，两个回答",
        title_en="One prompt, two answers",
        model=SMOLLM2,
        requests=({"prompt": STORY, "max_new_tokens": 23, "n": 2, "sampling": drawn(1)},),
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
                "sampling": drawn(1),
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
)
