"""The verification rules: what stands of a proposal, and which token follows.

Whatever the drafter proposed, the emitted tokens have the target's law. Rows of the target are passed as lazy
sequences of length k+1, row i being the law after i drafted tokens; a rule looks only at the rows it needs.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from leadout.core.noise import Noise, Source
from leadout.core.values import Distribution, Proposal, Verdict
from leadout.errors import InputError


def greedy(tokens: Sequence[int], best: Sequence[int]) -> Verdict:
    """Keep drafted tokens while each is the target's argmax.

    Leviathan et al., arXiv 2211.17192, section 2.2 ("standardized sampling": argmax as a point mass).

    Parameters
    ----------
    tokens : sequence of int, length k
        The drafted tokens.
    best : sequence of int, length k+1
        The target's lowest-id argmax of each row.

    Raises
    ------
    InputError
        If the lengths do not fit.
    """
    _check_length(tokens, best)
    accepted = 0
    while accepted < len(tokens) and tokens[accepted] == best[accepted]:
        accepted += 1
    return Verdict(accepted=accepted, token=best[accepted])


def coupled(tokens: Sequence[int], targets: Sequence[Distribution], noise: Noise, position: int) -> Verdict:
    """Keep drafted tokens while each is what the target draws with the shared noise.

    Gumbel coupling as in Daliri et al., "Coupling without communication and drafter-invariant speculative
    decoding", arXiv 2408.07978. The emitted tokens are the target's own draws, functions of (p, noise) alone:
    drafts decide how many come out of one pass, never which.

    Parameters
    ----------
    tokens : sequence of int, length k
        The drafted tokens; drawn with the same noise they agree often, but any tokens are allowed.
    targets : sequence of Distribution, length k+1
        The target's law of each row.
    noise : Noise
        The request's noise.
    position : int
        Index in the answer of the first drafted token.

    Raises
    ------
    InputError
        If the lengths do not fit.
    """
    _check_length(tokens, targets)
    for accepted, drafted in enumerate(tokens):
        token = noise.draw(targets[accepted], position + accepted)
        if token != drafted:
            return Verdict(accepted=accepted, token=token)
    return Verdict(accepted=len(tokens), token=noise.draw(targets[len(tokens)], position + len(tokens)))


def token(proposal: Proposal, targets: Sequence[Distribution], source: Source) -> Verdict:
    """Accept each drafted token with probability min(1, p/q); once rejected, draw from norm(max(p - q, 0)).

    Leviathan et al., arXiv 2211.17192, algorithm 1 (proof in appendix A.1); Chen et al., arXiv 2302.01318,
    algorithm 2.

    Parameters
    ----------
    proposal : Proposal
        k drafted tokens and the rows `q` they were drawn from.
    targets : sequence of Distribution, length k+1
        The target's law of each row.
    source : Source
        Fresh randomness, independent of the draft's.

    Raises
    ------
    InputError
        If the lengths do not fit, or a drafted token has probability 0 in its own row.
    """
    _check_length(proposal.tokens, targets)
    rows, chances = _draft(proposal)
    for accepted, (drafted, q) in enumerate(zip(proposal.tokens, chances, strict=True)):
        target = targets[accepted]
        if not source.accepts(_ratio(target.prob(drafted), q)):
            return Verdict(accepted=accepted, token=source.draw(_residual(target, rows[accepted])))
    return Verdict(accepted=len(chances), token=source.draw(targets[len(chances)]))


def block(proposal: Proposal, targets: Sequence[Distribution], source: Source) -> Verdict:
    """Accept the draft jointly: never fewer tokens than `token` in expectation, and the same law.

    Sun et al., "Block verification accelerates speculative decoding", arXiv 2403.10444, algorithm 2
    (lossless by theorem 1, optimal by theorem 2). With p_0 = 1 and p_i = min(p_{i-1} p(x_i)/q(x_i), 1),
    length i passes with probability h_i = S_i / (S_i + 1 - p_i), S_i = sum_x max(p_i p(x) - q(x), 0), and
    h_k = p_k. The longest passing length stands, and norm(max(p_i p - q, 0)) gives the next token; p itself
    after the whole draft.

    Parameters
    ----------
    proposal : Proposal
        k drafted tokens and the rows `q` they were drawn from.
    targets : sequence of Distribution, length k+1
        The target's law of each row.
    source : Source
        Fresh randomness, independent of the draft's.

    Raises
    ------
    InputError
        If the lengths do not fit, or a drafted token has probability 0 in its own row.
    """
    k = len(proposal.tokens)
    _check_length(proposal.tokens, targets)
    rows, chances = _draft(proposal)
    joint = [1.0]
    for i, (drafted, q) in enumerate(zip(proposal.tokens, chances, strict=True)):
        joint.append(_ratio(joint[i] * targets[i].prob(drafted), q))
        if joint[-1] == 0:  # nothing from here on can stand
            joint.pop()
            break
    accepted = len(joint) - 1
    # Independent tests, longest first: the first that passes is the longest that does.
    while accepted and not source.accepts(
        joint[k] if accepted == k else _passing(targets[accepted], rows[accepted], joint[accepted])
    ):
        accepted -= 1
    last = targets[k] if accepted == k else _residual(targets[accepted], rows[accepted], joint[accepted])
    return Verdict(accepted=accepted, token=source.draw(last))


def _check_length(tokens: Sequence[int], rows: Sequence[object]) -> None:
    if len(rows) != len(tokens) + 1:
        raise InputError(f"{len(tokens)} drafted tokens need {len(tokens) + 1} target rows, got {len(rows)}")


def _draft(proposal: Proposal) -> tuple[Sequence[Distribution], list[float]]:
    """The draft's rows and the probability of each drafted token in its row, all > 0."""
    rows = proposal.rows
    if rows is None:
        rows = tuple(Distribution.point(drafted) for drafted in proposal.tokens)
    chances = [row.prob(drafted) for row, drafted in zip(rows, proposal.tokens, strict=True)]
    if 0.0 in chances:
        at = chances.index(0.0)
        raise InputError(
            f"drafter {proposal.drafter} proposed token {proposal.tokens[at]} at index {at}, which has "
            "probability 0 in its row; rows must be the distributions the tokens were drawn from"
        )
    return rows, chances


def _ratio(p: float, q: float) -> float:
    """min(1, p/q) for q > 0, exactly 1 where p = q."""
    return 1.0 if p >= q else p / q


def _passing(target: Distribution, row: Distribution, joint: float) -> float:
    """h_i of the block rule, for 0 < i < k and joint = p_i > 0."""
    if joint == 1:  # S / S; where S is 0 too, p = q and every longer length passes, so its value is free
        return 1.0
    mass = float(_excess(target, row, joint).sum())
    return mass / (mass + 1 - joint)


def _residual(target: Distribution, row: Distribution, joint: float = 1.0) -> Distribution:
    """norm(max(joint * p - q, 0)); p itself where nothing is left, which only rounding can bring about."""
    excess = _excess(target, row, joint)
    mass = excess.sum()
    if mass == 0:
        return target
    at = np.flatnonzero(excess)
    return Distribution(ids=target.ids[at], probs=excess[at] / mass)


def _excess(target: Distribution, row: Distribution, joint: float) -> NDArray[np.float64]:
    """max(joint * p - q, 0) at the target's ids."""
    return np.maximum(joint * target.probs - row.probs_of(target.ids), 0.0)
