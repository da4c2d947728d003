"""From loaded models to an engine."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from leadout.checks import check_kind, check_truth, check_whole
from leadout.drafters.base import Drafter
from leadout.drafters.connect import Bridge
from leadout.drafters.hybrid import HybridDrafter
from leadout.drafters.ngram import NgramDrafter
from leadout.drafters.suffix import SuffixDrafter
from leadout.engine.engine import Engine
from leadout.engine.pace import LONGEST_DRAFT
from leadout.engine.schedule import MAX_K, Schedule
from leadout.errors import InputError
from leadout.loading.models import LoadedModels, draft_model_of, is_word, load_models
from leadout.loading.pacing import paced_schedule
from leadout.models.open import Provider
from leadout.models.options import GgufOptions
from leadout.store import Progress
from leadout.store.progress import NoProgress


def load(
    target: str | Path,
    draft: str | Path | None = None,
    *,
    lookups: bool = True,
    options: GgufOptions | None = None,
    draft_options: GgufOptions | None = None,
    provider: Provider = "auto",
    draft_provider: Provider = "auto",
    bridge: Bridge = "auto",
    schedule: Schedule | None = None,
    longest: int | None = None,
    exact: bool = False,
    offline: bool = False,
    progress: Progress | None = None,
) -> Engine:
    """Load a target and, if asked for, a drafter.

    Parameters
    ----------
    target : str or Path
        A catalogue name, a path, hf:user/repo[:quant|:file.gguf] or ollama:name[:tag]; fetched if need be.
    draft : str, Path or None
        A draft model, by name or path; or a lookup: "suffix" (in this text and
        earlier answers) or "ngram" (in this text); or "auto", which is both, and beside them the model on
        this machine that is predicted to pay most, if one is. None or "none" decodes plainly.
    lookups : bool
        Let the lookups propose beside a draft model.
    options : GgufOptions or None
        How the target is loaded: context length, slots, threads, GPU layers and so on.
    draft_options : GgufOptions or None
        The same for a draft model; None takes the target's, with no more context than it was trained for. It
        needs the target's slots: one slot, the default, is raised to them.
    provider, draft_provider : Provider
        Which library runs the model: "auto", "ik" or "llama".
    bridge : Bridge
        How a draft model of another vocabulary is used: "text", "shared" (tokens that both have), or "auto",
        which takes what is likely to have more accepted. The engine's notes say which, and why.
    schedule : Schedule or None
        How much to draft; None drafts what is predicted to pay on this machine (see `PacedSchedule`). What
        passes cost is measured the first time, which takes about 2 s, and kept in the cache folder.
    longest : int in 0..64, or None
        Most tokens of a draft, where `schedule` is None; None is 15.
    exact : bool
        Output is plain decoding's bit for bit; see `Engine`. The same as ``exact`` in `options`.
    offline : bool
        Make no network call.
    progress : Progress or None
        Told of downloads, checks and measurements.

    Raises
    ------
    InputError
        If an argument is of another kind or contradicts another one, or is for drafts or for a draft model
        where there is none.
    StoreError
        If a name cannot be turned into files.
    ModelFileError, ProviderError
        If a file is damaged, or no library here can run it.
    VocabularyError
        If `bridge` is "shared", and the vocabularies have no token in common.
    """
    check_kind("options", options, GgufOptions, "a GgufOptions", optional=True)
    check_kind("schedule", schedule, Schedule, "a Schedule, such as FixedSchedule(4),", optional=True)
    check_truth("lookups", lookups)
    check_whole("longest", longest, 0, MAX_K, optional=True)
    if longest is not None and schedule is not None:
        raise InputError(
            f"longest is {longest}, but the schedule {schedule.name!r} has its own; leave out one of them"
        )
    check_truth("exact", exact)
    if schedule is not None and (draft is None or is_word(draft, "none")):
        raise InputError(f"schedule says how much to draft, but draft is {draft!r}; leave out one of them")
    options = options or GgufOptions()
    exact = exact or options.exact
    options = replace(options, exact=exact)
    models = load_models(
        target,
        draft,
        options=options,
        draft_options=draft_options,
        provider=provider,
        draft_provider=draft_provider,
        bridge=bridge,
        offline=offline,
        progress=progress,
    )
    with ExitStack() as undo:
        undo.callback(models.close)
        drafter = _drafter(draft, models, lookups=lookups)
        if schedule is None:
            longest = LONGEST_DRAFT if longest is None else longest
            schedule = paced_schedule(
                models, drafter, longest, exact=exact, progress=progress or NoProgress()
            )
        engine = Engine(
            models.target,
            drafter,
            schedule=schedule,
            exact=exact,
            notes=models.notes,
            draft=None if models.draft is None else models.draft.info,
        )
        undo.pop_all()
    return engine


def _drafter(draft: str | Path | None, models: LoadedModels, *, lookups: bool) -> Drafter | None:
    """What drafts, by the word or the model that was asked for."""
    if draft is None or is_word(draft, "none"):
        return None
    if is_word(draft, "suffix"):
        return HybridDrafter([SuffixDrafter()])
    if is_word(draft, "ngram"):
        return HybridDrafter([NgramDrafter()])
    model = None if models.draft is None else draft_model_of(models)
    if model is not None and not lookups:
        return HybridDrafter([], model)
    return HybridDrafter([SuffixDrafter(), NgramDrafter()], model)
