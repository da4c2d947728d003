"""Text to ids so that the ids write exactly that text, byte for byte, wherever in a text it stands.

A tokenizer sees whole texts: some put a space in front, some normalise, and none takes half a character.
What comes out of one is therefore checked against what its tokens write, and mended where it differs.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from leadout.errors import InputError, VocabularyError
from leadout.models.base import Vocabulary
from leadout.models.token_table import Key

_ANCHORS = ("", "\n")  # put in front: what a tokenizer does to the beginning of a text happens before them
_LONGEST_PIECE = 64
_LAST = b"\xff" * 4  # sorts behind everything that goes on from the same beginning


class ByteWriter:
    """Writes any bytes with the tokens of a vocabulary.

    Parameters
    ----------
    vocab : Vocabulary
        Its `encode` splits text as the model is used to.
    keys : sequence of Key
        What its tokens write (see `TokenTable`).
    """

    def __init__(self, vocab: Vocabulary, keys: Sequence[Key]) -> None:
        self._vocab, self._keys = vocab, keys
        self._ids: dict[bytes, int] | None = None

    @property
    def n_tokens(self) -> int:
        """Rows of the vocabulary."""
        return len(self._keys)

    def piece(self, token: int) -> bytes:
        """Bytes that `token` writes; none for a special one."""
        key = self._keys[token]
        return key if isinstance(key, bytes) else b""

    def ends(self, ids: Sequence[int]) -> list[int]:
        """Where each of these tokens ends, in bytes from the first one's beginning."""
        return list(accumulate(len(self.piece(token)) for token in ids))

    def write(self, data: bytes) -> list[int]:
        """Ids that write `data`: the tokenizer's own where it writes the same, else the longest that fit.

        Raises
        ------
        VocabularyError
            If no token has one of the bytes.
        """
        ids: list[int] = []
        for text, raw in _runs(data):
            ids += self._tokenized(text, raw) or self._longest(raw)
        return ids

    def _tokenized(self, text: str, raw: bytes) -> list[int] | None:
        """What the tokenizer makes of `text`, if it writes `raw`."""
        if not text:
            return None
        for anchor in _ANCHORS:
            try:
                ids = self._vocab.encode(anchor + text, add_bos=False, special=False)
            except InputError:
                return None
            written = b"".join(map(self.piece, ids))
            if written == raw:
                return ids
            in_front = len(written) - len(raw)
            if in_front > 0 and written.endswith(raw) and in_front in (ends := self.ends(ids)):
                return ids[ends.index(in_front) + 1 :]
        return None

    def _longest(self, raw: bytes) -> list[int]:
        if self._ids is None:
            self._ids = {key: token for token, key in enumerate(self._keys) if isinstance(key, bytes)}
        known, ids, at = self._ids, [], 0
        while at < len(raw):
            sizes = range(min(_LONGEST_PIECE, len(raw) - at), 0, -1)
            size = next((size for size in sizes if raw[at : at + size] in known), 0)
            if not size:
                raise VocabularyError(f"no token of this vocabulary writes the byte 0x{raw[at]:02x}")
            ids.append(known[raw[at : at + size]])
            at += size
        return ids


class LongerTokens:
    """Tokens by how their text begins."""

    def __init__(self, writer: ByteWriter) -> None:
        written = sorted((piece, token) for token in range(writer.n_tokens) if (piece := writer.piece(token)))
        self._pieces = [piece for piece, _ in written]
        self._ids = np.array([token for _, token in written], dtype=np.int64)
        self._writer = writer

    def of(self, token: int) -> NDArray[np.int64]:
        """Ids of the tokens whose text begins with this one's and goes on."""
        piece = self._writer.piece(token)
        if not piece:
            return self._ids[:0]
        first = bisect_right(self._pieces, piece)
        last = bisect_left(self._pieces, piece + _LAST, first)
        return self._ids[first:last]


def whole_characters(data: bytes) -> bytes:
    """`data` without the beginning of a character that it may end with."""
    for size in range(1, min(4, len(data) + 1)):
        lead = data[-size]
        if lead & 0xC0 != 0x80:
            needs = (
                2 if lead >> 5 == 0b110 else 3 if lead >> 4 == 0b1110 else 4 if lead >> 3 == 0b11110 else 1
            )
            return data[:-size] if needs > size else data
    return data


def _runs(data: bytes) -> Iterator[tuple[str, bytes]]:
    """Stretches of text, each with its bytes, and of bytes that are no text, with ""."""
    while data:
        try:
            text, broken = data.decode(), slice(len(data), len(data))
        except UnicodeDecodeError as error:
            text, broken = data[: error.start].decode(), slice(error.start, error.end)
        if text:
            yield text, data[: broken.start]
        if data[broken]:
            yield "", data[broken]
        data = data[broken.stop :]
