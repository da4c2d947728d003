"""Runs of a model, or of a pair, that show what one way costs: passes over a sample, timed.

The clock is the caller's. Models are given loaded, their slot 0 free; nothing is kept in it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from leadout.advise.record import Timings, follow
from leadout.advise.ways import DraftTrial, PairTrial, TargetTrial, Way
from leadout.core.cost import CostTable, speed_of
from leadout.core.slowdown import slowdown
from leadout.drafters.base import Drafter
from leadout.engine.startup import SAMPLE, Agreement, TimedPasses
from leadout.models.base import Chunk, Model

Clock = Callable[[], float]
"""Seconds that only grow."""

_N_TIMES = 4
_N_ROUNDS = 9
_BEFORE = 64  # tokens in the caches of a pair, and before a target's answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A text whose last `n` tokens are what the target says most probably."""

    text: tuple[int, ...]
    n: int


def sample_of(model: Model, n: int) -> list[int]:
    """So many tokens of the sample, over and over."""
    ids = model.vocab.encode(SAMPLE, add_bos=False, special=False) or [0]
    return [ids[i % len(ids)] for i in range(n)]


def answer_of(target: Model, n: int) -> Answer:
    """The target's greedy answer to the sample, of `n` tokens where the context has room."""
    text = sample_of(target, min(_BEFORE, target.info.n_ctx // 2))
    n = min(n, target.info.n_ctx - len(text))
    target.truncate(0, 0)
    unread = list(text)
    for _ in range(n):
        row = target.forward([Chunk(slot=0, tokens=unread, n_logits=1)])[0][-1]
        unread = [int(np.argmax(row))]
        text += unread
    target.truncate(0, 0)
    return Answer(text=tuple(text), n=n)


def try_target(
    model: Model, way: Way, contexts: Sequence[int], widths: Sequence[int], clock: Clock
) -> TargetTrial:
    """What passes of each width cost behind each number of tokens; the fastest of a few counts.

    Parameters
    ----------
    contexts : sequence of int >= 1
    widths : sequence of int
        Ascending from 1. Both are cut to what the model has room for.
    """
    started, costs = clock(), {}
    slowdowns = []
    widths = [each for each in widths if each < model.info.n_ctx]
    longest = model.info.n_ctx - max(widths)
    for context in sorted({max(1, min(each, longest)) for each in contexts}):
        passes = TimedPasses(model, sample_of(model, context + max(widths)), context, clock)
        passes.fastest(1, 1)  # warms up
        times = {width: passes.times(width, _N_TIMES) for width in widths}
        costs[context] = CostTable(widths=tuple((width, min(each)) for width, each in times.items()))
        slowdowns += [slowdown(each) for each in times.values()]
        passes.close()
    return TargetTrial(way=way, costs=costs, seconds=clock() - started, slowdown=median(slowdowns))


def try_draft(model: Model, way: Way, answer: Answer, drafter: Drafter, clock: Clock) -> DraftTrial:
    """What a draft model costs, and where `drafter`, which drafts with it, agrees with a target's answer."""
    started = clock()
    text = sample_of(model, min(_BEFORE + 1, model.info.n_ctx))
    passes = [TimedPasses(model, text, _BEFORE, clock) for _ in range(_N_TIMES)]
    single_s = passes[-1].fastest(1, _N_TIMES)
    read_s = min(each.read_s(single_s) for each in passes)
    passes[-1].close()
    timings, at = Timings(), len(answer.text) - answer.n
    guesses = follow(drafter, answer.text[:at], answer.text[at:], timings, clock)
    drafter.end(0)
    model.truncate(0, 0)
    return DraftTrial(
        way=way,
        draft_s=timings.draft_s,
        read_s=read_s,
        agreements=tuple(Agreement(confidence=each.confidence, stood=each.stood) for each in guesses[1:]),
        seconds=clock() - started,
    )


def try_pair(
    target: Model, draft: Model, of_target: TargetTrial, of_draft: DraftTrial, clock: Clock
) -> PairTrial:
    """Draft, verify, go back, and again: what two libraries in one process do to each other is in it."""
    costs = of_draft.costs_with(of_target.short)
    n_ctx = min(target.info.n_ctx, draft.info.n_ctx)
    k = min(of_draft.best(of_target.short)[0], n_ctx - 2)
    before = min(_BEFORE, n_ctx - k - 1)
    text, steps = (sample_of(model, before + k + 1) for model in (target, draft))
    verify = TimedPasses(target, text, before, clock)
    drafting = TimedPasses(draft, steps, before, clock)
    rounds = []
    for _ in range(_N_ROUNDS):
        started = clock()
        for token in steps[before : before + k]:
            draft.forward([Chunk(slot=0, tokens=[token], n_logits=1)])
        drafted_s = clock() - started
        rounds.append(drafted_s + verify.fastest(k + 1, 1))
        draft.truncate(0, before)
    verify.close()
    drafting.close()
    round_s, predicted_s = median(rounds[1:]), costs.verify_s(k + 1) + costs.drafting_s(k)
    return PairTrial(
        target=of_target.way,
        draft=of_draft.way,
        k=k,
        predicted_s=predicted_s,
        round_s=round_s,
        tokens_per_s=speed_of(k, of_draft.acceptance, costs) * predicted_s / round_s,
        n_rounds=len(rounds) - 1,
    )
