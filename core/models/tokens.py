"""Text <-> tokens, exact to the byte: a token may be part of a character, and then its bytes are all it has.

`Tokens` is what the rest of the app sees. Its `text` is built from `token_bytes` alone, so the running text
never shows a replacement mark for a character that is still incomplete.
"""

from __future__ import annotations

import codecs
import json
import re
import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from core.models.errors import UnsupportedModel


class Tokens(ABC):
    """A tokenizer that several threads may use at once."""

    @abstractmethod
    def encode(self, text: str, chat: bool = False) -> list[int]:
        """The token ids of ``text``, with the beginning-of-text token where the model expects one.

        ``chat``: as the user's turn in the model's chat template, ready for the answer.
        Raises ValueError with one sentence: an empty text and no such token, or no chat template.
        """

    @abstractmethod
    def token_bytes(self, token_id: int) -> bytes:
        """The bytes that this token adds to the text; a special token gives its name, such as ``b"<bos>"``.

        Joined over a sequence they are the UTF-8 text. An id that names no token gives ``b"<id>"``, as a
        special token would: a model may have more rows than its tokenizer has words.
        """

    @abstractmethod
    def is_special(self, token_id: int) -> bool:
        """Whether the token stands for no text: begin, end, padding, turn marks, and ids without a word."""

    def text(self, token_ids: Sequence[int]) -> str:
        """The text of the tokens, without the special ones. An incomplete last character is held back.

        A replacement mark appears only where the model has itself produced bytes that are no character.
        """
        data = b"".join(self.token_bytes(t) for t in token_ids if not self.is_special(t))
        return codecs.getincrementaldecoder("utf-8")("replace").decode(data, final=False)


class ModelTokens(Tokens):
    """The tokens of a transformers tokenizer, exact for byte-level BPE and for pieces with byte fallback.

    Byte-level (SmolLM2, GPT-2, Qwen): each letter of a token stands for a byte. Pieces (Gemma, Llama): a
    token is text with "▁" for a blank, or one byte such as ``<0xE4>``. Tokenizers that decode in another
    way are refused with `UnsupportedModel`. One lock: a fast tokenizer fails when two threads use it at
    once.
    """

    def __init__(self, tokenizer: Any, vocab_size: int) -> None:
        self._tokenizer = tokenizer
        self._vocab_size = vocab_size
        self._lock = threading.Lock()
        self._bytes: dict[int, bytes] = {}
        self._added = {i: t.content for i, t in tokenizer.added_tokens_decoder.items()}
        self._special = {i for i, t in tokenizer.added_tokens_decoder.items() if t.special}
        self._special.update(tokenizer.all_special_ids)
        self._byte_level = _is_byte_level(tokenizer)

    def encode(self, text: str, chat: bool = False) -> list[int]:
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise ValueError(
                f"the text has half a character (a surrogate) at position {error.start}."
            ) from error
        with self._lock:
            if chat:
                return self._encode_chat(text)
            ids = list(self._tokenizer.encode(text))
            if ids:
                return ids
            if self._tokenizer.bos_token_id is None:
                raise ValueError(
                    "the text is empty and this model has no token to begin with; write something."
                )
            return [self._tokenizer.bos_token_id]

    def _encode_chat(self, text: str) -> list[int]:
        if not self._tokenizer.chat_template:
            raise ValueError("this model has no chat template; hand in the plain text instead.")
        turn = [{"role": "user", "content": text}]
        shown = self._tokenizer.apply_chat_template(turn, tokenize=False, add_generation_prompt=True)
        return list(self._tokenizer.encode(shown, add_special_tokens=False))

    def token_bytes(self, token_id: int) -> bytes:
        if token_id not in self._bytes:
            self._bytes[token_id] = self._look_up(token_id)
        return self._bytes[token_id]

    def _look_up(self, token_id: int) -> bytes:
        if not 0 <= token_id < self._vocab_size:
            raise ValueError(f"token {token_id} is not in the vocabulary of {self._vocab_size}.")
        with self._lock:
            piece = self._tokenizer.convert_ids_to_tokens(token_id)
        if piece is None:
            return f"<{token_id}>".encode()
        if token_id in self._special:
            return piece.encode()
        if self._byte_level:
            known = token_id not in self._added and all(c in _BYTE_OF_LETTER for c in piece)
            return bytes(_BYTE_OF_LETTER[c] for c in piece) if known else piece.encode()
        if byte := re.fullmatch("<0x([0-9A-F]{2})>", piece):
            return bytes([int(byte[1], 16)])
        return piece.replace("▁", " ").encode()

    def is_special(self, token_id: int) -> bool:
        return token_id in self._special or self.token_bytes(token_id) == f"<{token_id}>".encode()


def _byte_letters() -> dict[str, int]:
    """The letter that stands for each byte in byte-level vocabularies.

    Printable Latin-1 stands for itself; the others follow from U+0100 on (GPT-2, 2019).
    """
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [b for b in range(256) if b not in printable]
    return {chr(b): b for b in printable} | {chr(256 + i): b for i, b in enumerate(others)}


_BYTE_OF_LETTER = _byte_letters()


def _is_byte_level(tokenizer: Any) -> bool:
    """Whether the vocabulary is byte-level, else pieces with byte fallback; `UnsupportedModel` if neither."""
    core = getattr(tokenizer, "backend_tokenizer", None)
    # The decoder's pickled state is its JSON; the whole tokenizer's takes a third of a second to parse.
    decoder = json.loads(core.decoder.__getstate__()) if core is not None and core.decoder is not None else {}
    kinds = {step["type"] for step in decoder.get("decoders", [decoder]) if "type" in step}
    if "ByteLevel" in kinds:
        return True
    if "Metaspace" in kinds or {"Replace", "ByteFallback"} <= kinds:
        return False
    by = ", ".join(sorted(kinds)) or "its own code"
    raise UnsupportedModel(
        f"the tokenizer ({type(tokenizer).__name__}, decoding by {by}) does not tell the bytes of a token; "
        f"a model with a byte-level or a SentencePiece-like vocabulary is needed."
    )
