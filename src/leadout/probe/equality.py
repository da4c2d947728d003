"""Is the greedy text the plain one? Two answers compared, or one asked again a token at a time.

The first token of a request is never drafted. So one-token requests over the answer so far are plain decoding
at the very server under probe, wherever prompts can be ids.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from leadout.probe.answers import Exchange
from leadout.probe.side import Side
from leadout.probe.values import Ask, Key
from leadout.probe.watch import Watch

NEAR_TIE = 0.5
"""Nats. Kernels round differently for several tokens than for one (4-bit ones were seen to move a logit by
0.7), and two tokens closer than this may change places."""

MAX_SHARE = 0.1
ALWAYS_ALLOWED = 3
"""More near ties than this number, and than that share of the compared tokens, are no coincidence."""

Verdict = Literal["near-tie", "different", "undecided"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """One place where the server did not say what plain decoding says.

    Parameters
    ----------
    answer, position : int
        Which answer, and its token (its character, where only text is told).
    said, plain : str
        The token of each side, as id or text.
    gap : float or None
        Log probability of the most probable token there, less that of the token said; None where not told.
    verdict : "near-tie", "different" or "undecided"
    """

    answer: int
    position: int
    said: str
    plain: str
    gap: float | None
    verdict: Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Equality:
    """What became of the comparison.

    Parameters
    ----------
    method : str
        "plain side", "replay", or "" where nothing could be compared.
    n_compared : int
        Tokens (characters, where only text is told).
    unit : str
        "tokens" or "characters".
    splits : tuple of Split
    """

    method: str = ""
    n_compared: int = 0
    unit: str = "tokens"
    splits: tuple[Split, ...] = field(default=())

    @property
    def result(self) -> Literal["equal", "near-ties", "different", "undecided", "unchecked"]:
        """One word for it all."""
        if not self.method or self.n_compared == 0:
            return "unchecked"
        verdicts = {split.verdict for split in self.splits}
        if "different" in verdicts or len(self.splits) > max(ALWAYS_ALLOWED, MAX_SHARE * self.n_compared):
            return "different"
        if "undecided" in verdicts:
            return "undecided"
        return "near-ties" if self.splits else "equal"


def compare(exchanges: Sequence[Exchange], plain: Side) -> Equality:
    """Compare the answers of both sides up to where each pair first differs.

    Raises
    ------
    ServerError
    """
    splits, n_compared = [], 0
    with_ids = all(
        each.said.ids is not None and each.plain and each.plain.ids is not None for each in exchanges
    )
    for number, each in enumerate(exchanges):
        if each.plain is None:
            continue
        if with_ids:
            ours, theirs = each.said.ids or (), each.plain.ids or ()
            shared = min(len(ours), len(theirs))
            place = next((i for i in range(shared) if ours[i] != theirs[i]), shared)
            n_compared += place
            if place < shared and isinstance(each.prompt, tuple):
                law = plain.next_law((*each.prompt, *theirs[:place]))
                splits.append(_split(number, place, ours[place], theirs[place], law))
        else:
            place = _first_difference(each.said.text, each.plain.text)
            n_compared += min(place, len(each.plain.text))
            if place < min(len(each.said.text), len(each.plain.text)):
                splits.append(_text_split(number, place, each, plain))
    unit = "tokens" if with_ids else "characters"
    return Equality(method="plain side", n_compared=n_compared, unit=unit, splits=tuple(splits))


def replay(
    exchanges: Sequence[Exchange],
    side: Side,
    n_replays: int,
    watch: Watch,
) -> Equality:
    """Ask places of the answers again, one token each; the places are spread evenly over all answers.

    Raises
    ------
    ServerError
    """
    places = [
        (number, position)
        for number, each in enumerate(exchanges)
        if isinstance(each.prompt, tuple)
        for position in range(len(each.said.ids or ()))
    ]
    if not places:
        return Equality()
    step = max(1.0, len(places) / n_replays)
    chosen = [places[int(i * step)] for i in range(min(n_replays, len(places)))]
    splits, done = [], 0
    for number, position in chosen:
        if watch.is_over():
            break
        each = exchanges[number]
        ids = each.said.ids or ()
        prompt = (*each.prompt, *ids[:position])
        said = side.ask(Ask(prompt=prompt, max_tokens=1, n_top=side.engine.n_top))
        done += 1
        watch.progress("answers again, token by token", done, len(chosen))
        if said.ids and said.ids[0] != ids[position]:
            law = said.tops[0] if said.tops else None
            splits.append(_split(number, position, ids[position], said.ids[0], law))
    return Equality(method="replay", n_compared=done, splits=tuple(splits))


def _split(answer: int, position: int, said: int, plain: int, law: Mapping[Key, float] | None) -> Split:
    gap = _gap(law, said)
    return Split(
        answer=answer,
        position=position,
        said=str(said),
        plain=str(plain),
        gap=gap,
        verdict=_verdict(gap, law),
    )


def _text_split(number: int, place: int, each: Exchange, plain: Side) -> Split:
    """Where two texts part: the plain side's law at the token that holds the character."""
    said, theirs = each.said.text, each.plain
    start = 0
    for piece in theirs.pieces if theirs is not None else ():
        if start + len(piece) > place:
            break
        start += len(piece)
    law = plain.next_law(f"{each.prompt}{said[:start]}") if isinstance(each.prompt, str) else None
    rest = said[start:]
    fitting = [token for token in law or {} if isinstance(token, str) and token and rest.startswith(token)]
    token = max(fitting, key=lambda each: len(str(each)), default=None)
    gap = None if law is None else _gap(law, token) if token is not None else _below(law)
    return Split(
        answer=number,
        position=place,
        said=said[start : place + 12],
        plain=(theirs.text if theirs is not None else "")[start : place + 12],
        gap=gap,
        verdict=_verdict(gap, law),
    )


def _gap(law: Mapping[Key, float] | None, token: Key) -> float | None:
    if not law:
        return None
    return max(law.values()) - law[token] if token in law else _below(law)


def _below(law: Mapping[Key, float]) -> float:
    """At least so far is a token that is not among the most probable."""
    return max(law.values()) - min(law.values())


def _verdict(gap: float | None, law: Mapping[Key, float] | None) -> Verdict:
    if gap is None or not law:
        return "undecided"
    return "near-tie" if gap <= NEAR_TIE else "different"


def _first_difference(first: str, second: str) -> int:
    shared = min(len(first), len(second))
    return next((i for i in range(shared) if first[i] != second[i]), shared)
