"""A drafter that knows the answer and errs on purpose, so that every number of accepted tokens happens."""

from __future__ import annotations

from collections.abc import Sequence

from leadout.core.values import Proposal
from leadout.drafters.base import DraftPrompt, DraftRequest


class RehearsedDrafter:
    """Proposes the known answer; its n-th proposal is right for n mod (k+1) tokens and wrong after them.

    Parameters
    ----------
    answer : sequence of int
        What plain decoding said.
    n_vocab : int
        Wrong tokens are the right one plus one, modulo this.
    """

    def __init__(self, answer: Sequence[int], n_vocab: int) -> None:
        self._answer, self._n_vocab = tuple(answer), n_vocab
        self._n_proposals = 0

    @property
    def name(self) -> str:
        """For reports."""
        return "rehearsed"

    def begin(self, slot: int, prompt: DraftPrompt) -> None:
        """Nothing to prepare."""

    def propose(self, requests: Sequence[DraftRequest]) -> list[Proposal]:
        """The answer from each request's position on, with this proposal's error."""
        return [self._one(request) for request in requests]

    def _one(self, request: DraftRequest) -> Proposal:
        n_right = self._n_proposals % (request.k + 1)
        self._n_proposals += 1
        known = self._answer[request.position : request.position + request.k]
        tokens = tuple(token if i < n_right else (token + 1) % self._n_vocab for i, token in enumerate(known))
        return Proposal(tokens=tokens, drafter=self.name)

    def observe(self, slot: int, committed: Sequence[int]) -> None:
        """Nothing to learn."""

    def end(self, slot: int) -> None:
        """Nothing to forget."""

    def blocked(self, slot: int) -> str:  # noqa: ARG002
        """Never."""
        return ""

    def limited(self, slot: int) -> str:  # noqa: ARG002
        """Never: it has no parts."""
        return ""

    def close(self) -> None:
        """Nothing to free."""
