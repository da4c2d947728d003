"""Simulated pairs: costs and acceptance are given, so a schedule can be compared with the best there was.

No clock and no model: the times of a round are the table's with a little noise, and whether the draft's guess
at a place is right was drawn beforehand, so that every schedule meets the same answer.
"""

from dataclasses import dataclass, field

import numpy as np

from leadout.core.cost import CostTable
from leadout.core.values import Proposal
from leadout.drafters.untried import UntriedProposals
from leadout.engine.events import Round
from leadout.engine.schedule import RoundState
from leadout.engine.startup import Agreement, Startup

TOKEN_MS = 22.6  # of the 0.5B draft
READ_MS = 9.3
WIDTHS = (1, 2, 3, 4, 5, 6, 8, 12, 16, 32)
TABLES = {  # facts/cpu_costs.md, ms per pass
    "Q4_K_M llama": (61, 92, 125, 134, 168, 197, 324, 409, 419, 763),
    "Q4_K_M ik": (58, 68, 86, 103, 126, 144, 184, 281, 364, 743),
    "Q8_0 llama": (83, 109, 174, 164, 233, 224, 279, 394, 508, 966),
    "Q8_0 ik": (84, 95, 107, 121, 144, 162, 207, 319, 408, 749),
    "F16 llama": (136, 141, 160, 219, 232, 257, 341, 468, 632, 1178),
}


def table(name, token_ms=TOKEN_MS, read_ms=READ_MS):
    return CostTable(
        widths=tuple((w, ms / 1000) for w, ms in zip(WIDTHS, TABLES[name], strict=True)),
        draft_s=token_ms / 1000,
        read_s=read_ms / 1000,
    )


@dataclass
class Answer:
    """What the draft knows of an answer, place by place."""

    confidence: np.ndarray
    stands: np.ndarray

    def __len__(self):
        return len(self.stands)


def answer(rng, n, *, chance=None, spread=1.5, bias=0.0, parts=None):
    """Places whose chance has this mean; the draft's confidence is that chance, `bias` off in log-odds.

    `parts` is a sequence of means, for an answer that changes as it goes on.
    """
    means = np.repeat(parts or [chance], -(-n // len(parts or [chance])))[:n]
    logits = np.log(means / (1 - means)) * 1.3 + rng.normal(size=n) * spread
    chances = 1 / (1 + np.exp(-logits))
    return Answer(1 / (1 + np.exp(-(logits + bias))), rng.random(n) < chances)


def useless(rng, n, confidence):
    return Answer(np.clip(confidence + rng.normal(size=n) * 0.02, 1e-4, 0.9999), np.zeros(n, dtype=bool))


def perfect(rng, n):
    return Answer(rng.uniform(0.8, 0.999, n), np.ones(n, dtype=bool))


@dataclass
class Run:
    seconds: float = 0.0
    tokens: int = 0
    ks: list = field(default_factory=list)
    forecasts: list = field(default_factory=list)
    verdicts: list = field(default_factory=list)
    ending: object = None

    @property
    def rate(self):
        return self.tokens / self.seconds


def simulate(schedule, told, costs, *, rng, kind="model", n_prompt=16, noise=0.03, ks=None, slot=0):
    """One request of a schedule against an answer; a round's cost follows from the table."""
    run, held, drafter, untried = Run(), 0, "sim", UntriedProposals()
    wrong = np.random.default_rng(5)
    schedule.begin(slot)
    untried.begin(slot)
    while run.tokens < len(told):
        at, left = run.tokens, len(told) - run.tokens
        limit = min(schedule.plan(slot), left - 1) if at else 0
        allowed = range(limit + 1) if ks is None else [k for k in ks if k <= limit]
        proposal, draft_s, unread = Proposal(), 0.0, n_prompt + at - held
        if limit > 0 and allowed[-1] > 0:
            state = RoundState(position=at, n_left=left, n_active=1, ks=allowed)
            judge = schedule.judge(slot, state)
            seen = [
                float(told.confidence[at + i]) if told.stands[at : at + i].all() else float(wrong.random())
                for i in range(allowed[-1])
            ]
            if kind == "lookup":
                for outcome in untried.news(slot):
                    judge.learns(outcome)
                n = judge.weigh(drafter, seen).k
                guess = Proposal(tokens=(0,) * len(seen), drafter=drafter, confidences=tuple(seen))
                untried.watch(slot, guess, at, n)
            else:
                n, passes = draft(judge, drafter, unread, seen)
                draft_s = costs.drafting_s(passes, unread)
                held = n_prompt + at + max(0, passes - 1) if passes else held
            proposal = Proposal(tokens=(0,) * n, drafter=drafter, confidences=tuple(seen[:n]))
        k = len(proposal.tokens)
        forecast = schedule.forecast(slot, proposal)
        accepted = next((i for i in range(k) if not told.stands[at + i]), k)
        held = min(held, n_prompt + at + accepted)
        untried.observe(slot, [0 if told.stands[i] else 1 for i in range(at, at + accepted + 1)])
        factor = 1 + noise * rng.standard_normal()
        verify_s = costs.verify_s(k + 1) * factor
        schedule.observe(
            slot,
            Round(
                index=0, drafter=proposal.drafter, drafted=k, accepted=accepted, emitted=accepted + 1,
                draft_s=draft_s * factor, verify_s=verify_s, other_s=0.0, width=k + 1, forecast=forecast,
            ),
        )  # fmt: skip
        run.seconds += draft_s * factor + verify_s
        run.tokens += accepted + 1
        run.ks.append(k)
        run.forecasts.append(forecast)
        if forecast is not None:
            run.verdicts += [(p, i < accepted) for i, p in enumerate(forecast.chances[: accepted + 1])]
    run.ending = schedule.end(slot)
    return run


def draft(judge, drafter, unread, seen):
    """Tokens drafted and passes made, as a model drafter does it."""
    if judge.promise(drafter, unread) <= 0:
        return 0, 0
    n = 0
    while n < len(seen):
        if not judge.takes(drafter, seen[: n + 1]):
            return n, n + 1
        n += 1
        if n == len(seen) or not judge.goes_on(drafter, seen[:n]):
            break
    return n, n


def fixed_seconds(k, told, costs, *, kind="model", n_prompt=16):
    """What a fixed k takes for the same answer; nothing is drafted for k = 0."""
    at, seconds, unread = 0, 0.0, n_prompt
    while at < len(told):
        n = min(k, len(told) - at - 1) if at else 0
        accepted = next((i for i in range(n) if not told.stands[at + i]), n)
        seconds += costs.verify_s(n + 1)
        if n and kind == "model":
            seconds += costs.drafting_s(n, unread)
            unread = 2 if accepted == n else 1
        else:
            unread += accepted + 1
        at += accepted + 1
    return seconds


def best_fixed(told, costs, **options):
    """Seconds of the best fixed k, 0 included, and which one."""
    return min((fixed_seconds(k, told, costs, **options), k) for k in range(16))


def first_measurement(told, costs, n=16):
    """What reading a sample of this kind of text would have shown."""
    agreements = tuple(
        Agreement(confidence=float(c), stood=bool(s))
        for c, s in zip(told.confidence[:n], told.stands[:n], strict=True)
    )
    return Startup(costs=costs, agreements=agreements, seconds=0.0)
