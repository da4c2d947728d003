"""What a generation emits: immutable events. Text, usage, metrics and JSON are folds over these."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Origin = Literal["plain", "accepted", "corrected", "bonus"]
"""Where a token came from: a round without a draft, an accepted draft, the correction of a rejected one, or
the extra token after a draft that was accepted whole."""

FinishReason = Literal["stop", "length", "cancelled"]
"""*stop*: an end token or a stop string; *length*: max_tokens or the end of the context."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Speculation:
    """Whether a request is decoded speculatively, with what, and why or why not."""

    enabled: bool
    reason: str
    drafter: str
    verification: str
    schedule: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """The prompt has been read and the first token decided.

    `seconds` is the time that took, from the request's start to the end of the answer's first round;
    `cached_tokens` of the prompt came from a cache. `queued_s` is the time before that, in which no slot was
    free.
    """

    index: int
    prompt_tokens: int
    cached_tokens: int
    seconds: float
    speculation: Speculation
    queued_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenLogprob:
    """A token and its natural log probability under the model's own softmax."""

    token: int
    piece: bytes
    logprob: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """One committed token of answer `index`, and the text that became certain with it (may be "")."""

    index: int
    token: int
    origin: Origin
    text: str
    logprob: TokenLogprob | None = None
    alternatives: tuple[TokenLogprob, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """What a schedule predicted of a round before its proposal was verified.

    Parameters
    ----------
    chances : tuple of float in 0..1
        For each drafted token: that it stands, given that all before it did; empty where nobody knows.
    seconds, plain_s : float
        Of the round, and of a plain one in its place.
    """

    chances: tuple[float, ...] = ()
    seconds: float = 0.0
    plain_s: float = 0.0

    @property
    def tokens(self) -> float:
        """Tokens expected of the round."""
        expected, chance = 1.0, 1.0
        for each in self.chances:
            chance *= each
            expected += chance
        return expected


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One target pass of answer `index`, after its tokens: what was drafted, what stood, how long it took.

    Parameters
    ----------
    drafted, accepted, emitted : int
        Proposed tokens, those that stood, and tokens that reached the answer (a stop may cut an accepted
        run).
    draft_s, verify_s, other_s : float
        Seconds in the drafter, in the target's forward pass, and in everything else of this round.
    width : int
        Tokens of all slots in the target's pass; 0 when it also read tokens of a prompt.
    n_held : int
        Tokens that each slot held before the pass, on average.
    forecast : Forecast or None
        What was predicted, by schedules that do.
    waited_s : float
        Seconds before this round in which the engine worked for others alone.
    forced : int
        Of `accepted`: tokens that a constraint left no choice about; they had no pass of their own.
    """

    index: int
    drafter: str
    drafted: int
    accepted: int
    emitted: int
    draft_s: float
    verify_s: float
    other_s: float
    width: int = 0
    n_held: int = 0
    forecast: Forecast | None = None
    waited_s: float = 0.0
    forced: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """Answer `index` is complete; `text` is what was still held back, `speculation` how it ended."""

    index: int
    reason: FinishReason
    text: str
    speculation: Speculation


Event = Started | Token | Round | Finished
