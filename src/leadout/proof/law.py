"""The law of unseeded speculative draws against the target's exact law, by a goodness-of-fit test."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from leadout.core import law
from leadout.engine.engine import Engine
from leadout.engine.params import Params
from leadout.proof.answers import Answer
from leadout.proof.fit import fit_p_value
from leadout.proof.progress import Steps, quiet
from leadout.proof.remember import RememberingModel

N_JUDGED = 3
"""Leading tokens whose joint law is tested: the first is drawn without a draft, the others after drafts."""

MIN_EXPECTED = 5
"""Outcomes expected less often are taken together."""

Outcome = tuple[int | None, ...]
"""The judged tokens; None stands for an end token, which is the last then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LawReport:
    """Draws after one prompt, tested.

    Parameters
    ----------
    n_draws, drafted, accepted : int
        Answers drawn, and what was drafted for them.
    n_outcomes : int
        Outcomes told apart; all rarer ones are taken together.
    p_value : float
        Chance of a fit at least this bad under the exact law.
    """

    n_draws: int
    drafted: int
    accepted: int
    n_outcomes: int
    p_value: float


def judge_law(
    engine: Engine,
    target: RememberingModel,
    prompt: Sequence[int],
    params: Params,
    *,
    n_draws: int,
    random: np.random.Generator,
    progress: Steps = quiet,
) -> LawReport:
    """Draw `n_draws` answers and test the joint law of their first tokens.

    Parameters
    ----------
    engine : Engine
        Over `target`.
    params : Params
        Unseeded; its max_tokens is at least N_JUDGED.
    random : np.random.Generator
        Drives the test, not the draws.
    progress : Steps
        Told of draws done.
    """
    drawn: Counter[Outcome] = Counter()
    drafted = accepted = 0
    for done in range(1, n_draws + 1):
        answer = Answer.of(engine.stream(prompt, params))
        tokens = answer.tokens[:N_JUDGED]
        drawn[tokens if len(tokens) == N_JUDGED else (*tokens, None)] += 1
        drafted, accepted = drafted + answer.drafted, accepted + answer.accepted
        progress(done, n_draws)
    frequent = _frequent(target, tuple(prompt), params, MIN_EXPECTED / n_draws)
    counts = [drawn[outcome] for outcome in frequent]
    laws = np.array([*frequent.values(), max(0.0, 1.0 - sum(frequent.values()))])
    all_possible = all(_probability(target, tuple(prompt), params, outcome) > 0 for outcome in drawn)
    p_value = fit_p_value(laws, np.array([*counts, n_draws - sum(counts)]), random)
    return LawReport(
        n_draws=n_draws,
        drafted=drafted,
        accepted=accepted,
        n_outcomes=len(frequent),
        p_value=p_value if all_possible else 0.0,
    )


def _steps(target: RememberingModel, context: tuple[int, ...], params: Params) -> dict[int | None, float]:
    """Exact probabilities of the next token after `context`; all end tokens count as None."""
    distribution = law.shape(target.row(context), params)
    steps: dict[int | None, float] = {}
    for token, probability in zip(distribution.ids.tolist(), distribution.probs.tolist(), strict=True):
        key = None if target.vocab.is_end(token) else token
        steps[key] = steps.get(key, 0.0) + probability
    return steps


def _frequent(
    target: RememberingModel, context: tuple[int, ...], params: Params, least: float
) -> dict[Outcome, float]:
    """Exact probabilities of the outcomes that have at least `least`."""
    found: dict[Outcome, float] = {}
    growing: list[tuple[tuple[int, ...], float]] = [((), 1.0)]
    while growing:
        tokens, reach = growing.pop()
        for token, probability in _steps(target, (*context, *tokens), params).items():
            joint = reach * probability
            if joint < least:
                continue
            if token is None or len(tokens) + 1 == N_JUDGED:
                found[*tokens, token] = joint
            else:
                growing.append(((*tokens, token), joint))
    return found


def _probability(
    target: RememberingModel, context: tuple[int, ...], params: Params, outcome: Outcome
) -> float:
    """Exact probability of an outcome."""
    probability = 1.0
    for token in outcome:
        probability *= _steps(target, context, params).get(token, 0.0)
        if token is None or probability == 0:
            break
        context = (*context, token)
    return probability
