"""Vocabularies for the tests of this folder: one by hand, one from a real file through llama.cpp."""

import ctypes
from collections.abc import Sequence
from pathlib import Path

import llama_cpp


class ListVocabulary:
    """Entries from a list; text becomes the longest that fit, those of several letters only if `special`."""

    def __init__(
        self,
        texts: Sequence[str],
        *,
        bos: int | None = None,
        eos: int | None = None,
        adds_bos: bool = False,
        chat_template: str | None = None,
    ) -> None:
        self.texts, self.bos, self.eos, self.adds_bos = list(texts), bos, eos, adds_bos
        self.chat_template = chat_template

    @property
    def size(self) -> int:
        return len(self.texts)

    def is_end(self, token: int) -> bool:
        return token == self.eos

    def text(self, token: int) -> str:
        return self.texts[token]

    def piece(self, token: int, *, special: bool = False) -> bytes:
        return self.texts[token].encode() if special or not self.texts[token].startswith("<") else b""

    def encode(self, text: str, *, add_bos: bool, special: bool) -> list[int]:
        ids = [self.bos] if add_bos and self.bos is not None else []
        while text:
            fits = [t for t in self.texts if text.startswith(t) and (special or len(t) == 1)]
            best = max(fits, key=len)
            ids.append(self.texts.index(best))
            text = text[len(best) :]
        return ids


class FileVocabulary:
    """The vocabulary of a GGUF file, loaded by llama.cpp without weights."""

    def __init__(self, path: Path, chat_template: str | None) -> None:
        parameters = llama_cpp.llama_model_default_params()
        parameters.vocab_only = True
        self._model = llama_cpp.llama_model_load_from_file(str(path).encode(), parameters)
        self._vocab = llama_cpp.llama_model_get_vocab(self._model)
        self.chat_template = chat_template
        self.size: int = llama_cpp.llama_vocab_n_tokens(self._vocab)
        self.bos: int | None = llama_cpp.llama_vocab_bos(self._vocab)
        self.eos: int | None = llama_cpp.llama_vocab_eos(self._vocab)
        self.adds_bos: bool = llama_cpp.llama_vocab_get_add_bos(self._vocab)

    def is_end(self, token: int) -> bool:
        return bool(llama_cpp.llama_vocab_is_eog(self._vocab, token))

    def text(self, token: int) -> str:
        return llama_cpp.llama_vocab_get_text(self._vocab, token).decode(errors="backslashreplace")

    def piece(self, token: int, *, special: bool = False) -> bytes:
        room = ctypes.create_string_buffer(256)
        length = llama_cpp.llama_token_to_piece(self._vocab, token, room, 256, 0, special)
        return room.raw[:length]

    def encode(self, text: str, *, add_bos: bool, special: bool) -> list[int]:
        raw = text.encode()
        room = (ctypes.c_int32 * (len(raw) + 8))()
        n = llama_cpp.llama_tokenize(self._vocab, raw, len(raw), room, len(room), False, special)
        return [*([self.bos] if add_bos and self.bos is not None else []), *room[:n]]
