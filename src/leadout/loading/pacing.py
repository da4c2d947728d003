"""What is known of a loaded pair, and the schedule that goes on from there."""

from __future__ import annotations

import hashlib
from time import perf_counter

from leadout.advise.known import remember_rounds
from leadout.drafters.base import Drafter
from leadout.engine.memory import Memory, keep, recall
from leadout.engine.pace import PacedSchedule
from leadout.engine.round import why_none_fits
from leadout.engine.startup import BUDGET_S, measure
from leadout.loading.models import LoadedModels, is_one_vocabulary
from leadout.models.base import Model
from leadout.models.remember import Findings
from leadout.store import Progress


def profile_key(models: LoadedModels) -> str:
    """Where the costs of this pair are kept."""
    return hashlib.sha256(models.key.encode()).hexdigest()


def paced_schedule(
    models: LoadedModels, drafter: Drafter | None, longest: int, *, exact: bool, progress: Progress
) -> PacedSchedule:
    """The schedule that measures, with what is known of this pair; measured now where nothing is."""
    if drafter is None or _why_none(models.target, longest, exact=exact):
        return PacedSchedule(longest=longest)
    findings, key = Findings("profiles"), profile_key(models)
    memory, note = recall(findings, key), ""
    if memory is None:
        progress.start(
            0, f"measuring what passes cost here, about {BUDGET_S:.0f} s, once for this pair run this way"
        )
        try:
            startup = measure(
                models.target, models.draft, clock=perf_counter, is_one_vocabulary=is_one_vocabulary(models)
            )
        finally:
            progress.finish()
        # rows of the draft model alone were compared, whatever else proposes beside it
        name = drafter.name if models.draft is None else models.draft.info.name
        memory, note = Memory.of_startup(startup, name), f"costs measured in {startup.seconds:.1f} s"

    def save(learned: Memory) -> None:
        keep(findings, key, learned)
        draft = None if models.draft is None else models.draft.info.path
        remember_rounds(models.target.info.path, draft, models.options, learned)

    return PacedSchedule(memory, longest=longest, note=note, save=save)


def _why_none(target: Model, longest: int, *, exact: bool) -> str:
    """Why nothing may be drafted for this target, or ""; then there is nothing to measure either."""
    if target.info.rollback == "none":
        return target.info.rollback_reason
    return why_none_fits(longest, target.exact_widths() if exact else None, target.info.name)
