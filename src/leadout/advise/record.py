"""What a check measures: a target's greedy answers, what passes cost, and what a drafter would have proposed.

The answers are made once and belong to the target; each drafter is then led along them, a token at a time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median

import numpy as np

from leadout.advise.samples import KINDS, Sample
from leadout.checks import is_whole
from leadout.core.cost import CostTable
from leadout.core.noise import RandomSource
from leadout.core.slowdown import slowdown
from leadout.core.values import History
from leadout.drafters.base import Drafter, DraftPrompt, DraftRequest, Willing
from leadout.engine.engine import Engine
from leadout.engine.events import Round, Token
from leadout.engine.params import Params
from leadout.engine.profile import Profile
from leadout.errors import InputError
from leadout.models.base import Chunk, Model
from leadout.models.conversation import Conversation

Show = Callable[[str, int, int], None]
"""Told of progress: what, how many steps are done, of how many."""

WIDTHS = (2, 3, 4, 5, 6, 8, 12, 16)

_WARM_UP = 2  # passes at the start of an answer that are not timed
_RUN, _EVERY = 4, 8  # tokens of a draft that is timed, and tokens of an answer between two of them


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """A sample and the target's greedy answer to it."""

    sample: Sample
    answer: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetRecord:
    """Greedy answers, and the target's costs: seconds per width, and of the rest of a round.

    Parameters
    ----------
    slowdown : float >= 1
        Usual passes of an answer, in its fastest ones: far above 1 where the machine was busy.
    """

    answers: tuple[Answered, ...]
    costs: CostTable
    slowdown: float = 1.0

    def to_json(self) -> dict[str, object]:
        """Plain values; `from_json` reads them."""
        return {
            "answers": {each.sample.name: list(each.answer) for each in self.answers},
            "profile": Profile(self.costs).to_json(),
        }

    @classmethod
    def from_json(cls, values: object, samples: Sequence[Sample], n_vocab: int) -> TargetRecord | None:
        """The record that `to_json` wrote, of these samples, with ids below `n_vocab`; else None."""
        if not isinstance(values, Mapping) or not isinstance(given := values.get("answers"), Mapping):
            return None
        try:
            costs = replace(Profile.from_json(values["profile"]).costs, draft_s=0.0, read_s=0.0)
            answers = [
                Answered(sample=each, answer=_ids(given[each.name], n_vocab))
                for each in samples
                if each.name in given
            ]
        except (InputError, KeyError, TypeError, ValueError):
            return None
        return cls(answers=tuple(answers), costs=costs) if answers else None


def _ids(values: object, n_vocab: int) -> tuple[int, ...]:
    if not isinstance(values, list) or not all(is_whole(each) and 0 <= each < n_vocab for each in values):
        raise InputError(f"an answer has something else than ids in 0..{n_vocab - 1}")
    return tuple(values)


@dataclass(frozen=True, slots=True, kw_only=True)
class Guess:
    """A drafter's guess at one place of an answer: how sure it was, and whether it was the target's token."""

    confidence: float
    stood: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftRecord:
    """A drafter's guesses at every place of every answer but the first token, and its costs.

    Parameters
    ----------
    guesses : tuple of tuples of Guess
        One for each answer of the target's record, a guess for each token; that for the first is never used.
    draft_s, read_s : float
        Seconds of each drafted token, and of each further token that is read in a pass.
    reason : str
        Why it stopped guessing somewhere; "" if it did not.
    """

    guesses: tuple[tuple[Guess, ...], ...]
    draft_s: float
    read_s: float
    reason: str = ""

    @property
    def agreement(self) -> float:
        """Share of all guesses that stood."""
        return agreement([guess for each in self.guesses for guess in each[1:]])


def agreement(guesses: Sequence[Guess]) -> float:
    """Share that stood; 0 without any."""
    return sum(each.stood for each in guesses) / len(guesses) if guesses else 0.0


def record_target(
    target: Model,
    samples: Sequence[Sample],
    n_tokens: int,
    *,
    clock: Callable[[], float],
    show: Show,
    seconds: float = math.inf,
) -> TargetRecord:
    """Let the target answer, `n_tokens` at most each, and time its passes on the way.

    Parameters
    ----------
    target : Model
        Its slots must be free; slot 0 is empty afterwards.
    samples : sequence of Sample
        Those that leave no room for an answer are passed over.
    clock : callable
        Seconds that only grow.
    seconds : float
        After so long no more samples are begun, once there is one of each kind.
    """
    started = clock()
    taken = [each for each in samples if len(each.prompt) + n_tokens <= target.info.n_ctx]
    singles: list[float] = []
    slowdowns: list[float] = []
    others: list[float] = []
    widths: dict[int, list[float]] = {width: [] for width in WIDTHS}
    answers = []
    for done, sample in enumerate(taken):
        if done >= len(KINDS) and clock() - started > seconds:
            break
        show("the target answers", done, len(taken))
        ids, rounds = _answer(target, sample.prompt, n_tokens)
        timed = [each.verify_s for each in rounds[_WARM_UP:]]
        singles += timed
        slowdowns.append(slowdown(timed))
        others += [each.other_s for each in rounds[_WARM_UP:]]
        answers.append(Answered(sample=sample, answer=ids))
        if done % 2 == 0:
            _time_widths(target, [*sample.prompt, *ids], widths, clock)
        target.truncate(0, 0)
    show("the target answers", len(taken), len(taken))
    known = {width: median(seconds) for width, seconds in widths.items() if seconds}
    if singles:
        known[1] = median(singles)
    else:
        known.setdefault(1, 1e-6)
    costs = CostTable(widths=tuple(sorted(known.items())), fixed_s=median(others) if others else 0.0)
    return TargetRecord(
        answers=tuple(each for each in answers if len(each.answer) > 1),
        costs=costs,
        slowdown=median(slowdowns) if slowdowns else 1.0,
    )


def _answer(target: Model, prompt: Sequence[int], n_tokens: int) -> tuple[tuple[int, ...], list[Round]]:
    ids: list[int] = []
    rounds: list[Round] = []
    for event in Engine(target).stream(prompt, Params(temperature=0.0, max_tokens=n_tokens)):
        match event:
            case Token():
                ids.append(event.token)
            case Round():
                rounds.append(event)
    return tuple(ids), rounds


def _time_widths(
    target: Model, text: Sequence[int], widths: dict[int, list[float]], clock: Callable[[], float]
) -> None:
    """Read the end of `text` again in passes of each width, where the cache can be cut for that."""
    if target.info.rollback != "cut":
        return
    for width, seconds in widths.items():
        held = len(text) - width
        if held < 1 or held > target.length(0):
            continue
        target.truncate(0, held)
        started = clock()
        target.forward([Chunk(slot=0, tokens=text[held:], n_logits=width)])
        seconds.append(max(clock() - started, 1e-9))


def record_draft(
    drafter: Drafter, record: TargetRecord, *, clock: Callable[[], float], show: Show
) -> DraftRecord:
    """Lead a drafter along the target's answers and ask it for one token at each place.

    What it costs is read off longer drafts, here and there: over a bridge the first token costs more than
    those after it.

    Parameters
    ----------
    drafter : Drafter
        Its slot 0 must be free; it is asked greedily, and is never told anything but what the target said.
    """
    timings = Timings()
    told = []
    reason = ""
    for done, each in enumerate(record.answers):
        show("the draft follows", done, len(record.answers))
        conversation = each.sample.conversation
        told.append(follow(drafter, each.sample.prompt, each.answer, timings, clock, conversation))
        reason = reason or drafter.blocked(0)
        drafter.end(0)
    show("the draft follows", len(record.answers), len(record.answers))
    return DraftRecord(guesses=tuple(told), draft_s=timings.draft_s, read_s=timings.read_s, reason=reason)


@dataclass(slots=True)
class Timings:
    """Seconds of a drafter's proposals: those that had a prompt to read, and of each token of others."""

    readings: list[tuple[int, float]] = field(default_factory=list)
    short: list[float] = field(default_factory=list)
    runs: list[float] = field(default_factory=list)

    def add(self, position: int, n_read: int, n_drafted: int, seconds: float) -> None:
        """A proposal at this position of an answer, before which so much was to be read."""
        if position == 1:
            self.readings.append((n_read, seconds))
        elif n_drafted > 1:
            self.runs.append(seconds / n_drafted)
        elif position > _WARM_UP:
            self.short.append(seconds)

    @property
    def draft_s(self) -> float:
        """Of a token, in runs where there are any."""
        known = self.runs or self.short
        return median(known) if known else 0.0

    @property
    def read_s(self) -> float:
        """Of each token of a prompt."""
        shares = [max(0.0, seconds - self.draft_s) / n for n, seconds in self.readings]
        return median(shares) if shares else 0.0


def follow(  # noqa: PLR0917
    drafter: Drafter,
    prompt: Sequence[int],
    answer: Sequence[int],
    timings: Timings,
    clock: Callable[[], float],
    conversation: Conversation | None = None,
) -> tuple[Guess, ...]:
    """A drafter's guess at every token of an answer but the first, for which there is an empty one."""
    context = [*prompt, answer[0]]
    drafter.begin(0, DraftPrompt(ids=prompt, conversation=conversation))
    drafter.observe(0, answer[:1])
    guesses = [Guess(confidence=0.0, stood=False)]
    source = RandomSource(np.random.default_rng(0))
    for position in range(1, len(answer)):
        request = DraftRequest(
            slot=0,
            context=context,
            k=1 if position % _EVERY else _RUN,
            sampling=Params(temperature=0.0),
            history=History(),
            position=position,
            noise=None,
            source=source,
            judge=_Watching(),
        )
        started = clock()
        proposal = drafter.propose([request])[0]
        seconds = max(clock() - started, 1e-9)
        timings.add(position, len(prompt), len(proposal.tokens), seconds)
        token = answer[position]
        sure = proposal.confidences[0] if proposal.confidences else 0.0
        guesses.append(Guess(confidence=sure, stood=proposal.tokens[:1] == (token,)))
        context.append(token)
        drafter.observe(0, (token,))
    return tuple(guesses)


class _Watching(Willing):
    """Takes all, and wants to know how sure the drafter is."""

    @property
    def wants_confidences(self) -> bool:
        """Yes."""
        return True
