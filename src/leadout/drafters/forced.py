"""Drafts that a constraint gives for free, and lookups held to what it allows.

What a lookup proposes is a point mass that does not depend on chance, so it may be cut by looking at it.
"""

from __future__ import annotations

from dataclasses import replace

from leadout.core.constraint import ahead
from leadout.core.values import Proposal
from leadout.drafters.base import DraftRequest

FORCED = "forced"
"""Who proposes them, in reports."""


def forced(request: DraftRequest) -> Proposal:
    """What must come next, as far as `k` goes; empty where anything may."""
    if request.constraint is None or request.constraint.is_over:
        return Proposal(drafter=FORCED)
    tokens = tuple(request.constraint.forced())[: request.k]
    return Proposal(tokens=tokens, drafter=FORCED, confidences=(1.0,) * len(tokens))


def credited(proposal: Proposal, sure: Proposal) -> Proposal:
    """A lookup's proposal, in which the tokens that are sure anyway are not the lookup's merit."""
    n = len(sure.tokens)
    if not 0 < n < len(proposal.tokens) or proposal.tokens[:n] != sure.tokens:
        return proposal
    return replace(
        proposal,
        confidences=(*sure.confidences, *proposal.confidences[n:]) if proposal.confidences else (),
        n_given=n,
        given_by=FORCED,
    )


def held_to(request: DraftRequest, proposal: Proposal) -> Proposal:
    """The beginning of a lookup's proposal that the request's constraint allows."""
    if request.constraint is None:
        return proposal
    with ahead(request.constraint) as walk:
        for at, token in enumerate(proposal.tokens):
            if not walk.allows(token):
                return proposal.first(at)
            walk.advance(token)
    return proposal
