"""A model whose logits come from a rule that can be computed by hand.

It keeps the promises of the Model seam strictly, so that code which breaks them fails in a test: ids are
checked, failures leave lengths as they were, and logits are gone after the next pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from leadout.errors import BackendError, RollbackError
from leadout.models.base import Chunk, ModelInfo, Rollback, Vocabulary
from leadout.testing.vocabulary import PieceVocabulary

Rule = Callable[[tuple[int, ...]], ArrayLike]
"""The tokens of a slot so far -> the logits row after them, shape (V,)."""

SNAPSHOTS = 4


def first_order(table: ArrayLike) -> Rule:
    """Logits after token t are row t of `table`, shape (V, V)."""
    rows = np.asarray(table, dtype=np.float64)
    return lambda tokens: rows[tokens[-1]]


def constant(logits: ArrayLike) -> Rule:
    """The same logits, shape (V,), after every text."""
    row = np.asarray(logits, dtype=np.float64)
    return lambda _: row


def saying(next_token: Callable[[tuple[int, ...]], int], n_vocab: int) -> Rule:
    """Logits 4 for `next_token(tokens so far)` and 0 for all others."""
    return lambda tokens: 4.0 * (np.arange(n_vocab) == next_token(tokens))


@dataclass(frozen=True, slots=True, kw_only=True)
class Fed:
    """What one chunk of one pass was: tokens that went to positions start, start+1, ... of a slot."""

    slot: int
    start: int
    tokens: tuple[int, ...]
    n_logits: int


class TableModel:
    """A Model with logits from `rule`; see `first_order`, `constant` and `saying`.

    Parameters
    ----------
    rule : callable
        From the tokens so far (a tuple, never empty) to logits, shape (V,); computed in float64, given as
        float32.
    n_vocab, n_ctx, n_slots : int
        Rows, positions per slot, slots.
    vocab : Vocabulary or None
        None names id i " i".
    rollback : Rollback
        "cut" forgets the tail. "replay" and "none" hold a running state that cannot be cut: "replay" goes
        back to a snapshot and feeds the tokens again (counted in `replayed`), "none" raises and is empty
        afterwards.
    widths : iterable of int
        What `exact_widths` reports.
    shares_passes : bool
        What `info` reports.

    Attributes
    ----------
    passes : list of tuple of Fed
        Every completed forward pass.
    replayed : int
        Tokens fed again by "replay".
    """

    def __init__(
        self,
        rule: Rule,
        *,
        n_vocab: int,
        n_ctx: int = 256,
        n_slots: int = 1,
        vocab: Vocabulary | None = None,
        rollback: Rollback = "cut",
        widths: Iterable[int] = range(1, 66),
        shares_passes: bool = True,
        name: str = "table",
    ) -> None:
        reasons: dict[Rollback, str] = {
            "cut": "",
            "replay": "its state is restored from a snapshot",
            "none": "its state cannot roll back",
        }
        self._info = ModelInfo(
            name=name,
            path=None,
            provider="table",
            architecture="table",
            n_layers=1,
            n_params=0,
            n_bytes=0,
            n_ctx=n_ctx,
            n_ctx_train=n_ctx,
            n_slots=n_slots,
            n_vocab=n_vocab,
            rollback=rollback,
            rollback_reason=reasons[rollback],
            copying="any" if rollback == "cut" else "whole",
            shares_passes=shares_passes,
        )
        self._rule = rule
        self._vocab = vocab or PieceVocabulary.numbered(n_vocab)
        self._widths = frozenset(widths)
        self._tokens: list[tuple[int, ...]] = [() for _ in range(n_slots)]
        self._snapshots: list[list[int]] = [[0] for _ in range(n_slots)]
        self._given: list[NDArray[np.float32]] = []
        self._failures: set[int] = set()
        self._calls = 0
        self.passes: list[tuple[Fed, ...]] = []
        self.replayed = 0
        self.closed = False

    @property
    def info(self) -> ModelInfo:
        """What is known of this model."""
        return self._info

    @property
    def vocab(self) -> Vocabulary:
        """Its tokens."""
        return self._vocab

    def tokens(self, slot: int) -> tuple[int, ...]:
        """What the slot's cache holds."""
        return self._tokens[slot]

    def fail_at(self, *calls: int) -> None:
        """Make the forward calls with these numbers raise BackendError, counted from the next one as 1."""
        self._failures = {self._calls + call for call in calls}

    def forward(self, chunks: Sequence[Chunk]) -> list[NDArray[np.float32]]:
        """Append each chunk to its slot and return the logits asked for."""
        for rows in self._given:
            rows.fill(np.nan)  # a caller that reads old logits must not get away with it
        self._given = []
        self._calls += 1
        for chunk in chunks:
            self._check(chunk)
        if self._calls in self._failures:
            raise BackendError(f"forward {self._calls} failed, as it was told to")
        fed: list[Fed] = []
        for chunk in chunks:
            before = self._tokens[chunk.slot]
            after = (*before, *chunk.tokens)
            fed.append(
                Fed(slot=chunk.slot, start=len(before), tokens=tuple(chunk.tokens), n_logits=chunk.n_logits)
            )
            rows = np.empty((chunk.n_logits, self._info.n_vocab), dtype=np.float32)
            for i in range(chunk.n_logits):
                rows[i] = np.asarray(
                    self._rule(after[: len(after) - chunk.n_logits + 1 + i]), dtype=np.float64
                )
            self._given.append(rows)
            self._snapshots[chunk.slot] = [*self._snapshots[chunk.slot], len(before)][-SNAPSHOTS:]
            self._tokens[chunk.slot] = after
        self.passes.append(tuple(fed))
        return list(self._given)

    def _check(self, chunk: Chunk) -> None:
        for token in chunk.tokens:
            if not 0 <= token < self._info.n_vocab:
                raise BackendError(f"id {token} is outside 0..{self._info.n_vocab - 1} of {self._info.name}")
        if not 0 <= chunk.n_logits <= len(chunk.tokens) or not chunk.tokens:
            raise BackendError(f"a chunk of {len(chunk.tokens)} tokens cannot give {chunk.n_logits} rows")
        wanted = len(self._tokens[chunk.slot]) + len(chunk.tokens)
        if wanted > self._info.n_ctx:
            raise BackendError(f"slot {chunk.slot} would hold {wanted} tokens; n_ctx is {self._info.n_ctx}")

    def length(self, slot: int) -> int:
        """Tokens the slot's cache holds."""
        return len(self._tokens[slot])

    def truncate(self, slot: int, length: int) -> None:
        """Cut the slot to its first `length` tokens, in the way `rollback` says."""
        held = self._tokens[slot]
        if not 0 <= length <= len(held):
            raise BackendError(f"slot {slot} holds {len(held)} tokens, so it cannot be cut to {length}")
        if length == len(held):
            return
        if self._info.rollback == "none" and length:
            self._tokens[slot] = ()
            raise RollbackError(
                f"slot {slot} cannot go back to {length} tokens: {self._info.rollback_reason}"
            )
        if self._info.rollback == "replay":
            kept = [at for at in self._snapshots[slot] if at <= length] or [0]
            self.replayed += length - kept[-1]
            self._snapshots[slot] = kept
        self._tokens[slot] = held[:length]

    def copy(self, source: int, target: int, length: int) -> None:
        """Make `target` hold the first `length` tokens of `source`."""
        held = self._tokens[source]
        if length > len(held) or (self._info.rollback == "none" and length not in (0, len(held))):
            raise RollbackError(
                f"slot {source} holds {len(held)} tokens, so {length} cannot be copied from it"
            )
        self._tokens[target] = held[:length]
        self._snapshots[target] = [at for at in self._snapshots[source] if at <= length] or [0]

    def exact_widths(self) -> frozenset[int]:
        """The widths given to the constructor."""
        return self._widths

    def close(self) -> None:
        """Note that the model was closed."""
        self.closed = True
