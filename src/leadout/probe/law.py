"""Do draws at temperature 1 follow the target's law where drafts were verified? Tested, never eyeballed.

Many short samples after one text. Samples that begin alike form a group; what comes next in a group are draws
from one known law, asked of the server in a one-token request, for which nothing is drafted. The significance
is divided by the number of groups (Bonferroni), so that the whole part raises a false alarm with probability
`FALSE_ALARM` at most. Where no probabilities are told, samples of two servers are compared instead.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from leadout.errors import ServerRefusedError
from leadout.probe.answers import Drafting, fold_drafting
from leadout.probe.fits import MIN_EXPECTED, Group, fit_group, two_samples
from leadout.probe.side import Side
from leadout.probe.values import Ask, Key, Said
from leadout.probe.watch import Watch

FALSE_ALARM = 0.001
"""Of the whole law part, for a server whose draws are right."""

LENGTH = 5
"""Leading tokens of a sample that are judged. The first is drawn without a draft and serves as a control."""

MAX_TOKENS, STOP = 64, "."
"""A sample ends with its sentence, but may be longer: drafters with a least length need room to draft."""

N_WORDS = 4
"""Leading words of a sample that are judged where only text is told; all but the first may be drafted."""

MIN_GROUP = 25
"""Smaller groups are not tested."""

MAX_GROUPS = 10
"""The largest groups after a text; each costs a request."""

MIN_P, N_MIN_P, MIN_P_SLACK = 0.9, 30, 0.25
"""min_p is tried with this value on so many samples; slack in nats for what kernels round differently."""

Beginning = tuple[int, ...]

Laws = Mapping[Beginning, Mapping[Key, float]]
"""Log probabilities of what follows each beginning."""

Kind = Literal["follows", "greedy", "differs", "control differs", "no power", "undrafted", "unchecked"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Law:
    """What became of the law part.

    Parameters
    ----------
    method : str
        "own probabilities", "plain side's probabilities", "two samples", or "" where nothing was tested.
    n_draws : int
    groups : tuple of Group
    drafting : Drafting or None
        Of the samples.
    min_p : str
        "honoured", "ignored", "refused", or "" where it was not tried.
    """

    method: str = ""
    n_draws: int = 0
    groups: tuple[Group, ...] = ()
    drafting: Drafting | None = None
    min_p: str = ""

    @property
    def limit(self) -> float:
        """A group's p-value below this is an alarm."""
        return FALSE_ALARM / max(1, len(self.groups))

    @property
    def p_value(self) -> float:
        """Of the whole part: the smallest, corrected for the number of groups."""
        return min(1.0, min((each.p_value for each in self.groups), default=1.0) * max(1, len(self.groups)))

    @property
    def result(self) -> Kind:
        """One word for it all."""
        verified = [each for each in self.groups if each.depth > 0]
        if not verified:
            return "unchecked"
        if any(each.depth == 0 and each.p_value < self.limit for each in self.groups):
            return "control differs"
        alarms = [each for each in verified if each.p_value < self.limit]
        if alarms:
            return "greedy" if all(each.is_peaked for each in alarms) else "differs"
        if not any(each.p_value_greedy < self.limit for each in verified):
            return "no power"
        if self.drafting is not None and self.drafting.drafted == 0:
            return "undrafted"
        return "follows"


def judge_law(
    side: Side,
    plain: Side | None,
    texts: Sequence[str],
    *,
    n_draws: int,
    random: np.random.Generator,
    watch: Watch,
) -> Law:
    """Draw after each text and test.

    Parameters
    ----------
    plain : Side or None
        Whose law it should be; that of the server's own undrafted first tokens where there is none.
    random : np.random.Generator
        Drives the tests, not the draws.

    Raises
    ------
    ServerError
    """
    by_law = side.engine.takes_ids and (plain is None or plain.engine.takes_ids)
    if n_draws == 0 or not (by_law or plain is not None):
        return Law()
    groups: list[Group] = []
    drawn: list[Said] = []
    before, min_p = side.counters(), ""
    for text in texts:
        prompt = (side.ids(text) if by_law else None) or text
        ask = Ask(prompt=prompt, max_tokens=MAX_TOKENS, temperature=1.0, stop=STOP)
        ours = _draw(side, ask, n_draws, watch)
        drawn += ours
        if isinstance(ask.prompt, tuple):
            following = group_by_beginning(ours)
            laws = _laws(plain or side, ask.prompt, following, watch)
            groups += [fit_group(len(each), following[each], law, random) for each, law in laws.items()]
            min_p = min_p or _try_min_p(side, ask.prompt, laws, watch)
        elif plain is not None:
            theirs = _draw(plain, ask, n_draws, watch)
            groups.append(two_samples(_leading_words(ours), _leading_words(theirs), random))
    change = side.counted_since(before, sum(each.n_tokens or 0 for each in drawn))
    of_laws = "own probabilities" if plain is None else "plain side's probabilities"
    return Law(
        method=of_laws if by_law else "two samples",
        n_draws=len(drawn),
        groups=tuple(groups),
        drafting=fold_drafting(drawn, change),
        min_p=min_p,
    )


def group_by_beginning(drawn: Sequence[Said]) -> Mapping[Beginning, Counter[int]]:
    """What followed each beginning of the samples, and how often; the groups worth testing, control first."""
    following: dict[Beginning, Counter[int]] = {}
    for said in drawn:
        ids = said.ids or ()
        for depth in range(min(len(ids), LENGTH)):
            following.setdefault(ids[:depth], Counter())[ids[depth]] += 1
    by_size = sorted(following, key=lambda beginning: (bool(beginning), -following[beginning].total()))
    return {each: following[each] for each in by_size[:MAX_GROUPS] if following[each].total() >= MIN_GROUP}


def _leading_words(drawn: Sequence[Said]) -> list[str]:
    return [" ".join(said.text.split()[:N_WORDS]) for said in drawn]


def _draw(side: Side, ask: Ask, n_draws: int, watch: Watch) -> list[Said]:
    """Short unseeded samples."""
    drawn: list[Said] = []
    while len(drawn) < n_draws and not watch.is_over():
        drawn.append(side.ask(ask))
        watch.progress("samples at temperature 1", len(drawn), n_draws)
    return drawn


def _laws(
    reference: Side, prompt: Beginning, following: Mapping[Beginning, Counter[int]], watch: Watch
) -> Laws:
    laws = {}
    for beginning in following:
        law = None if watch.is_over() else reference.next_law((*prompt, *beginning))
        if law is not None:
            laws[beginning] = law
    return laws


def _try_min_p(side: Side, prompt: Beginning, laws: Laws, watch: Watch) -> str:
    """Whether min_p holds for tokens that follow the first one.

    Returns
    -------
    str
        "honoured", "ignored", "refused", or "" where the laws leave nothing to see.
    """
    bounds = {
        beginning: max(law.values()) + math.log(MIN_P) - MIN_P_SLACK
        for beginning, law in laws.items()
        if beginning
    }
    forbidden = {
        beginning: sum(math.exp(value) for value in laws[beginning].values() if value < bound)
        for beginning, bound in bounds.items()
    }
    if N_MIN_P * max(forbidden.values(), default=0.0) < 2 * MIN_EXPECTED:
        return ""
    ask = Ask(prompt=prompt, max_tokens=MAX_TOKENS, temperature=1.0, min_p=MIN_P, stop=STOP)
    try:
        drawn = _draw(side, ask, N_MIN_P, watch)
    except ServerRefusedError as error:
        if error.status in (401, 403):
            raise
        return "refused"
    n_wrong, expected = 0, 0.0
    for said in drawn:
        ids = said.ids or ()
        for depth in range(1, min(len(ids), LENGTH)):
            beginning = ids[:depth]
            if beginning in forbidden:
                expected += forbidden[beginning]
                n_wrong += laws[beginning].get(ids[depth], -math.inf) < bounds[beginning]
    if n_wrong >= 2:
        return "ignored"
    return "honoured" if expected >= MIN_EXPECTED else ""
