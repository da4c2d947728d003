"""One contender's answer to one prompt: its ids, and where the time went."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

from leadout.engine.events import Event, Finished, Round, Started, Token


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An answer and its times.

    Parameters
    ----------
    ids : tuple of int
        The answer without its end token.
    first_s : float
        Seconds from the request to the first `n_first` tokens: reading the prompt.
    decode_s : float
        Seconds for all tokens after those.
    n_first : int
        Tokens that were there after `first_s`; 1 but for engines that draft in their very first pass.
    passes, drafted, accepted : int or None
        Target passes, tokens proposed and tokens that stood; None where an engine does not say.
    rounds : tuple of Round
        Every target pass, the prompt's first; empty for other engines than leadout.
    reason : str
        Whether speculation was on at the end, and why; "" for other engines.
    """

    ids: tuple[int, ...]
    first_s: float
    decode_s: float
    n_first: int = 1
    passes: int | None = None
    drafted: int | None = None
    accepted: int | None = None
    rounds: tuple[Round, ...] = ()
    reason: str = ""

    @classmethod
    def of(cls, events: Iterable[Event]) -> Answer:
        """Fold the events of a generation with one answer.

        Raises
        ------
        ValueError
            If the answer was not even begun.
        """
        ids: list[int] = []
        rounds: list[Round] = []
        first_s, reason = -1.0, ""
        for event in events:
            match event:
                case Started():
                    first_s = event.seconds
                case Token():
                    ids.append(event.token)
                case Round():
                    rounds.append(event)
                case Finished():
                    reason = event.speculation.reason
        if first_s < 0:
            raise ValueError("the events have no Started")
        return cls(
            ids=tuple(ids),
            first_s=first_s,
            decode_s=sum(each.draft_s + each.verify_s + each.other_s for each in rounds[1:]),
            passes=len(rounds),
            drafted=sum(each.drafted for each in rounds),
            accepted=sum(each.accepted for each in rounds),
            rounds=tuple(rounds),
            reason=reason,
        )

    @property
    def decoded(self) -> int:
        """Tokens that `decode_s` was spent on."""
        return max(0, len(self.ids) - self.n_first)

    @property
    def token_s(self) -> float | None:
        """Seconds per token after the first ones; None when there are none."""
        return self.decode_s / self.decoded if self.decoded else None

    def agrees_until(self, other: Answer) -> int | None:
        """Position of the first difference from another answer, or None when the ids are the same."""
        if self.ids == other.ids:
            return None
        for i, (mine, theirs) in enumerate(zip(self.ids, other.ids, strict=False)):
            if mine != theirs:
                return i
        return min(len(self.ids), len(other.ids))

    def to_json(self) -> dict[str, object]:
        """Plain values for JSON; of the text its hash, of each pass "drafted/accepted"."""
        return {
            "tokens": len(self.ids),
            "ids_sha256": hashlib.sha256(repr(self.ids).encode()).hexdigest()[:16],
            "n_first": self.n_first,
            "first_s": round(self.first_s, 6),
            "decode_s": round(self.decode_s, 6),
            "passes": self.passes,
            "drafted": self.drafted,
            "accepted": self.accepted,
            "draft_s": round(sum(each.draft_s for each in self.rounds[1:]), 6),
            "verify_s": round(sum(each.verify_s for each in self.rounds[1:]), 6),
            "other_s": round(sum(each.other_s for each in self.rounds[1:]), 6),
            "rounds": " ".join(f"{each.drafted}/{each.accepted}" for each in self.rounds),
            "speculation": self.reason,
        }
