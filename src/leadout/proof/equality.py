"""The same answer with and without speculation: ids compared, every difference diagnosed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from leadout.core import law
from leadout.core.noise import Noise
from leadout.drafters.base import Drafter
from leadout.engine.engine import Engine
from leadout.engine.params import Params
from leadout.models.base import Model
from leadout.proof.answers import Answer, row_at
from leadout.proof.progress import Steps, quiet
from leadout.proof.rehearsal import RehearsedDrafter

ROUNDING_LIMIT = 1.0
"""Logits that differ by more between pass widths are not rounding: 4-bit kernels were seen to reach 0.7."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The first place where an answer with speculation is not the plain one.

    Parameters
    ----------
    position : int
        Which token of the answer.
    plain, speculative : int or None
        The two tokens; None is the end of the answer.
    top_two_gap : float
        The largest logit minus the second largest, in plain decoding's pass.
    rounding : float
        Largest difference, over the ids the law allows there, between the logits of the two deciding passes.
    verdict : "near-tie" or "fault"
        *near-tie*: each pass, repeated, chose what its answer has, and their logits differ by rounding
        alone: the rule is right, the kernels round differently. Everything else is a fault.
    """

    position: int
    plain: int | None
    speculative: int | None
    top_two_gap: float
    rounding: float
    verdict: Literal["near-tie", "fault"]


@dataclass(frozen=True, slots=True, kw_only=True)
class EqualityReport:
    """Pairs of answers, compared token by token."""

    n_pairs: int
    n_equal: int
    n_tokens: int
    drafted: int
    accepted: int
    differences: tuple[Difference, ...]

    @property
    def is_lossless(self) -> bool:
        """True when drafts were verified and no difference is a fault."""
        return self.drafted > 0 and all(each.verdict == "near-tie" for each in self.differences)


def compare_answers(
    target: Model,
    drafter: Drafter,
    prompts: Sequence[Sequence[int]],
    params: Params,
    *,
    make_engine: Callable[[Model, Drafter | None], Engine],
    progress: Steps = quiet,
) -> EqualityReport:
    """Answer each prompt plainly, with `drafter`, and with one that errs on purpose; compare ids.

    Parameters
    ----------
    target : Model
        Its slot 0 is used, and left empty.
    prompts : sequence of ids
    params : Params
        Greedy or seeded.
    make_engine : callable
        From target and drafter (or None) to a fresh engine.
    progress : Steps
        Told of prompts done.
    """
    differences = []
    n_pairs = n_tokens = drafted = accepted = 0
    for number, prompt in enumerate(prompts):
        plain = Answer.of(make_engine(target, None).stream(prompt, params))
        for each in (drafter, RehearsedDrafter(plain.tokens, target.info.n_vocab)):
            answer = Answer.of(make_engine(target, each).stream(prompt, params))
            n_pairs, n_tokens = n_pairs + 1, n_tokens + len(answer.tokens)
            drafted, accepted = drafted + answer.drafted, accepted + answer.accepted
            if answer.tokens != plain.tokens:
                differences.append(_diagnose(target, prompt, params, plain, answer))
        progress(number + 1, len(prompts))
    target.truncate(0, 0)
    return EqualityReport(
        n_pairs=n_pairs,
        n_equal=n_pairs - len(differences),
        n_tokens=n_tokens,
        drafted=drafted,
        accepted=accepted,
        differences=tuple(differences),
    )


def _diagnose(
    target: Model, prompt: Sequence[int], params: Params, plain: Answer, other: Answer
) -> Difference:
    position = next(_partings(plain.tokens, other.tokens))
    rows = [row_at(target, prompt, answer, position) for answer in (plain, other)]
    chosen = [_choice(row, params, position) for row in rows]
    said = [answer.tokens[position] if position < len(answer.tokens) else None for answer in (plain, other)]
    repeats = all(_is_same(target, *pair) for pair in zip(chosen, said, strict=True))
    allowed = np.array(chosen) if params.is_greedy else law.shape(rows[0], params).ids
    rounding = float(np.abs(rows[0][allowed] - rows[1][allowed]).max())
    second, first = np.partition(rows[0], -2)[-2:]
    return Difference(
        position=position,
        plain=said[0],
        speculative=said[1],
        top_two_gap=float(first - second),
        rounding=rounding,
        verdict="near-tie" if repeats and 0 < rounding <= ROUNDING_LIMIT else "fault",
    )


def _partings(first: Sequence[int], second: Sequence[int]) -> Iterator[int]:
    """Positions where two different answers differ, the shorter one's end included."""
    shared = min(len(first), len(second))
    yield from (i for i in range(shared) if first[i] != second[i])
    yield shared


def _choice(row: NDArray[np.float32], params: Params, position: int) -> int:
    """What the target says there, by the sampling law and the request's noise."""
    distribution = law.shape(row, params)
    if params.is_greedy or params.seed is None:
        return int(distribution.ids[0])
    return Noise(params.seed, 0).draw(distribution, position)


def _is_same(target: Model, chosen: int, said: int | None) -> bool:
    """Whether the answer has what was chosen; an end token is no part of an answer."""
    return target.vocab.is_end(chosen) if said is None else chosen == said
