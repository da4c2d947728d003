"""Whether two files' vocabularies go together, told by their headers."""

from __future__ import annotations

from dataclasses import dataclass

from leadout.models.header import Header
from leadout.models.match import match_vocabularies


@dataclass(frozen=True, slots=True, kw_only=True)
class VocabularyVerdict:
    """How a draft's vocabulary relates to a target's.

    Parameters
    ----------
    is_same : bool
        Whether ids mean the same, but for a few that are never proposed.
    is_usable : bool
        Whether a draft can be made at all.
    text : str
        In words.
    """

    is_same: bool
    is_usable: bool
    text: str


def compare(target: Header, draft: Header) -> VocabularyVerdict:
    """Compare two vocabularies without loading either model."""
    match = match_vocabularies(_HeaderVocabulary(target), _HeaderVocabulary(draft))
    return VocabularyVerdict(is_same=match.usable, is_usable=match.usable, text=match.explain())


class _HeaderVocabulary:
    """As much of `Vocabulary` as a comparison asks for."""

    chat_template = None

    def __init__(self, header: Header) -> None:
        self._header = header
        self.size = header.n_vocab
        self.bos, self.eos = self._id("bos"), self._id("eos")
        self.adds_bos = bool(header.metadata.get("tokenizer.ggml.add_bos_token", False))

    def is_end(self, token: int) -> bool:
        return token == self.eos

    def text(self, token: int) -> str:
        return self._header.tokens[token]

    def piece(self, token: int, *, special: bool = False) -> bytes:  # noqa: ARG002
        return self.text(token).encode()

    def encode(self, text: str, *, add_bos: bool, special: bool) -> list[int]:
        raise NotImplementedError

    def _id(self, what: str) -> int | None:
        value = self._header.metadata.get(f"tokenizer.ggml.{what}_token_id")
        return value if isinstance(value, int) else None
