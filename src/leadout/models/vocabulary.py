"""A GGUF file's own vocabulary, through the library that loaded it."""

from __future__ import annotations

from leadout.errors import BackendError, InputError
from leadout.models.binding import Binding


class GgufVocabulary:
    """Implements `Vocabulary`. Ids outside 0..size-1 are refused by name; the libraries crash on them."""

    def __init__(self, binding: Binding) -> None:
        self._binding = binding
        self._facts = binding.facts
        self._chat_template = binding.metadata("tokenizer.chat_template")
        self._ends = frozenset(token for token in range(self._facts.n_vocab) if binding.token_is_end(token))
        self._is_open = True

    @property
    def size(self) -> int:
        return self._facts.n_vocab

    @property
    def bos(self) -> int | None:
        return self._facts.bos

    @property
    def eos(self) -> int | None:
        return self._facts.eos

    @property
    def adds_bos(self) -> bool:
        return self._facts.adds_bos

    @property
    def chat_template(self) -> str | None:
        return self._chat_template

    def is_end(self, token: int) -> bool:
        return token in self._ends

    def text(self, token: int) -> str:
        return self._ask(token).token_text(token).decode("utf-8", errors="replace")

    def piece(self, token: int, *, special: bool = False) -> bytes:
        return self._ask(token).token_piece(token, special=special)

    def encode(self, text: str, *, add_bos: bool, special: bool) -> list[int]:
        try:
            data = text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise InputError(
                f"the text has a lone surrogate at character {error.start}; it must be valid Unicode"
            ) from error
        tokens = self._open().tokenize(data, special=special) if data else []
        return [self.bos, *tokens] if add_bos and self.bos is not None else tokens

    def close(self) -> None:
        """Called by the model before its weights go."""
        self._is_open = False

    def _ask(self, token: int) -> Binding:
        if not 0 <= token < self.size:
            raise BackendError(f"token id {token} is outside the vocabulary 0..{self.size - 1}")
        return self._open()

    def _open(self) -> Binding:
        if not self._is_open:
            raise BackendError("this model is closed; load it again to use it")
        return self._binding
