"""The Drafter seam: one interface for draft models, lookups and everything between.

A drafter cannot change what is said, only how soon; the verification rules see to that. How much it drafts is
decided by a `Judge`, which knows what passes cost and how often this drafter is right.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from operator import mul
from typing import Protocol

from leadout.core.constraint import ConstraintState
from leadout.core.noise import Noise, Source
from leadout.core.values import History, Proposal, Sampling
from leadout.models.conversation import Conversation


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftPrompt:
    """What a request starts from.

    Parameters
    ----------
    ids : sequence of int
        In the target's vocabulary; all that a drafter of that vocabulary needs.
    client : str
        Whose request it is; what was said to one client is never proposed to another.
    conversation : Conversation or None
        What `ids` were rendered from, where that was a chat, so that a draft model of another family can read
        it by its own template.
    """

    ids: Sequence[int]
    client: str = ""
    conversation: Conversation | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Weighed:
    """How much of a proposal is worth verifying.

    Parameters
    ----------
    k : int >= 0
        Tokens to keep, from the first on; 0 is plain decoding.
    worth : float >= 0
        Predicted gain over plain decoding, in tokens; 0 where k is 0.
    """

    k: int
    worth: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Untried:
    """What became of a lookup's proposal that was not verified, or not to its end.

    Parameters
    ----------
    drafter : str
        Who proposed.
    confidences : sequence of float in 0..1
        Belief in each token of the proposal.
    position : int
        Of its first token in the answer.
    verified : int
        Tokens, from the first on, whose fate is known otherwise.
    stood : int
        Tokens, from the first on, that the target said.
    failed : bool
        Whether it then said another one; if not, the proposal ended there.
    """

    drafter: str
    confidences: Sequence[float]
    position: int
    verified: int
    stood: int
    failed: bool


class Judge(Protocol):
    """Says for one slot in one round how much to draft; made by the schedule, asked by drafters.

    It decides from confidences, in order, and never from drawn tokens. Asked the same twice, it answers the
    same. Which draft lengths it may choose, it knows.
    """

    def learns(self, outcome: Untried) -> None:
        """Told before it is asked anything, of each lookup's proposal whose fate became known."""

    @property
    def wants_confidences(self) -> bool:
        """False when `goes_on` and what is learned later do not depend on confidences, so none are needed."""

    def weigh(self, drafter: str, confidences: Sequence[float]) -> Weighed:
        """The best prefix of a proposal that cost nothing to make and does not depend on chance (a lookup).

        Parameters
        ----------
        drafter : str
            Who proposes.
        confidences : sequence of float in 0..1
            Belief in each token of the proposal.
        """

    def promise(self, drafter: str, n_unread: int) -> float:
        """Predicted gain over plain decoding, in tokens, of drafting with a model now; 0 when it would lose.

        Parameters
        ----------
        drafter : str
            The draft model's name.
        n_unread : int
            Committed tokens that it has to read first; their cost is charged.
        """

    def after_run(self, drafter: str, run: Proposal, n_unread: int) -> Judge | None:
        """Who judges a draft by this model that goes on after a lookup's run; None where that does not pay.

        For that judge rows are counted from the end of the run.

        Parameters
        ----------
        drafter : str
            The draft model's name.
        run : Proposal
            What a lookup proposed, all of it worth verifying.
        n_unread : int
            Tokens that the model has to read first, those of the run included.
        """

    def takes(self, drafter: str, confidences: Sequence[float]) -> bool:
        """Whether to draw a token from the last row seen; if not, the proposal ends before it.

        Parameters
        ----------
        drafter : str
            The draft model's name.
        confidences : sequence of float in 0..1
            The top probability of each row so far, in order; empty unless `wants_confidences`.
        """

    def goes_on(self, drafter: str, confidences: Sequence[float]) -> bool:
        """Whether the row after the tokens drafted so far is worth a pass; asked before each but the first.

        What was drawn stays in the proposal: dropping a token because of a row after it, which depends on
        it, biases what is said. Parameters as those of `takes`.
        """


class Willing:
    """A judge that takes all that was asked for."""

    def learns(self, outcome: Untried) -> None:
        """Nothing."""

    @property
    def wants_confidences(self) -> bool:
        """No: nothing depends on them."""
        return False

    def weigh(self, drafter: str, confidences: Sequence[float]) -> Weighed:  # noqa: ARG002
        """All of it; worth the number of tokens that are expected to stand."""
        return Weighed(k=len(confidences), worth=sum(accumulate(confidences, mul)))

    def promise(self, drafter: str, n_unread: int) -> float:  # noqa: ARG002
        """One token: more than a doubtful lookup, less than a good one."""
        return 1.0

    def after_run(self, drafter: str, run: Proposal, n_unread: int) -> Judge | None:  # noqa: ARG002
        """The same one."""
        return self

    def takes(self, drafter: str, confidences: Sequence[float]) -> bool:  # noqa: ARG002
        """Yes."""
        return True

    def goes_on(self, drafter: str, confidences: Sequence[float]) -> bool:  # noqa: ARG002
        """Yes."""
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftRequest:
    """Asks for up to `k` tokens after `context`.

    Parameters
    ----------
    slot : int
        The slot that `begin` was called for.
    context : sequence of int
        Prompt and committed answer; read only, never kept.
    k : int >= 1
        The longest proposal that is wanted; shorter ones, and empty ones, are allowed.
    sampling : Sampling
        The request's law; a drafter that draws must draw from its own `q` shaped by the same law.
    history : History
        What penalties look at, before the first proposed token.
    position : int
        Index in the answer of the first proposed token; keys the noise.
    noise : Noise or None
        For seeded requests: the noise to draw with, shared with the verification.
    source : Source
        Where unseeded draws come from.
    judge : Judge
        Decides how much of `k` is worth drafting.
    constraint : ConstraintState or None
        Where the answer stands in what it is bound to. A drafter may move it ahead while it drafts, and
        leaves it where it was; one that draws must draw from rows that the masks were applied to.
    """

    slot: int
    context: Sequence[int]
    k: int
    sampling: Sampling
    history: History
    position: int
    noise: Noise | None
    source: Source
    judge: Judge = field(default_factory=Willing)
    constraint: ConstraintState | None = None


class Drafter(Protocol):
    """Proposes tokens for slots; keeps per-request state between `begin` and `end` only."""

    @property
    def name(self) -> str:
        """Short name for reports, such as "ngram" or the draft model's name."""

    def begin(self, slot: int, prompt: DraftPrompt) -> None:
        """A request with this prompt starts in `slot`; what the slot held may be reused where it matches."""

    def propose(self, requests: Sequence[DraftRequest]) -> list[Proposal]:
        """One proposal per request, in order; all slots together."""

    def observe(self, slot: int, committed: Sequence[int]) -> None:
        """These tokens were committed to `slot` after the last proposal."""

    def end(self, slot: int) -> None:
        """The request in `slot` is over."""

    def blocked(self, slot: int) -> str:
        """Why this drafter cannot draft for `slot` any more ("the draft context is full"), or ""."""

    def limited(self, slot: int) -> str:
        """Why a part of this drafter cannot draft for `slot` any more while the rest goes on, or ""."""

    def close(self) -> None:
        """Free what the drafter holds. Closing twice is allowed."""


class Lookup(Drafter, Protocol):
    """A drafter whose proposals cost next to nothing to make and do not depend on chance."""

    def look_up(self, request: DraftRequest) -> Proposal:
        """All that it has to say for one request, whatever that is worth, with confidences; may be empty."""


def worthwhile(proposal: Proposal, judge: Judge) -> Proposal:
    """What of a lookup's proposal is worth verifying."""
    if not proposal.tokens:
        return proposal
    return proposal.first(judge.weigh(proposal.drafter, proposal.confidences).k)
