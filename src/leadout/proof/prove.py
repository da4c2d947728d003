"""The whole proof over one target and what drafts for it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Protocol

import numpy as np

from leadout.checks import check_number, check_whole
from leadout.drafters.base import Drafter
from leadout.drafters.model import ModelDrafter
from leadout.drafters.ngram import NgramDrafter
from leadout.engine.engine import Engine
from leadout.engine.params import Params
from leadout.engine.schedule import FixedSchedule
from leadout.models.base import Model
from leadout.proof.equality import EqualityReport, compare_answers
from leadout.proof.law import N_JUDGED, LawReport, judge_law
from leadout.proof.progress import Progress, Steps, quiet
from leadout.proof.prompts import FORKS, TEXTS
from leadout.proof.remember import RememberingModel
from leadout.proof.widths import WidthReport, measure_widths

FALSE_ALARM = 1e-3
"""Chance, over all fits together, that a lossless engine fails the law part."""

N_READ, N_COMPARED, WIDEST = 240, 32, 8
"""The widths part reads so many tokens, compares rows of so many more, and goes at least to this width."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProofOptions:
    """How much is measured.

    Parameters
    ----------
    n_prompts : int
        Texts answered for the greedy and the seeded part, 1..6.
    n_tokens : int
        Tokens of each answer.
    n_draws : int
        Answers drawn after each of the two texts of the law part.
    k : int
        Tokens drafted in a round.
    temperature : float > 0
        Of the seeded and the law part.
    seed : int in 0..2**64-1
        Drives the proof itself, so that it can be repeated.
    exact : bool
        Prove the exact mode: widths are kept to those that keep the bits.
    """

    n_prompts: int = len(TEXTS)
    n_tokens: int = 48
    n_draws: int = 1000
    k: int = 4
    temperature: float = 0.8
    seed: int = 1
    exact: bool = False

    def __post_init__(self) -> None:
        check_whole("n_prompts", self.n_prompts, 1, len(TEXTS))
        check_whole("n_tokens", self.n_tokens, 8, 1024)
        check_whole("n_draws", self.n_draws, 100, 100_000)
        check_whole("k", self.k, 1, 16)
        check_number("temperature", self.temperature, math.nextafter(0.0, 1.0), math.inf, "a number > 0")
        check_whole("seed", self.seed, 0, 2**64 - 1)


DEFAULT_OPTIONS = ProofOptions()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProofReport:
    """What was measured, and the verdict."""

    target: str
    provider: str
    drafter: str
    greedy: EqualityReport
    seeded: EqualityReport
    law: tuple[LawReport, ...]
    widths: tuple[WidthReport, ...]
    options: ProofOptions

    @property
    def faults(self) -> tuple[str, ...]:
        """Why speculation is not lossless here; empty when it is."""
        found = []
        for name, part in (("greedy", self.greedy), ("seeded", self.seeded)):
            n_faults = sum(each.verdict == "fault" for each in part.differences)
            if n_faults:
                found.append(f"{name}: {n_faults} of {part.n_pairs} answers differ by more than rounding")
            elif self.options.exact and part.differences:
                found.append(
                    f"{name}: {len(part.differences)} of {part.n_pairs} answers differ in exact mode"
                )
            if not part.drafted:
                found.append(f"{name}: nothing was drafted, so nothing was shown")
        for number, fit in enumerate(self.law, 1):
            if fit.p_value < FALSE_ALARM / len(self.law):
                found.append(
                    f"law: draws after text {number} do not fit the target's law (p = {fit.p_value:.2g})"
                )
        if not any(fit.drafted for fit in self.law):
            found.append("law: nothing was drafted, so nothing was shown")
        leaks = [str(each.width) for each in self.widths if not each.is_causal]
        if leaks:
            found.append(
                f"widths: at {', '.join(leaks)} a row depends on the tokens after it, so drafts leak into p"
            )
        return tuple(found)

    @property
    def is_lossless(self) -> bool:
        """True when nothing speaks against it and every part has evidence."""
        return not self.faults

    def to_json(self) -> dict[str, object]:
        """Plain values for JSON; the keys are part of the public interface."""
        return {
            "lossless": self.is_lossless,
            "faults": list(self.faults),
            "target": self.target,
            "provider": self.provider,
            "drafter": self.drafter,
            "options": asdict(self.options),
            "greedy": asdict(self.greedy),
            "seeded": asdict(self.seeded),
            "law": [asdict(each) for each in self.law],
            "widths": [asdict(each) for each in self.widths],
        }


class MakeEngine(Protocol):
    """Puts an engine together; a test may put a broken one here, to see that the proof can fail."""

    def __call__(
        self, target: Model, drafter: Drafter | None, generator: Callable[[], np.random.Generator]
    ) -> Engine:
        """A fresh engine over models whose caches are empty."""


def prove(
    target: Model,
    draft: Model | None = None,
    options: ProofOptions = DEFAULT_OPTIONS,
    *,
    connect: Callable[[Model], Drafter] = ModelDrafter,
    make_engine: MakeEngine | None = None,
    progress: Progress = quiet,
) -> ProofReport:
    """Measure whether speculation is lossless with these models.

    Parameters
    ----------
    target, draft : Model
        Slot 0 of each is used; nobody else may use them meanwhile. Without a draft model, n-gram lookup
        drafts.
    options : ProofOptions
    connect : callable
        Makes a drafter of the draft model.
    make_engine : MakeEngine or None
        None is leadout's engine with a fixed k.
    progress : Progress

    Raises
    ------
    InputError
        If the target's context is too short for the texts.
    """
    build = make_engine or _default_engine(options)
    seeds = np.random.SeedSequence(options.seed)

    def generator() -> np.random.Generator:
        return np.random.default_rng(seeds.spawn(1)[0])

    def drafter(wrap: Callable[[Model], Model] = lambda model: model) -> Drafter:
        return NgramDrafter() if draft is None else connect(wrap(draft))

    def equality(part: str, params: Params) -> EqualityReport:
        return compare_answers(
            target,
            drafter(),
            [_encode(target, text) for text in TEXTS[: options.n_prompts]],
            params,
            make_engine=lambda model, each: build(model, each, generator),
            progress=partial(progress, part),
        )

    limit, temperature = options.n_tokens, options.temperature
    greedy = equality("greedy", Params(temperature=0.0, max_tokens=limit))
    seeded = equality("seeded", Params(temperature=temperature, seed=options.seed, max_tokens=limit))
    unseeded = Params(temperature=temperature, max_tokens=N_JUDGED + 1)
    laws = []
    for number, text in enumerate(FORKS, 1):
        remembered = RememberingModel(target)
        engine = build(remembered, drafter(RememberingModel), generator)
        laws.append(
            judge_law(
                engine,
                remembered,
                _encode(target, text),
                unseeded,
                n_draws=options.n_draws,
                random=generator(),
                progress=partial(progress, f"law {number}"),
            )
        )
    return ProofReport(
        target=target.info.name,
        provider=target.info.provider,
        drafter=drafter().name,
        greedy=greedy,
        seeded=seeded,
        law=tuple(laws),
        widths=_widths(target, options, partial(progress, "widths")),
        options=options,
    )


def _default_engine(options: ProofOptions) -> MakeEngine:
    def make(target: Model, drafter: Drafter | None, generator: Callable[[], np.random.Generator]) -> Engine:
        schedule = FixedSchedule(options.k)
        return Engine(target, drafter, schedule=schedule, exact=options.exact, generator=generator)

    return make


def _encode(target: Model, text: str) -> list[int]:
    return target.vocab.encode(text, add_bos=target.vocab.adds_bos, special=False)


def _widths(target: Model, options: ProofOptions, progress: Steps) -> tuple[WidthReport, ...]:
    """Compare widths over a text that crosses position 256, where kernels change, if there is room."""
    tokens = _encode(target, "\n\n".join((*TEXTS, *FORKS)) * 3)[: min(N_READ + N_COMPARED, target.info.n_ctx)]
    widths = range(2, max(options.k + 1, WIDEST) + 1)
    return measure_widths(target, tokens, len(tokens) - N_COMPARED, widths, progress)
