"""What a generation came to: a fold over its events."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from leadout.core.estimate import Calibration
from leadout.core.slowdown import slowdown
from leadout.engine.events import Event, Finished, FinishReason, Round, Speculation, Started, Token


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Counts and times of one answer.

    Parameters
    ----------
    prompt_tokens, cached_tokens, completion_tokens : int
        Ids of the prompt, how many of them came from a cache, and ids of the answer (the end token is none).
    target_passes : int
        Passes that decided about tokens of the answer, the one that read the (last piece of the) prompt
        included.
    drafted, accepted : int
        Tokens proposed, and those that stood.
    forced : int
        Of `accepted`: tokens that a constraint left no choice about; they had no pass of their own.
    seconds : float
        From the request's start to the last decision, in the engine alone: time the caller takes between
        events does not count. Answers that run together share their passes, so each of them counts the same
        pass.
    decode_seconds : float
        The part of `seconds` after the first token.
    slowdown : float >= 1
        Usual passes of one token in the fastest ones: 2 and more where something else kept the machine busy.
    """

    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    target_passes: int = 0
    drafted: int = 0
    accepted: int = 0
    forced: int = 0
    seconds: float = 0.0
    decode_seconds: float = 0.0
    slowdown: float = 1.0

    @property
    def tokens_per_pass(self) -> float | None:
        """Tokens of the answer per target pass; None without a pass."""
        return self.completion_tokens / self.target_passes if self.target_passes else None

    @property
    def tokens_per_second(self) -> float | None:
        """Tokens after the first one per second spent on them; None when there are none."""
        after_first = self.completion_tokens - 1
        return after_first / self.decode_seconds if after_first > 0 and self.decode_seconds > 0 else None

    @property
    def acceptance(self) -> float | None:
        """Share of drafted tokens that stood; None when nothing was drafted."""
        return self.accepted / self.drafted if self.drafted else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """What the schedule predicted, and how good that was.

    Parameters
    ----------
    predicted_gain : float or None
        Predicted speed as a multiple of plain decoding's, over the rounds that were predicted.
    calibration : Calibration
        Of the predicted chances of drafted tokens.
    plain_s, actual_s : float
        What plain decoding was predicted to take for the tokens of the predicted rounds, and what those took.
    """

    predicted_gain: float | None = None
    calibration: Calibration = field(default_factory=Calibration)
    plain_s: float = 0.0
    actual_s: float = 0.0

    @classmethod
    def of(cls, rounds: Sequence[Round]) -> Outlook:
        """A fold over rounds; empty where nothing was predicted."""
        calibration = Calibration()
        expected_plain_s = expected_s = plain_s = actual_s = 0.0
        for each in rounds:
            if each.forecast is None:
                continue
            expected_plain_s += each.forecast.tokens * each.forecast.plain_s
            expected_s += each.forecast.seconds
            plain_s += each.emitted * each.forecast.plain_s
            actual_s += each.draft_s + each.verify_s + each.other_s
            for i, chance in enumerate(each.forecast.chances[: each.accepted + 1]):
                calibration = calibration.add(chance, i < each.accepted)
        return cls(
            predicted_gain=expected_plain_s / expected_s if expected_s else None,
            calibration=calibration,
            plain_s=plain_s,
            actual_s=actual_s,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """Where a result comes from.

    Parameters
    ----------
    model, path, provider
        The target: its name, its file, the library that ran it.
    draft : str or None
        Name of the drafter that was loaded.
    seed : int or None
        The request's seed.
    version : str
        Of leadout.
    """

    model: str
    path: Path | None
    provider: str
    draft: str | None
    seed: int | None
    version: str

    def to_json(self) -> dict[str, object]:
        """Plain values for JSON."""
        return {
            "model": self.model,
            "path": None if self.path is None else str(self.path),
            "provider": self.provider,
            "draft": self.draft,
            "seed": self.seed,
            "leadout": self.version,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One complete answer.

    Parameters
    ----------
    index : int
        Which of the n answers this is.
    text : str
        The answer.
    tokens : tuple of Token
        Its tokens, with origins, and log probabilities when the request asked for them.
    finish_reason : FinishReason
    usage : Usage
    speculation : Speculation
        How the request ended: with speculation on or off, and why.
    has_logprobs : bool
        True when the request asked for log probabilities.
    provenance : Provenance
    outlook : Outlook
        What the schedule predicted.
    """

    index: int
    text: str
    tokens: tuple[Token, ...]
    finish_reason: FinishReason
    usage: Usage
    speculation: Speculation
    has_logprobs: bool
    provenance: Provenance
    outlook: Outlook = field(default_factory=Outlook)

    @property
    def ids(self) -> tuple[int, ...]:
        """Ids of the answer."""
        return tuple(token.token for token in self.tokens)

    def to_json(self) -> dict[str, object]:
        """Plain values for JSON; the keys are part of the public interface."""
        usage = self.usage
        out: dict[str, object] = {
            "text": self.text,
            "finish_reason": self.finish_reason,
            "prompt_tokens": usage.prompt_tokens,
            "completion_tokens": usage.completion_tokens,
            "cached_tokens": usage.cached_tokens,
            "target_passes": usage.target_passes,
            "drafted": usage.drafted,
            "accepted": usage.accepted,
            "forced": usage.forced,
            "tokens_per_pass": usage.tokens_per_pass,
            "seconds": usage.seconds,
            "tokens_per_second": usage.tokens_per_second,
            "slowdown": usage.slowdown,
            "speculation": {
                "enabled": self.speculation.enabled,
                "reason": self.speculation.reason,
                "drafter": self.speculation.drafter,
                "verification": self.speculation.verification,
            },
            "schedule": {
                "name": self.speculation.schedule,
                "predicted_gain": self.outlook.predicted_gain,
                "calibration": self.outlook.calibration.to_json(),
            },
            "ids": list(self.ids),
            "provenance": self.provenance.to_json(),
        }
        if self.has_logprobs:
            out["logprobs"] = [_logprobs(token) for token in self.tokens]
        return out


def _logprobs(token: Token) -> dict[str, object]:
    top = [
        {"id": each.token, "text": each.piece.decode("utf-8", "replace"), "logprob": each.logprob}
        for each in token.alternatives
    ]
    logprob = None if token.logprob is None else token.logprob.logprob
    return {"id": token.token, "logprob": logprob, "top": top}


@dataclass(slots=True)
class ResultFold:
    """Takes the events of one answer, one by one, and gives its result at the end.

    Parameters
    ----------
    provenance : Provenance
        Copied into the result.
    has_logprobs : bool
        True when the request asked for log probabilities.
    """

    provenance: Provenance
    has_logprobs: bool = False
    _started: Started | None = None
    _tokens: list[Token] = field(default_factory=list)
    _rounds: list[Round] = field(default_factory=list)
    _finished: Finished | None = None

    def add(self, event: Event) -> None:
        """Take one event."""
        match event:
            case Started():
                self._started = event
            case Token():
                self._tokens.append(event)
            case Round():
                self._rounds.append(event)
            case Finished():
                self._finished = event

    def result(self) -> Result:
        """The result.

        Raises
        ------
        ValueError
            If the answer is not complete.
        """
        if self._started is None or self._finished is None:
            raise ValueError("the answer is not complete: its Started or Finished event is missing")
        return Result(
            index=self._started.index,
            text="".join(token.text for token in self._tokens) + self._finished.text,
            tokens=tuple(self._tokens),
            finish_reason=self._finished.reason,
            usage=self._usage(self._started),
            speculation=self._finished.speculation,
            has_logprobs=self.has_logprobs,
            provenance=self.provenance,
            outlook=Outlook.of(self._rounds),
        )

    def _usage(self, started: Started) -> Usage:
        decode_s = sum(
            each.draft_s + each.verify_s + each.other_s + each.waited_s for each in self._rounds[1:]
        )
        return Usage(
            prompt_tokens=started.prompt_tokens,
            cached_tokens=started.cached_tokens,
            completion_tokens=len(self._tokens),
            target_passes=len(self._rounds),
            drafted=sum(each.drafted for each in self._rounds),
            accepted=sum(each.accepted for each in self._rounds),
            forced=sum(each.forced for each in self._rounds),
            seconds=started.seconds + decode_s,
            decode_seconds=decode_s,
            slowdown=slowdown([each.verify_s for each in self._rounds[1:] if each.width == 1]),
        )


def speculation_of(results: Sequence[Result]) -> Speculation:
    """How the answers to a request were decoded: as the first that was drafted for, or else as the first."""
    return next((each for each in results if each.usage.drafted), results[0]).speculation


def collect(events: Iterable[Event], provenance: Provenance, *, has_logprobs: bool = False) -> list[Result]:
    """Fold the events of all answers of a request into results, by index."""
    folds: dict[int, ResultFold] = {}
    for event in events:
        folds.setdefault(event.index, ResultFold(provenance, has_logprobs)).add(event)
    return [folds[index].result() for index in sorted(folds)]
