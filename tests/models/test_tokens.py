"""Tokens exact to the byte, in any vocabulary, from any number of threads (cases C4, C12)."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor

import pytest

from core.models.errors import UnsupportedModel
from core.models.tokens import ModelTokens
from tests.tiny import VOCAB_SIZE, tiny_tokenizer

TEXTS = [
    "你好，世界",
    "😃",
    "👨‍👩‍👧‍👦",
    "ďábelské",
    "def f(x):\n\tif x  >  0:\n        return {'a': x}  # ✓",
    "把下面的句子翻译成英文：今天天气很好。",
    "Hello world! Café déjà vu — 123 😊",
    "  two  blanks\r\n\n\n",
    "<0xE4> and ▁ and Ġ are text too",
]
TEMPLATE = "{% for m in messages %}[{{ m.role }}]{{ m.content }}<eos>{% endfor %}[assistant]"


def pieces_tokenizer():
    """A SentencePiece-like tokenizer with byte fallback: words with ▁, and <0x00> to <0xFF>."""
    from tokenizers import Tokenizer, decoders, models, normalizers
    from transformers import PreTrainedTokenizerFast

    letters = ["▁", "a", "b", "你", "▁a", "▁▁"]
    names = ["<pad>", "<eos>", "<bos>", "<unk>", *(f"<0x{b:02X}>" for b in range(256)), *letters]
    vocab = {name: i for i, name in enumerate(names)}
    merges = [("▁", "a"), ("▁", "▁")]
    core = Tokenizer(models.BPE(vocab=vocab, merges=merges, unk_token="<unk>", byte_fallback=True))
    core.normalizer = normalizers.Replace(" ", "▁")
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    core.decoder = decoders.Sequence(steps)
    return PreTrainedTokenizerFast(
        tokenizer_object=core, bos_token="<bos>", eos_token="<eos>", unk_token="<unk>", pad_token="<pad>"
    )


@pytest.fixture(params=["byte-level", "pieces"])
def pair(request):
    """(tokenizer of transformers, Tokens over it)"""
    tokenizer = tiny_tokenizer(TEMPLATE) if request.param == "byte-level" else pieces_tokenizer()
    return tokenizer, ModelTokens(tokenizer, len(tokenizer) + 2)


def check_exact(tokenizer, tokens, text: str) -> None:
    """Bytes joined are the text; any cut shows a true beginning of it and no replacement mark."""
    ids = [t for t in tokens.encode(text) if not tokens.is_special(t)]
    assert b"".join(map(tokens.token_bytes, ids)) == text.encode()
    assert tokens.text(ids) == text == tokenizer.decode(ids, clean_up_tokenization_spaces=False)
    shown = [tokens.text(ids[:n]) for n in range(len(ids) + 1)]
    assert all(text.startswith(part) for part in shown)
    assert "\ufffd" not in "".join(shown)


@pytest.mark.parametrize("text", [t for t in TEXTS if "▁" not in t])
def test_exact(pair, text):
    check_exact(*pair, text)


def test_what_looks_like_a_byte_or_a_blank_is_text_in_a_byte_level_vocabulary():
    check_exact(tiny_tokenizer(), ModelTokens(tiny_tokenizer(), VOCAB_SIZE), TEXTS[-1])


@pytest.mark.model
@pytest.mark.parametrize("text", [t for t in TEXTS if "▁" not in t])
def test_exact_in_the_packaged_models(text, smollm2, gemma):
    for loaded in (smollm2, gemma):
        check_exact(loaded.tokens._tokenizer, loaded.tokens, text)


@pytest.mark.model
def test_every_token_of_the_packaged_models_has_bytes(smollm2, gemma):
    for loaded in (smollm2, gemma):
        tokens, size = loaded.tokens, loaded.geometry.vocab_size
        assert all(tokens.token_bytes(t) for t in range(size))
        seen = {tokens.token_bytes(t) for t in range(size) if not tokens.is_special(t)}
        # Every byte of UTF-8 text; SmolLM2 lacks control characters and the planes without characters.
        used = {b"\n", b"\t", b"\r", *(bytes([b]) for b in (*range(0x20, 0x7F), *range(0x80, 0xC0)))}
        used |= {bytes([b]) for b in (*range(0xC2, 0xF1), 0xF3, 0xF4)}
        assert used - seen == set()


@pytest.mark.model
def test_the_splits_of_gemma(gemma):
    def split(text: str) -> list[str]:
        return [gemma.tokens.token_bytes(t).decode() for t in gemma.tokens.encode(text)]

    assert split("中国的历史非常悠久") == ["<bos>", "中国的", "历史", "非常", "悠", "久"]
    assert split("把下面的句子翻译成英文：今天天气很好。") == (
        ["<bos>", "把", "下面的", "句子", "翻译", "成", "英文", "：", "今天", "天气", "很好", "。"]
    )


@pytest.mark.model
def test_the_chat_template_of_smollm2(smollm2):
    ids = smollm2.tokens.encode("Hi", chat=True)
    text = b"".join(map(smollm2.tokens.token_bytes, ids)).decode()
    assert text.endswith("<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n")
    assert len(smollm2.tokens.encode("中国的历史非常悠久")) == 17
    assert smollm2.tokens.text(ids).endswith("user\nHi\nassistant\n")  # turn marks are not text


def test_an_incomplete_character_is_held_back_and_a_broken_one_is_marked():
    tokens = ModelTokens(tiny_tokenizer(), VOCAB_SIZE)
    smile = list("😃".encode())
    assert [tokens.text([65, *smile[:n]]) for n in range(5)] == ["A", "A", "A", "A", "A😃"]
    assert tokens.text([0xE4, 65]) == "\ufffdA"  # the model's own invalid bytes, in the middle


def test_special_tokens_give_their_names_and_are_no_text(pair):
    tokenizer, tokens = pair
    bos, eos = tokenizer.bos_token_id, tokenizer.eos_token_id
    assert tokens.token_bytes(bos) == b"<bos>" and tokens.is_special(bos)
    ids = [bos, *[t for t in tokens.encode("ab") if t != bos], eos]
    assert tokens.text(ids) == "ab"


def test_rows_without_a_word(pair):
    tokenizer, tokens = pair
    last = len(tokenizer) + 1
    assert tokens.token_bytes(last) == f"<{last}>".encode() and tokens.is_special(last)
    for outside in (-1, last + 1):
        with pytest.raises(ValueError, match=rf"token {outside} is not in the vocabulary of {last + 1}\."):
            tokens.token_bytes(outside)


def test_an_empty_text_is_the_bos_token_or_refused():
    tokenizer = tiny_tokenizer()
    assert ModelTokens(tokenizer, VOCAB_SIZE).encode("") == [tokenizer.bos_token_id]
    tokenizer.bos_token = None
    with pytest.raises(ValueError, match="the text is empty"):
        ModelTokens(tokenizer, VOCAB_SIZE).encode("")


def test_the_chat_template_is_applied_or_missing():
    with_one = ModelTokens(tiny_tokenizer(TEMPLATE), VOCAB_SIZE)
    ids = with_one.encode("hi", chat=True)
    assert b"".join(map(with_one.token_bytes, ids)) == b"[user]hi<eos>[assistant]"
    with pytest.raises(ValueError, match="no chat template"):
        ModelTokens(tiny_tokenizer(), VOCAB_SIZE).encode("hi", chat=True)


def test_half_a_surrogate_pair_is_refused(pair):
    with pytest.raises(ValueError, match="at position 1"):
        pair[1].encode("a\ud83d")


def test_a_vocabulary_that_hides_its_bytes_is_refused():
    from tokenizers import Tokenizer, decoders, models
    from transformers import PreTrainedTokenizerFast

    core = Tokenizer(models.WordPiece({"[UNK]": 0, "a": 1}, unk_token="[UNK]"))
    core.decoder = decoders.WordPiece()
    with pytest.raises(UnsupportedModel, match="decoding by WordPiece"):
        ModelTokens(PreTrainedTokenizerFast(tokenizer_object=core), 2)


@pytest.mark.model
def test_sixteen_threads(smollm2):
    """Each thread encodes (with truncation settings touched, as transformers does) and reads bytes."""
    smollm2.tokens._bytes.clear()
    expected = {text: smollm2.tokens.encode(text) for text in TEXTS}

    def work(seed: int) -> int:
        rng, right = random.Random(seed), 0
        for _ in range(100):
            text = rng.choice(TEXTS)
            ids = smollm2.tokens.encode(text)
            smollm2.tokens.encode(text, chat=True)
            right += ids == expected[text] and smollm2.tokens.text(ids) == text
        return right

    with ThreadPoolExecutor(16) as pool:
        assert list(pool.map(work, range(16))) == [100] * 16
