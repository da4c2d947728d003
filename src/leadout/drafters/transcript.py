"""What a draft model of another vocabulary has to read, kept up to date as the target goes on.

The text it reads is the committed text, byte for byte, at every moment; markers are its own where it has
such, else they are spelled out. Only the end of the text is ever tokenized again, as it may merge with what
follows; before it, ids stay what they are, so that a cache can follow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from leadout.models.token_table import Key
from leadout.models.writer import ByteWriter

_LONGEST_TAIL = 192  # bytes that are tokenized again and again
_SHORTEST_TAIL = 64
_LONGEST_UNSETTLED = 1024  # beyond which the end is cut although tokens may differ from a whole text's
_N_PLACES = 4  # where a cut is tried


class Phrasebook:
    """What each target id is to the draft: bytes of text, or a marker's draft id.

    Parameters
    ----------
    keys : sequence of Key
        What the target's tokens write.
    markers : mapping of int to int
        Target ids of special tokens to the draft's ids of the same role.
    """

    def __init__(self, keys: Sequence[Key], markers: Mapping[int, int]) -> None:
        self._keys, self._markers = keys, markers

    def meaning(self, token: int) -> bytes | int:
        """Text, or a draft id; a marker that the draft has not is its own name, so that no role is lost."""
        if token in self._markers:
            return self._markers[token]
        key = self._keys[token] if 0 <= token < len(self._keys) else None
        return key.encode() if isinstance(key, str) else key or b""


class Transcript:
    """A growing text in the draft's ids.

    Parameters
    ----------
    writer : ByteWriter
        Of the draft's vocabulary.
    phrasebook : Phrasebook
    head : sequence of int
        Draft ids that the text begins with; they never change.
    """

    def __init__(self, writer: ByteWriter, phrasebook: Phrasebook, head: Sequence[int]) -> None:
        self._writer, self._phrasebook = writer, phrasebook
        self._settled = list(head)
        self._tail = b""
        self._tail_ids: list[int] = []

    @property
    def ids(self) -> list[int]:
        """The whole text."""
        return [*self._settled, *self._tail_ids]

    @property
    def is_open(self) -> bool:
        """Whether the text after the head or the last marker has begun."""
        return bool(self._tail)

    def extend(self, tokens: Sequence[int]) -> None:
        """Append target tokens.

        Raises
        ------
        VocabularyError
            If the draft cannot write them; nothing has changed then.
        """
        fixed, tail, ids = self._followed_by(tokens)
        self._settled += fixed
        self._tail, self._tail_ids = tail, ids
        if len(tail) > _LONGEST_TAIL:
            self._settle()

    def followed_by(self, tokens: Sequence[int]) -> list[int]:
        """The whole text with these target tokens after it, which are not kept; raises as `extend` does."""
        fixed, _, ids = self._followed_by(tokens)
        return [*self._settled, *fixed, *ids]

    def _followed_by(self, tokens: Sequence[int]) -> tuple[list[int], bytes, list[int]]:
        """Ids up to the last marker, the text after it, and its ids."""
        fixed: list[int] = []
        parts = [self._tail]
        for token in tokens:
            meaning = self._phrasebook.meaning(token)
            if isinstance(meaning, bytes):
                parts.append(meaning)
            else:
                fixed += [*self._writer.write(b"".join(parts)), meaning]
                parts = []
        tail = b"".join(parts)
        return fixed, tail, self._writer.write(tail)

    def _settle(self) -> None:
        """Cut the tail where its end alone is tokenized as it is within the whole."""
        places = self._places()
        for at, start in places:
            rest = self._tail[start:]
            ids = self._writer.write(rest)
            if ids == self._tail_ids[at:] or len(self._tail) > _LONGEST_UNSETTLED:
                self._settled += self._tail_ids[:at]
                self._tail, self._tail_ids = rest, ids
                return

    def _places(self) -> list[tuple[int, int]]:
        """Tokens that the tail could begin with, and where they start; the likeliest first."""
        ends = self._writer.ends(self._tail_ids)
        limit = len(self._tail) - _SHORTEST_TAIL
        places = [(at + 1, end) for at, end in enumerate(ends) if end <= limit]
        words = [(at, start) for at, start in places[-_SHORTEST_TAIL:] if self._begins_a_word(start)]
        return [*reversed(words[-_N_PLACES:]), *reversed(places[-_N_PLACES:])]

    def _begins_a_word(self, start: int) -> bool:
        tail = self._tail
        return tail[start : start + 1] == b" " and not tail[start - 1 : start].isspace()
