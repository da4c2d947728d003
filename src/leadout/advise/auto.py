"""What ``--draft auto`` drafts with: a model on this machine that is predicted to pay, or lookups alone.

Quick, as it runs before every answer: headers are remembered, nothing is measured and nothing is fetched.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from leadout.advise.candidates import Place, find, usual_places
from leadout.advise.pick import ITSELF, Candidate, Picker, Picks
from leadout.models.free_memory import free_bytes
from leadout.models.header import read_header
from leadout.models.open import Provider
from leadout.models.options import GgufOptions
from leadout.store.settings import StoreSettings

MARGIN = 1.1
"""What a guess from file sizes has to promise beyond lookups before a model is loaded for it."""

_SECONDS = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoDraft:
    """The draft model to load, if any, and one line that says why it or none."""

    path: Path | None
    name: str
    reason: str


def choose_draft(
    target: Path,
    options: GgufOptions,
    provider: Provider = "auto",
    *,
    settings: StoreSettings | None = None,
    folder: Path | None = None,
    clock: Callable[[], float] = perf_counter,
) -> AutoDraft:
    """Choose among the models in the usual folders and beside the target.

    The target's context and slots are given: a draft that does not fit beside them is not taken.

    Parameters
    ----------
    target : Path
        The target's file.
    options : GgufOptions
        How it is to be loaded.
    settings : StoreSettings or None
        None reads the environment.
    folder : Path or None
        Where findings are remembered, instead of leadout's cache folder.
    """
    started = clock()
    settings = settings or StoreSettings.from_environment()
    header = read_header(target)
    picker = Picker(header, options, free_bytes(), provider, folder)
    found, _ = find([*usual_places(settings), Place(folder=target.parent, depth=0)], settings)
    picks = picker.pick(found, may_go_on=lambda: clock() - started < _SECONDS)
    best = picks.winner
    if best is not None and _is_sure(best):
        return AutoDraft(
            path=Path(best.facts.path), name=best.name, reason=f"draft auto: {picks.verdict.sentence}"
        )
    return AutoDraft(path=None, name="", reason=f"draft auto: no draft model, {_why_none(picks)}")


def _is_sure(best: Candidate) -> bool:
    return best.estimate.basis != "sizes" or best.estimate.speedup >= MARGIN * best.estimate.lookups


def _why_none(picks: Picks) -> str:
    """Why only lookups draft, in half a sentence."""
    others = [each for each in picks.ruled_out if each.reason != ITSELF]
    if not picks.fit and not others:
        return "as there is no other model here"
    if not picks.fit:
        looked = f"{len(others)} looked at; `leadout pick` has the reasons"
        return f"as no other model here fits this target ({looked})"
    best = picks.fit[0]
    than = f"{best.estimate.speedup:.2f}x against {best.estimate.lookups:.2f}x of lookups alone"
    unsure = ", too little for a guess from file sizes to load it (`leadout check` measures it)"
    sure = unsure if best.estimate.basis == "sizes" else ""
    return f"as the best, {best.name}, is predicted to give {than}{sure}"
