"""From grammars to constraints on the tokens of one model.

What llguidance has to know of a vocabulary is built once, from the model's own tokens; a compiled grammar is
kept for the next request that asks for the same.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING

from leadout.constraints.grammar import Grammar
from leadout.errors import InputError, ProviderError
from leadout.models.base import Vocabulary
from leadout.models.token_table import Key, table_of_vocabulary

if TYPE_CHECKING:
    from llguidance import LLTokenizer

    from leadout.constraints.matcher import GrammarConstraint

MAX_KEPT = 64
MAX_STATES = 50_000  # of a lexer; one takes 1 to 2 kB
_SPECIAL = b"\xff"  # begins what can only be asked for by id


class Grammars:
    """Compiles grammars for the tokens of one model; for any thread.

    Parameters
    ----------
    vocab : Vocabulary
    """

    def __init__(self, vocab: Vocabulary) -> None:
        self._vocab = vocab
        self._lock = threading.Lock()
        self._tokenizer: LLTokenizer | None = None
        self._kept: OrderedDict[str, GrammarConstraint] = OrderedDict()

    def compile(self, grammar: Grammar) -> GrammarConstraint:
        """The grammar as a constraint; takes a moment the first time, so servers do it in a thread.

        Raises
        ------
        InputError
            If the grammar is wrong, asks for what cannot be kept, fits no answer, or is too complex; the
            message says which.
        ProviderError
            If llguidance is not installed.
        """
        source = grammar.source()
        with self._lock:
            if source in self._kept:
                self._kept.move_to_end(source)
                return self._kept[source]
            if self._tokenizer is None:
                self._tokenizer = _tokenizer_of(self._vocab)
            tokenizer = self._tokenizer
        constraint = _compiled(tokenizer, source, self._vocab.size)
        with self._lock:
            self._kept[source] = constraint
            if len(self._kept) > MAX_KEPT:
                self._kept.popitem(last=False)
        return constraint


def _compiled(tokenizer: LLTokenizer, source: str, n_vocab: int) -> GrammarConstraint:
    from llguidance import LLMatcher, LLParserLimits

    from leadout.constraints.matcher import GrammarConstraint, error_of

    limits = LLParserLimits(max_lexer_states=MAX_STATES, verbose_errors=False)
    matcher = LLMatcher(tokenizer, source, log_level=0, limits=limits)
    matcher.compute_bitmask()  # the first step shows what cannot be followed at all
    if matcher.is_error():
        raise InputError(error_of(matcher))
    return GrammarConstraint(matcher, n_vocab)


def _tokenizer_of(vocab: Vocabulary) -> LLTokenizer:
    """A vocabulary as llguidance knows it."""
    try:
        from llguidance import LLTokenizer, TokenizerWrapper
    except ImportError as error:
        raise ProviderError(
            "answers in a certain form need the package llguidance; "
            "install it with: pip install 'leadout[constraints]'"
        ) from error
    words = _Words(vocab)
    return LLTokenizer(
        TokenizerWrapper(words),
        n_vocab=vocab.size,
        eos_token=words.ends,
        slices=LLTokenizer.json_slices(),
    )


class _Words:
    """The tokens of a vocabulary by their bytes, and text to ids, in the shape that llguidance asks for."""

    def __init__(self, vocab: Vocabulary) -> None:
        keys = table_of_vocabulary(vocab).keys
        self.ends = [token for token in range(vocab.size) if vocab.is_end(token)]
        if not self.ends:
            raise InputError("this model has no end token, so its answers cannot be bound to a form")
        self.eos_token_id, self.bos_token_id = self.ends[0], vocab.bos
        self.special_token_ids = [token for token, key in enumerate(keys) if isinstance(key, str)]
        self.tokens = [_written(key) for key in keys]
        self._vocab = vocab
        self._by_bytes = {key: token for token, key in reversed([*enumerate(keys)]) if isinstance(key, bytes)}
        self._longest = max(map(len, self._by_bytes), default=0)

    def __call__(self, text: bytes) -> list[int]:
        """Ids of a piece of text, as the model's tokenizer splits it."""
        try:
            ids = self._vocab.encode(text.decode(), add_bos=False, special=False)
        except InputError:  # what this vocabulary cannot write
            return self._split(text)
        is_exact = b"".join(map(self._vocab.piece, ids)) == text
        return ids if is_exact else self._split(text)  # some put a space in front of every text

    def _split(self, text: bytes) -> list[int]:
        """Longest tokens first."""
        ids, at = [], 0
        while at < len(text):
            sizes = range(min(self._longest, len(text) - at), 0, -1)
            size = next((size for size in sizes if text[at : at + size] in self._by_bytes), 0)
            if not size:
                break  # what is left is not forced
            ids.append(self._by_bytes[text[at : at + size]])
            at += size
        return ids


def _written(key: Key) -> bytes:
    if key is None:
        return b""
    return key if isinstance(key, bytes) else _SPECIAL + key.encode()
