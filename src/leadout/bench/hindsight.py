"""What the best choices would have reached, worked out afterwards from what a run recorded.

For every token of an answer it is known whether the draft model's best guess was it, and how much of what
each lookup proposed there came true. With the costs of the same run that gives the seconds of any way to
decode: of plain decoding, of every fixed choice, and of an oracle that knows the future. Pure functions, for
greedy answers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from leadout.core.cost import CostTable

LONGEST_DRAFT = 8
"""Most tokens of a draft model that are considered, in one round."""

LOOKUP_LENGTHS = (1, 2, 3, 4, 6, 8, 12, 15)
PLAIN = "plain"


Choice = Callable[["AnswerFacts", CostTable], float]
"""Seconds that a way to decode takes for an answer, after its first token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Guess:
    """What a lookup proposed at a place: so many tokens, of which the first `matched` came true."""

    proposed: int = 0
    matched: int = 0
    confidences: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerFacts:
    """An answer, token by token. The first one comes with the prompt and is drafted by nobody.

    Parameters
    ----------
    agrees : tuple of bool
        For each token: the draft model's most probable token after all before it is this one. Empty without
        a draft model.
    confidences : tuple of float
        Probability that the draft model gave its most probable token there.
    lookups : mapping of name to tuple of Guess
        For each lookup and token: what it proposed from this token on.
    n_tokens : int
        Of the answer.
    n_prompt : int
        Tokens of the prompt.
    n_to_read : int
        Tokens of the prompt that a draft model would have to read before its first draft.
    """

    n_tokens: int
    n_prompt: int = 0
    n_to_read: int = 0
    agrees: tuple[bool, ...] = ()
    confidences: tuple[float, ...] = ()
    lookups: Mapping[str, tuple[Guess, ...]] = field(default_factory=dict)

    def to_json(self) -> dict[str, object]:
        """Plain values, short: agreements as "1101", each lookup's guesses as "proposed/matched"."""
        return {
            "n_tokens": self.n_tokens,
            "n_prompt": self.n_prompt,
            "n_to_read": self.n_to_read,
            "agrees": "".join("01"[each] for each in self.agrees),
            "lookups": {
                name: " ".join(f"{each.proposed}/{each.matched}" for each in guesses)
                for name, guesses in self.lookups.items()
            },
        }

    def costs(self, costs: CostTable) -> CostTable:
        """What rounds of this answer cost, on average, where the cache holds its prompt."""
        return costs.behind(self.n_prompt + self.n_tokens // 2)

    def run_from(self, at: int) -> int:
        """Tokens from `at` on that the draft model would have got right in a row."""
        n = 0
        while at + n < len(self.agrees) and self.agrees[at + n]:
            n += 1
        return n

    def matched(self, at: int) -> int:
        """The most that any lookup got right from `at` on."""
        return max((guesses[at].matched for guesses in self.lookups.values()), default=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hindsight:
    """Speeds of one workload as multiples of plain decoding's, all by the same costs.

    Parameters
    ----------
    oracle : float
        Of the best choice in every round, with the future known; no schedule can reach it.
    best_fixed : str
        The best of `fixed`: "plain", "suffix k=8", "draft k=2" and so on.
    fixed : dict of str to float
        Of each choice, kept for the whole workload.
    """

    oracle: float
    best_fixed: str
    fixed: dict[str, float]

    @property
    def best(self) -> float:
        """Speed of the best fixed choice; at least 1, as plain decoding is one."""
        return self.fixed[self.best_fixed]


def look_back(answers: Sequence[AnswerFacts], costs: CostTable) -> Hindsight | None:
    """The oracle and every fixed choice over the answers of a workload; None when nothing was decoded.

    Parameters
    ----------
    answers : sequence of AnswerFacts
    costs : CostTable
        Of the same run: passes of the target by width, a draft pass, the rest of a round.
    """
    cases = [(each, each.costs(costs)) for each in answers]
    plain_s = sum(plain_s_of(*case) for case in cases)
    if plain_s <= 0:
        return None
    fixed = {
        name: plain_s / sum(seconds(*case) for case in cases)
        for name, seconds in _fixed_choices(answers).items()
    }
    best_fixed = max(fixed, key=fixed.__getitem__)
    # what a fixed choice does the oracle may do too: only the rounding of sums could put it below
    oracle = max(fixed[best_fixed], plain_s / sum(oracle_s(*case) for case in cases))
    return Hindsight(oracle=oracle, best_fixed=best_fixed, fixed=fixed)


def plain_s_of(answer: AnswerFacts, costs: CostTable) -> float:
    """Seconds of plain decoding after the first token."""
    return max(0, answer.n_tokens - 1) * costs.plain_s()


def fixed_draft_s(answer: AnswerFacts, costs: CostTable, *, k: int) -> float:
    """Seconds when the draft model always drafts `k` tokens; it reads the prompt first."""
    at, unread, seconds = 1, answer.n_to_read + 1, 0.0
    while at < answer.n_tokens:
        length = min(k, answer.n_tokens - at - 1)  # as the engine does: the answer has room for no more
        accepted = min(length, answer.run_from(at))
        seconds += costs.drafting_s(length, unread) + _round_s(costs, length)
        # of a draft accepted whole the last token was never fed, and the bonus token is new
        unread = (2 if accepted == length else 1) if length else unread + 1
        at += accepted + 1
    return seconds


def fixed_lookup_s(answer: AnswerFacts, costs: CostTable, *, lookup: str, k: int) -> float:
    """Seconds when this lookup's proposals, up to `k` tokens, are always verified."""
    at, seconds = 1, 0.0
    guesses = answer.lookups[lookup]
    while at < answer.n_tokens:
        length = min(k, guesses[at].proposed, answer.n_tokens - at - 1)
        seconds += _round_s(costs, length)
        at += min(length, guesses[at].matched) + 1
    return seconds


def oracle_s(answer: AnswerFacts, costs: CostTable, longest: int = LONGEST_DRAFT) -> float:
    """Seconds of the best rounds: plain, a lookup's run, the draft model at any k, or the model after a run.

    Exact, by dynamic programming from the end. The draft model reads the prompt once if it is used at all,
    and reads for nothing what was decoded without it: a bound that nothing real reaches.
    """
    without = _best_s(answer, costs, 0)
    if not answer.agrees:
        return without
    reading = costs.read_s * answer.n_to_read
    return min(without, reading + _best_s(answer, costs, longest))


def _best_s(answer: AnswerFacts, costs: CostTable, longest: int) -> float:
    n = answer.n_tokens
    runs = [answer.run_from(at) for at in range(n + 1)]
    left = [0.0] * (n + 1)  # seconds from having `at` tokens to the end
    for at in range(n - 1, 0, -1):
        best = math.inf
        for given in range(min(answer.matched(at), n - at - 1) + 1):
            after = at + given
            for k in range(min(longest, runs[after], n - after - 1) + 1):
                spent = costs.drafting_s(k) + _round_s(costs, given + k)
                best = min(best, spent + left[after + k + 1])
        left[at] = best
    return left[1] if n > 1 else 0.0


def _fixed_choices(answers: Sequence[AnswerFacts]) -> dict[str, Choice]:
    choices: dict[str, Choice] = {PLAIN: plain_s_of}
    for lookup in dict.fromkeys(name for each in answers for name in each.lookups):
        for k in LOOKUP_LENGTHS:
            choices[f"{lookup} k={k}"] = partial(fixed_lookup_s, lookup=lookup, k=k)
    if any(each.agrees for each in answers):
        for k in range(1, LONGEST_DRAFT + 1):
            choices[f"draft k={k}"] = partial(fixed_draft_s, k=k)
    return choices


def _round_s(costs: CostTable, k: int) -> float:
    return costs.plain_s() + costs.extra_s(k)
