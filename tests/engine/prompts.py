"""Forty prompts: English, Chinese, code, emoji, mixed, one token, and lengths at and around block sizes."""

from __future__ import annotations

from core.models.loaded import LoadedModel

TEXTS = (
    "The history of China is very",
    "Once upon a time",
    "A block table maps logical blocks to",
    "The capital of France is",
    "Water boils at one hundred degrees",
    "To be, or not to be, that is",
    "Hello",
    "Explain paging in an operating system in one sentence.",
    "中国的历史非常悠久",
    "把下面的句子翻译成英文：今天天气很好。",
    "你好，世界",
    "从前有座山，山里有座庙，",
    "人工智能正在改变",
    "def fibonacci(n):\n    if n < 2:\n        return n\n    return",
    "for (int i = 0; i < n; ++i) {",
    "SELECT name, COUNT(*) FROM users GROUP BY",
    "import numpy as np\nx = np.zeros((3, 4))\n",
    '{"name": "paged", "blocks": [1, 3, 4',
    "😃",
    "👨‍👩‍👧‍👦 is a family of",
    "🚀🚀🚀 to the moon",
    "ďábelské ódy",
    "Wie viele Blöcke braucht man für",
    "混合 English 和中文 with 😀 emoji",
    "1 2 3 4 5 6 7 8 9",
    "   leading spaces",
    "Q: What is 2 + 2?\nA:",
)
LENGTHS = (1, 2, 3, 4, 5, 8, 9, 15, 16, 17, 32, 33, 48)
LONG = (
    "In operating systems, paging is a way to manage memory so that a process sees one continuous range of "
    "addresses while its pages lie anywhere in physical memory. A table says where each page is. Pages are "
    "given out when they are first touched, and two processes may share a page until one of them writes."
)


def prompts(model: LoadedModel) -> list[list[int]]:
    """The texts, and the long text cut to each length in tokens."""
    ids = model.tokens.encode(LONG)
    return [model.tokens.encode(text) for text in TEXTS] + [ids[:length] for length in LENGTHS]
