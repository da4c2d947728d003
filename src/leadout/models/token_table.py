"""Every token of a vocabulary by what it adds to a text, whatever way its tokenizer spells it.

Byte-level BPE writes a space as Ġ, sentencepiece as ▁, byte fallback as <0x20>; a table has b" " for all of
them. Read from a GGUF header, from a tokenizer.json (`hf_tokenizer.py`) or from a loaded vocabulary.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from leadout.checks import is_whole
from leadout.models.base import Vocabulary
from leadout.models.header import Header, read_header

Key = bytes | str | None
"""The bytes that a token adds to the text; the marker text of a special token; None for padding."""

Spelling = str
"""How entries spell bytes: "bytes" (byte-level BPE), "words" (▁ for a space) or "plain"."""

_NORMAL, _USER_DEFINED, _BYTE = 1, 4, 6  # GGUF token types that add to a text; the others are special
_SPELLINGS = {"gpt2": "bytes", "llama": "words", "t5": "words", "gemma4": "words"}
_ADD_BOS_BY_PRE_TOKENIZER = frozenset({"llama3", "llama-v3", "llama-bpe", "falcon3", "tekken", "pixtral"})
_BYTES_OF_TEXT = {0x09, 0x0A, 0x0D, *range(0x20, 0x7F), *range(0x80, 0xC0), *range(0xC2, 0xF1), 0xF3, 0xF4}
_BYTE_ENTRY = re.compile(r"<0x([0-9A-Fa-f]{2})>")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TokenTable:
    """What there is to know of a vocabulary without its tokenizer.

    Parameters
    ----------
    keys : tuple of Key
        One for each row of the output layer.
    bos, eos : int or None
        Ids that begin and end a sequence.
    adds_bos : bool
        Prompts of this model begin with `bos`.
    kind : str
        The tokenizer's own kind, such as "gpt2" or "BPE"; "" where it is not known.
    pre_tokenizer : str
        How a text is split before merging, such as "qwen2"; "" where it is not known.
    """

    keys: tuple[Key, ...]
    bos: int | None
    eos: int | None
    adds_bos: bool
    kind: str = ""
    pre_tokenizer: str = ""

    @property
    def size(self) -> int:
        """Rows, padding included."""
        return len(self.keys)

    @property
    def n_padding(self) -> int:
        """Rows without a token."""
        return self.keys.count(None)

    @property
    def specials(self) -> dict[str, int]:
        """Special tokens by their marker text."""
        return {key: token for token, key in enumerate(self.keys) if isinstance(key, str)}

    @property
    def writes_any_text(self) -> bool:
        """True when every text has ids, as there is a token for each byte that assigned characters have."""
        single = {key[0] for key in self.keys if isinstance(key, bytes) and len(key) == 1}
        return single >= _BYTES_OF_TEXT


def table_of_header(header: Header) -> TokenTable:
    """The table of a GGUF file, from its metadata."""
    metadata = header.metadata
    kind = _word(metadata.get("tokenizer.ggml.model"))
    pre_tokenizer = _word(metadata.get("tokenizer.ggml.pre"))
    spelling = _SPELLINGS.get(kind, "plain")
    is_old = kind == "llama"  # older converters leave out what was usual then
    adds_bos = metadata.get("tokenizer.ggml.add_bos_token")
    keys = _keys(header, spelling)
    return TokenTable(
        keys=tuple(keys),
        bos=_id(metadata.get("tokenizer.ggml.bos_token_id", 1 if is_old else None), len(keys)),
        eos=_id(metadata.get("tokenizer.ggml.eos_token_id", 2 if is_old else None), len(keys)),
        adds_bos=adds_bos
        if isinstance(adds_bos, bool)
        else is_old or pre_tokenizer in _ADD_BOS_BY_PRE_TOKENIZER,
        kind=kind,
        pre_tokenizer=pre_tokenizer,
    )


def table_of_vocabulary(vocab: Vocabulary) -> TokenTable:
    """The table of a loaded vocabulary, token by token."""
    return TokenTable(
        keys=tuple(_asked(vocab, token) for token in range(vocab.size)),
        bos=vocab.bos,
        eos=vocab.eos,
        adds_bos=vocab.adds_bos,
    )


def read_table(path: Path) -> TokenTable:
    """The table of a GGUF file, a tokenizer.json or a folder with one; no weights are read.

    Raises
    ------
    ModelFileError
        If the file is missing, damaged or of another kind.
    """
    if path.is_dir() or path.suffix == ".json":
        from leadout.models.hf_tokenizer import read_tokenizer

        return read_tokenizer(path)
    return table_of_header(read_header(path))


def spelled_bytes(texts: Sequence[str], spelling: Spelling) -> list[bytes]:
    """The bytes that ordinary entries stand for."""
    if spelling == "bytes":
        return [_byte_level(text) for text in texts]
    if spelling == "words":
        return [text.replace("▁", " ").encode(errors="surrogatepass") for text in texts]
    return [text.encode(errors="surrogatepass") for text in texts]


def byte_of(text: str) -> bytes | None:
    """The byte that an entry such as <0x0A> stands for."""
    found = _BYTE_ENTRY.fullmatch(text)
    return bytes.fromhex(found[1]) if found else None


def is_padding(token: int, text: str) -> bool:
    """True for an empty entry, and for the ``[PADid]`` that converters write."""
    return not text or (text.startswith("[PAD") and text == f"[PAD{token}]")


def _keys(header: Header, spelling: Spelling) -> list[Key]:
    texts = header.tokens
    keys: list[Key] = [*spelled_bytes(texts, spelling)]
    if header.token_types is not None:
        odd = np.flatnonzero(header.token_types != _NORMAL).tolist()
        for token, type_ in zip(odd, header.token_types[odd].tolist(), strict=True):
            keys[token] = _odd_key(texts[token], type_)
    for token, text in enumerate(texts):
        if not text or text[0] == "[":
            keys[token] = None if is_padding(token, text) else keys[token]
    return keys


def _odd_key(text: str, type_: int) -> Key:
    """The key of a token that is not an ordinary one."""
    if type_ == _USER_DEFINED:
        return text.encode()
    if type_ == _BYTE:
        return byte_of(text) or text.encode()
    return text


def _asked(vocab: Vocabulary, token: int) -> Key:
    text = vocab.text(token)
    return None if is_padding(token, text) else vocab.piece(token) or text


def _alphabet() -> dict[int, int]:
    """Characters of byte-level BPE to bytes (Radford et al. 2019, `bytes_to_unicode` of GPT-2)."""
    shown = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(0x100) if byte not in shown]
    return {**{byte: byte for byte in shown}, **{0x100 + i: byte for i, byte in enumerate(hidden)}}


_ALPHABET = _alphabet()


def _byte_level(text: str) -> bytes:
    try:
        return text.encode() if text.isascii() else text.translate(_ALPHABET).encode("latin-1")
    except UnicodeEncodeError:  # an added token, written as it is
        return text.encode(errors="surrogatepass")


def _word(value: object) -> str:
    return value if isinstance(value, str) else ""


def _id(value: object, n_vocab: int) -> int | None:
    return value if is_whole(value) and 0 <= value < n_vocab else None
