"""Text <-> tokens, exact to the byte: a token may be a part of a character, and then its bytes are all it has.

`Tokens` is what the rest of the app sees. Its `text` is built from `token_bytes` alone, so the running text
never shows a replacement mark for a character that is still incomplete.
"""

from __future__ import annotations

import codecs
from abc import ABC, abstractmethod
from collections.abc import Sequence


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
