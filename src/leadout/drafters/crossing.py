"""The two ways of a draft over to a target of another vocabulary; neither knows whose turn it is.

By *shared tokens* the draft model draws only what both vocabularies have, and its distribution goes along
(Timor et al., arXiv 2502.05202, algorithm 4). By *text* what it wrote is tokenized for the target, and
proposed without a distribution (algorithm 2).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from leadout.core.values import History, Proposal, Sampling
from leadout.drafters.base import DraftRequest, Judge, Untried, Weighed
from leadout.errors import VocabularyError
from leadout.models.writer import ByteWriter, LongerTokens, whole_characters

_GREEDY = Sampling(temperature=0.0)


class Crossing(Protocol):
    """One way over."""

    def ask(self, request: DraftRequest, ids: Sequence[int], *, is_open: bool) -> DraftRequest:
        """What to ask the draft model, which reads `ids`, for this request.

        Where it is open, the last token is text that was cut off there, and might have been a longer one.
        """

    def answer(self, request: DraftRequest, draft: Proposal) -> Proposal:
        """The draft model's answer, in the target's ids."""


class SharedTokens:
    """The draft model draws with the request's law and noise, by the target's ids, and nothing is changed."""

    def ask(self, request: DraftRequest, ids: Sequence[int], *, is_open: bool) -> DraftRequest:  # noqa: ARG002
        """The same, about the same text."""
        return replace(request, context=ids)

    def answer(self, request: DraftRequest, draft: Proposal) -> Proposal:  # noqa: ARG002
        """The draft itself."""
        return draft


class Text:
    """The draft model writes what it finds most probable, and the target's tokenizer makes tokens of it.

    Point masses, so nothing of the request's law is needed to stay lossless.

    Parameters
    ----------
    target, draft : ByteWriter
    ends : mapping of int to int
        The draft's ids that end an answer, and the target's id that stands for each.
    """

    def __init__(self, target: ByteWriter, draft: ByteWriter, ends: Mapping[int, int]) -> None:
        self._target, self._draft, self._ends = target, draft, ends
        self._longer = LongerTokens(draft)
        self._wanted: dict[int, DraftRequest] = {}
        self._is_open: dict[int, bool] = {}
        self._replaced: dict[int, int] = {}  # bytes at the end of each slot's text that were written again

    def mend(self, slot: int, token: int, row: NDArray[np.float32]) -> NDArray[np.float32] | None:
        """The tokens that begin with the last one's text, if a longer one is more probable than it was."""
        ids = self._longer.of(token)
        if not self._is_open[slot] or not len(ids):
            return None
        best = ids[int(np.argmax(row[ids]))]
        if row[best] <= row[token]:
            return None
        self._replaced[slot] = len(self._draft.piece(token))
        mended = np.full_like(row, -np.inf)
        mended[ids], mended[token] = row[ids], row[token]
        return mended

    def is_enough(self, slot: int, tokens: Sequence[int]) -> bool:
        """Whether the answer is over, or one more token has begun than was asked for."""
        wanted = self._wanted[slot]
        return len(self._written(wanted, tokens)[1]) > wanted.k or not self._draft.piece(tokens[-1])

    def ask(self, request: DraftRequest, ids: Sequence[int], *, is_open: bool) -> DraftRequest:
        """Greedily, about the same text; as many tokens as it takes to write those of the target."""
        slot = request.slot
        self._wanted[slot], self._is_open[slot], self._replaced[slot] = request, is_open, 0
        return replace(
            request,
            context=ids,
            k=2 * request.k,
            judge=Patient(request.judge, request.k),
            sampling=_GREEDY,
            history=History(),
            noise=None,
            constraint=None,
        )

    def answer(self, request: DraftRequest, draft: Proposal) -> Proposal:
        """The text in the target's ids, up to the first token without text; ends of answers stay such."""
        pieces, tokens = self._written(request, draft.tokens)
        confidences = _spread(draft.confidences, pieces, self._target.ends(tokens))
        if len(pieces) < len(draft.tokens) and (end := self._ends.get(draft.tokens[len(pieces)])) is not None:
            tokens.append(end)
            confidences += draft.confidences[len(pieces) : len(pieces) + 1]
        proposal = Proposal(tokens=tuple(tokens), drafter=draft.drafter, confidences=confidences)
        return proposal.first(request.k)

    def _written(self, request: DraftRequest, drafted: Sequence[int]) -> tuple[list[bytes], list[int]]:
        """What drafted tokens add to the text, to the first one without text; and the target's ids of it."""
        pieces = [*takewhile(bool, map(self._draft.piece, drafted))]
        text = b"".join(pieces)
        if pieces:
            n_again = self._replaced[request.slot]
            pieces[0], text = pieces[0][n_again:], text[n_again:]
        try:
            tokens = self._target.write(whole_characters(text))
        except VocabularyError:  # a guess that the target cannot say
            tokens = []
        return pieces, tokens


@dataclass(frozen=True, slots=True)
class Patient:
    """A judge of as many tokens as are wanted; those beyond complete the text of the last one."""

    judge: Judge
    k: int

    def learns(self, outcome: Untried) -> None:
        """As the judge itself."""
        self.judge.learns(outcome)

    @property
    def wants_confidences(self) -> bool:
        """As the judge itself."""
        return self.judge.wants_confidences

    def weigh(self, drafter: str, confidences: Sequence[float]) -> Weighed:
        """As the judge itself."""
        return self.judge.weigh(drafter, confidences)

    def promise(self, drafter: str, n_unread: int) -> float:
        """As the judge itself."""
        return self.judge.promise(drafter, n_unread)

    def after_run(self, drafter: str, run: Proposal, n_unread: int) -> Judge | None:
        """As the judge itself."""
        return self.judge.after_run(drafter, run, n_unread)

    def takes(self, drafter: str, confidences: Sequence[float]) -> bool:
        """As the judge itself; always beyond what is wanted."""
        return len(confidences) > self.k or self.judge.takes(drafter, confidences)

    def goes_on(self, drafter: str, confidences: Sequence[float]) -> bool:
        """As the judge itself; always beyond what is wanted."""
        return len(confidences) >= self.k or self.judge.goes_on(drafter, confidences)


def _spread(confidences: Sequence[float], pieces: Sequence[bytes], ends: Sequence[int]) -> tuple[float, ...]:
    """Confidences of other tokens of the same text, whose product over any stretch of it is the same.

    Each token's is spread evenly, as a logarithm, over the bytes that it wrote.
    """
    n = min(len(confidences), len(pieces))  # what has no text, such as an end, comes after the last piece
    if not n:
        return ()
    at = np.cumsum([0, *(len(piece) for piece in pieces[:n])])
    logs = np.cumsum([0.0, *np.log(np.maximum(confidences[:n], 1e-9))])
    return tuple(np.exp(np.diff(np.interp([0, *ends], at, logs))).tolist())
