"""What a request may ask for, beside its prompt: the sampling law plus what ends and reports a generation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from leadout.checks import check_kind, check_one_of, check_truth, check_whole
from leadout.core.constraint import Constraint
from leadout.core.values import Sampling
from leadout.errors import InputError

Verification = Literal["auto", "greedy", "coupled", "block", "token"]
"""Verification rule; "auto" is greedy at temperature 0, coupled with a seed, block otherwise."""

MAX_LOGPROBS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Params(Sampling):
    """Everything a request may set. Unknown fields do not exist; values are checked here.

    Parameters
    ----------
    logit_bias, repetition_penalty, frequency_penalty, presence_penalty, temperature, top_k, top_p, min_p
        The sampling law, as in `leadout.core.values.Sampling`, with its defaults.
    max_tokens : int >= 1 or None
        Longest answer in tokens; None goes on to the end of the context.
    stop : tuple of str
        The answer ends before the first of these strings.
    seed : int in 0..2**64-1, or None
        With a seed the text is a function of prompt, law and seed, with speculation on or off.
    n : int >= 1
        Independent answers to the same prompt.
    logprobs : int in 0..MAX_LOGPROBS, or None
        Report each token's log probability under the model's own softmax (before the sampling law), and that
        many of the most probable alternatives.
    verification : Verification
        Which rule checks the drafts.
    speculate : bool
        False decodes this request plainly.
    max_draft : int >= 1 or None
        Most tokens drafted in a round; None leaves that to the schedule.
    constraint : Constraint or None
        What the answer is bound to, such as a grammar. The answer ends when that is over.
    """

    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    seed: int | None = None
    n: int = 1
    logprobs: int | None = None
    verification: Verification = "auto"
    speculate: bool = True
    max_draft: int | None = None
    constraint: Constraint | None = None

    def __post_init__(self) -> None:
        Sampling.__post_init__(self)
        check_whole("max_tokens", self.max_tokens, 1, optional=True)
        check_whole("seed", self.seed, 0, 2**64 - 1, optional=True)
        check_whole("n", self.n, 1, 128)
        check_whole("logprobs", self.logprobs, 0, MAX_LOGPROBS, optional=True)
        check_truth("speculate", self.speculate)
        check_whole("max_draft", self.max_draft, 1, optional=True)
        check_kind("constraint", self.constraint, Constraint, "a Constraint", optional=True)
        if not isinstance(self.stop, tuple) or not all(isinstance(each, str) and each for each in self.stop):
            raise InputError(f"stop is {self.stop!r}; it must be a tuple of non-empty strings")
        check_one_of("verification", self.verification, get_args(Verification))
        if self.verification == "greedy" and not self.is_greedy:
            raise InputError(f"verification greedy needs temperature 0, not {self.temperature!r}")
        if self.verification == "coupled" and self.seed is None:
            raise InputError("verification coupled needs a seed; give one, or use block or token")
        if self.verification in ("block", "token") and self.seed is not None:
            raise InputError(
                f"verification {self.verification} draws fresh randomness and takes no seed; use coupled"
            )

    @property
    def rule(self) -> Literal["greedy", "coupled", "block", "token"]:
        """The rule that "auto" stands for here."""
        if self.verification != "auto":
            return self.verification
        if self.is_greedy:
            return "greedy"
        return "block" if self.seed is None else "coupled"
