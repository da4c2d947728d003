"""The same texts continued at temperature 0 by both sides in turns, with counters around everything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from leadout.bench.record import Spread
from leadout.probe.side import Side
from leadout.probe.values import Ask, Counters, Prompt, Said
from leadout.probe.watch import Watch


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """One text and what each side made of it.

    Parameters
    ----------
    prompt : str or tuple of int
    said : Said
        By the server under probe.
    plain : Said or None
        By the plain side.
    """

    prompt: Prompt
    said: Said
    plain: Said | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Drafting:
    """What was drafted for our answers.

    Parameters
    ----------
    basis : str
        "answers" where each answer tells its own counts, "counters" where the server's were compared before
        and after, "" where nothing was told.
    n_tokens : int
        Of our answers.
    drafted, accepted : int or None
        Proposed tokens and those that stood; None where it was not told.
    rounds : int or None
        Verify passes, by the server's counters.
    foreign : int
        Requests (or tokens, where requests are not counted) of others meanwhile.
    foreign_unit : str
        "requests" or "tokens".
    """

    basis: str
    n_tokens: int
    drafted: int | None
    accepted: int | None
    rounds: int | None = None
    foreign: int = 0
    foreign_unit: str = "requests"

    @property
    def acceptance(self) -> float | None:
        """Share of the drafted tokens that stood."""
        return self.accepted / self.drafted if self.drafted and self.accepted is not None else None

    @property
    def tokens_per_pass(self) -> float | None:
        """Tokens per target pass: every pass gives one token of its own beside the accepted ones."""
        if self.accepted is None or self.accepted >= self.n_tokens:
            return None
        return self.n_tokens / (self.n_tokens - self.accepted)


def exchange(
    side: Side,
    plain: Side | None,
    texts: Sequence[str],
    n_tokens: int,
    watch: Watch,
) -> tuple[tuple[Exchange, ...], Drafting]:
    """Continue each text; who goes first alternates, and each side is asked something before it counts.

    Raises
    ------
    ServerError
    """
    warm = Ask(prompt="One two three", max_tokens=4)
    side.stream(warm)
    if plain is not None:
        plain.stream(warm)
    done: list[Exchange] = []
    before = side.counters()
    for number, text in enumerate(texts):
        if done and watch.is_over():
            break
        ask = Ask(prompt=side.ids(text) or text, max_tokens=n_tokens)
        theirs = plain.stream(ask) if plain is not None and number % 2 else None
        said = side.stream(ask)
        if plain is not None and theirs is None:
            theirs = plain.stream(ask)
        done.append(Exchange(prompt=ask.prompt, said=said, plain=theirs))
        watch.progress("answers at temperature 0", number + 1, len(texts))
    answers = [each.said for each in done]
    # a plain side on the same server is counted there as well
    is_shared = plain is not None and plain.http is side.http
    counted = [*answers, *(each.plain for each in done if is_shared and each.plain is not None)]
    ours = Counters(requests=len(counted), tokens=sum(each.n_tokens or 0 for each in counted))
    change = side.counted_since(before, int(ours.tokens or 0))
    return tuple(done), fold_drafting(answers, change, ours)


def fold_drafting(answers: Sequence[Said], change: Counters | None, ours: Counters | None = None) -> Drafting:
    """What was drafted for these answers.

    Parameters
    ----------
    change : Counters or None
        Of the server, around the answers.
    ours : Counters or None
        Requests and tokens that we asked for meanwhile; None looks for nobody else.
    """
    change = change or Counters()
    foreign, unit = _foreign(change, ours) if ours is not None else (0, "requests")
    drafted, accepted, basis = _whole(change.drafted), _whole(change.accepted), "counters"
    own = [(each.drafted, each.accepted) for each in answers if each.drafted is not None]
    if answers and len(own) == len(answers):
        drafted, accepted = sum(n or 0 for n, _ in own), sum(n or 0 for _, n in own)
        basis = "answers"
    elif drafted is None and change.rounds is None:
        basis = ""
    return Drafting(
        basis=basis,
        n_tokens=sum(each.n_tokens or 0 for each in answers),
        drafted=drafted,
        accepted=accepted,
        rounds=_whole(change.rounds),
        foreign=foreign,
        foreign_unit=unit,
    )


def _foreign(change: Counters, ours: Counters) -> tuple[int, str]:
    """How much of what was counted is not ours."""
    if change.requests is not None and ours.requests is not None:
        return max(0, round(change.requests - ours.requests)), "requests"
    if change.tokens is not None and ours.tokens is not None:
        # servers count an end token that is no part of the answer
        return max(0, round(change.tokens - ours.tokens - 2 * (ours.requests or 0))), "tokens"
    return 0, "requests"


def speed(answers: Sequence[Said]) -> Spread | None:
    """Tokens per second over the answers."""
    rates = [each.tokens_per_s for each in answers]
    known = [rate for rate in rates if rate is not None]
    return Spread.of(known) if known else None


def speedup(exchanges: Sequence[Exchange]) -> Spread | None:
    """The server's speed over the plain side's, text by text."""
    ratios = []
    for each in exchanges:
        ours = each.said.tokens_per_s
        theirs = None if each.plain is None else each.plain.tokens_per_s
        if ours is not None and theirs is not None:
            ratios.append(ours / theirs)
    return Spread.of(ratios) if ratios else None


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)
