"""Who answers: a name, and a way to make an engine that remembers nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Protocol

from leadout.bench.answer import Answer
from leadout.bench.specs import AUTO, Spec
from leadout.drafters.base import Drafter
from leadout.drafters.hybrid import HybridDrafter
from leadout.drafters.ngram import NgramDrafter
from leadout.drafters.suffix import SuffixDrafter
from leadout.engine.engine import Engine
from leadout.engine.memory import Memory
from leadout.engine.pace import PacedSchedule
from leadout.engine.params import Params
from leadout.engine.schedule import FixedSchedule, Schedule, StepSchedule
from leadout.engine.startup import measure
from leadout.errors import InputError
from leadout.loading import LoadedModels, draft_model_of, is_one_vocabulary
from leadout.models.base import Model


class Answerer(Protocol):
    """Answers the calls of one unit, in order."""

    def answer(self, prompt: Sequence[int], params: Params) -> Answer:
        """The answer to a prompt, with its times."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """One way to answer.

    Parameters
    ----------
    name : str
        For reports; unique in a run.
    fresh : callable
        Makes an answerer for one unit of the workload named. Its caches are empty, and it remembers no text;
        measured costs may be shared by those that one contender makes, as they hold none.
    """

    name: str
    fresh: Callable[[str], Answerer]


@dataclass(frozen=True, slots=True)
class EngineAnswerer:
    """leadout's engine as an answerer."""

    engine: Engine

    def answer(self, prompt: Sequence[int], params: Params) -> Answer:
        """What the engine's events come to."""
        return Answer.of(self.engine.stream(prompt, params))


def engine_contender(name: str, make: Callable[[], Engine]) -> Contender:
    """A contender of leadout's own; `make` builds an engine around models that others use in turn.

    A new engine takes nothing from the caches of its target, whatever they hold.
    """
    return Contender(name=name, fresh=lambda _workload: EngineAnswerer(make()))


def own_contender(spec: Spec, models: LoadedModels, *, drafts_ngrams: bool, exact: bool) -> Contender:
    """The contender that `spec` asks for.

    Parameters
    ----------
    models : LoadedModels
        Target and draft model; shared with other contenders, never closed here.
    drafts_ngrams : bool
        True when the run's draft is n-gram lookup.
    exact : bool
        See `Engine`.

    Raises
    ------
    InputError
        If it drafts, and there is nothing to draft with.
    """
    if spec.kind == AUTO:
        return engine_contender(spec.name, Automatic(models, exact=exact).engine)
    if spec.kind in ("fixed", "step") and models.draft is None and not drafts_ngrams:
        raise InputError(f"contender {spec.name} needs a draft; give one with --draft ngram or --draft MODEL")

    def make() -> Engine:
        return Engine(models.target, _drafter(spec, models), schedule=_schedule(spec), exact=exact)

    return engine_contender(spec.name, make)


class Automatic:
    """Makes engines that do what `leadout.load` does by itself; what passes cost is measured once.

    Costs and acceptance are learned from unit to unit, as they are from request to request; texts are not
    kept, and nothing is written down.

    Parameters
    ----------
    models : LoadedModels
        Shared with other contenders, never closed here.
    exact : bool
        See `Engine`.
    """

    def __init__(self, models: LoadedModels, *, exact: bool) -> None:
        self._models, self._exact = models, exact
        self._schedule: PacedSchedule | None = None

    def engine(self) -> Engine:
        """A new one, with empty caches."""
        models = self._models
        if self._schedule is None:
            self._schedule = PacedSchedule(self._measured())
        model = None if models.draft is None else draft_model_of(models, emptied(models.draft))
        drafter = HybridDrafter([SuffixDrafter(), NgramDrafter()], model)
        return Engine(models.target, drafter, schedule=self._schedule, exact=self._exact)

    def _measured(self) -> Memory | None:
        """What a first measurement finds; None for a target that nothing can be drafted for."""
        models = self._models
        if models.target.info.rollback == "none":
            return None
        name = "lookups" if models.draft is None else models.draft.info.name
        startup = measure(
            models.target, models.draft, clock=perf_counter, is_one_vocabulary=is_one_vocabulary(models)
        )
        return Memory.of_startup(startup, name)


def _drafter(spec: Spec, models: LoadedModels) -> Drafter | None:
    if spec.is_plain:
        return None
    if spec.kind == "ngram" or models.draft is None:
        return NgramDrafter()
    return draft_model_of(models, emptied(models.draft))


def emptied(model: Model) -> Model:
    """`model` with empty caches: a new drafter takes them to be so."""
    for slot in range(model.info.n_slots):
        model.truncate(slot, 0)
    return model


def _schedule(spec: Spec) -> Schedule:
    return StepSchedule.from_k(spec.k) if spec.kind == "step" else FixedSchedule(spec.k)
