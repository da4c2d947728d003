"""The books of the paced schedule: seconds spent, lost and gained, and what may be lost next.

Drafting is charged against plain decoding of the same tokens, as it would have been at this moment.
"""

from __future__ import annotations

from dataclasses import dataclass

from leadout.core.cost import CostTable
from leadout.engine.events import Forecast, Round
from leadout.engine.judge import PacedJudge
from leadout.engine.memory import Exploration

LOSS = 0.015
"""Share of the time that drafting may lose in a request."""

LOSS_BY_DRAFTS = 0.06
"""The same with a draft model that has read the text. It tells for every token how sure it is, so what it may
gain is known better than with lookups, and one bad round, which costs more, should not end it."""

LOSS_BY_TRIALS = 0.03
"""The same with what is tried only to learn, such as a model that has to read the text for it."""

LOSS_BY_DARING = 0.04
"""The same where much might be gained in a new text."""

_CREDIT, _DEBT = 0.05, 0.5  # shares of what an answer gained or lost that count in the next one
_RATE_KEEP = 0.97  # per round
_BELIEVED = 1.15  # how far off a predicted time may be
_N_PLAIN = 8.0  # plain rounds that the rate starts from


@dataclass(slots=True)
class RequestBooks:
    """Of one request.

    Parameters
    ----------
    n_rounds, n_tokens : int
        So far.
    n_when_drafted : int
        Tokens of the answer when the last draft was verified.
    n_since_plain : int
        Rounds since the last plain one, which tells what drafting really gains.
    spent_s : float
        This slot's share of the time.
    lost_s : float
        By drafting, against plain decoding; negative when it gained.
    """

    n_rounds: int = 0
    n_tokens: int = 0
    n_when_drafted: int = 0
    n_since_plain: int = 0
    spent_s: float = 0.0
    lost_s: float = 0.0
    _tokens: float = 0.0  # of late, and the seconds they took
    _seconds: float = 0.0

    def rate(self, plain_s: float) -> float:
        """Tokens per second of one slot that a round has to match: what is reached, at least plain's."""
        plain = _N_PLAIN * _RATE_KEEP**self.n_rounds
        return max(1 / plain_s, (self._tokens + plain) / (self._seconds + plain * plain_s))

    @property
    def tokens_per_round(self) -> float:
        """Of late."""
        return max(1.0, self._tokens / max(1.0, self.n_rounds, _N_PLAIN))

    def add(self, outcome: Round, forecast: Forecast | None, judge: PacedJudge | None, n_active: int) -> None:
        """One more round."""
        self.spent_s += seconds_of(outcome) / n_active
        if forecast is not None:
            self._tokens = _RATE_KEEP * self._tokens + outcome.accepted + 1
            self._seconds = _RATE_KEEP * self._seconds + forecast.seconds
            self.lost_s += _lost_s(forecast, judge, outcome) / n_active
        self.n_rounds += 1
        self.n_tokens += outcome.emitted
        if outcome.drafted:
            self.n_when_drafted = self.n_tokens
            self.n_since_plain += 1
        else:
            self.n_since_plain = 0


@dataclass(slots=True)
class Books:
    """Of all requests of a schedule.

    Parameters
    ----------
    exploration : Exploration
        So far, kept by whoever remembers it.
    share : float in 0..1
        Of the time, that may be lost on drafts that are predicted to lose.
    """

    exploration: Exploration
    share: float
    _credit_s: float = 0.0  # of what drafting gained in requests of late
    _debt_s: float = 0.0  # and of what it lost

    def allowance_s(self, request: RequestBooks, left_s: float, share: float) -> float:
        """What a round may lose at worst, where plain decoding of the rest would take `left_s`.

        Of the time of the whole request it is this share.
        """
        return share * (request.spent_s + left_s) + self._credit_s - request.lost_s

    def lookups_allowance_s(self, request: RequestBooks, left_s: float) -> float:
        """The same for lookups, less a share of what was lost of late, so that failures do not add up."""
        return self.allowance_s(request, left_s, LOSS) - self._debt_s

    def budget_s(self, request: RequestBooks, left_s: float, share: float = LOSS_BY_TRIALS) -> float:
        """What may be lost on purpose, to learn: not much more in one request than on average."""
        in_all_s = self.share * (self.exploration.spent_s + left_s) - self.exploration.lost_s
        return min(in_all_s, self.allowance_s(request, left_s, share))

    def add(self, outcome: Round, judge: PacedJudge | None, n_active: int) -> None:
        """One more round; what was tried only to learn is charged to the budget."""
        lost_s = 0.0
        if judge is not None and any(each.is_trial and each.n_rows for each in judge.courses.values()):
            costs = judge.outlook.costs
            lost_s = costs.extra_s(outcome.drafted) - outcome.accepted * costs.plain_s() + outcome.draft_s
        self.exploration.add(seconds_of(outcome) / n_active, lost_s / n_active)

    def close(self, request: RequestBooks) -> None:
        """A request is over: shares of what it gained or lost count in the next ones."""
        self._credit_s = max(0.0, self._credit_s / 2 - _CREDIT * request.lost_s)
        self._debt_s = max(0.0, self._debt_s / 2 + _DEBT * request.lost_s)


def seconds_of(outcome: Round) -> float:
    """Of the whole round."""
    return outcome.draft_s + outcome.verify_s + outcome.other_s


def drafting_s(judge: PacedJudge, costs: CostTable) -> float:
    """Seconds that draft models worked in this round, a backlog of unread tokens aside."""
    return sum(costs.drafting_s(each.n_rows, min(each.n_unread, 2)) for each in judge.courses.values())


def _lost_s(forecast: Forecast, judge: PacedJudge | None, outcome: Round) -> float:
    """Seconds that a round took beyond plain decoding of its tokens.

    What was read for the rounds to come does not count, unless it was read only to learn. A round is taken to
    last about as long as was predicted, so that a busy moment is not blamed on drafts; wrong costs are soon
    learned.
    """
    if judge is None or not (judge.courses or outcome.drafted):
        return 0.0
    invested_s = risked_s = 0.0
    for course in judge.courses.values():
        backlog_s = max(0, course.n_unread - 2) * judge.outlook.costs.read_s if course.n_rows else 0.0
        if course.is_trial:
            risked_s += backlog_s
        else:
            invested_s += backlog_s
    expected_s = forecast.seconds + risked_s
    worked_s = seconds_of(outcome) - invested_s
    worked_s = min(max(worked_s, expected_s / _BELIEVED), expected_s * _BELIEVED)
    return worked_s - forecast.plain_s * (1 + outcome.accepted)
