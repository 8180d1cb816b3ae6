"""Reference counts and copy-on-write at their edges, reused prefixes, and append-only stores."""

from __future__ import annotations

from core.config import EngineConfig
from core.scenarios.scenario import GEMMA, SMOLLM2, STORY, Moment, Scenario, drawn

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

SHARING = (
    Scenario(
        name="half-full-block",
        title_zh="半满的块：必须复制",
        title_en="A half-full block: it has to be copied",
        model=SMOLLM2,
        requests=({"prompt": STORY, "max_new_tokens": 6, "n": 3, "sampling": drawn(6)},),
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
        requests=({"prompt": _LONGER_STORY, "max_new_tokens": 6, "n": 3, "sampling": drawn(2)},),
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
        requests=({"prompt": STORY, "max_new_tokens": 6, "n": 3, "sampling": drawn(6)},),
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
        requests=({"prompt": STORY, "max_new_tokens": 6, "n": 3, "sampling": drawn(6)},),
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
)
