"""From names to an engine: the only place that knows store, models, drafters and engine at once."""

from __future__ import annotations

import hashlib
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import perf_counter
from typing import get_args

from leadout.advise.auto import AutoDraft, choose_draft
from leadout.advise.known import remember_rounds
from leadout.checks import check_kind, check_one_of, check_truth, check_whole
from leadout.drafters.base import Drafter
from leadout.drafters.connect import Bridge, connect, way_over, why_this_way
from leadout.drafters.hybrid import DraftModel, HybridDrafter
from leadout.drafters.ngram import NgramDrafter
from leadout.drafters.suffix import SuffixDrafter
from leadout.engine.engine import Engine
from leadout.engine.memory import Memory, keep, recall
from leadout.engine.pace import LONGEST_DRAFT, PacedSchedule
from leadout.engine.round import why_none_fits
from leadout.engine.schedule import MAX_K, Schedule
from leadout.engine.startup import BUDGET_S, SAMPLE, measure
from leadout.errors import InputError, LeadoutError, StoreError
from leadout.models.base import Model
from leadout.models.compare import Comparison, compare_files
from leadout.models.gguf import GgufModel
from leadout.models.header import read_header
from leadout.models.open import Provider, open_model
from leadout.models.options import GgufOptions
from leadout.models.remember import Findings
from leadout.models.tuned import Tuned, tuned_key
from leadout.models.tuned import recall as recall_tuned
from leadout.store import Progress, Resolved, resolve
from leadout.store.progress import NoProgress

_LOOKUPS = ("auto", "suffix", "ngram")


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
    if schedule is not None and (draft is None or _is_word(draft, "none")):
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
            schedule = _paced(models, drafter, longest, exact=exact, progress=progress or NoProgress())
        engine = Engine(models.target, drafter, schedule=schedule, exact=exact, notes=models.notes)
        undo.pop_all()
    return engine


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedModels:
    """A target, its draft model if there is one, how their vocabularies relate, and what to know.

    `key` names everything that a measurement of the two depends on; `options` are the target's.
    """

    target: Model
    draft: Model | None = None
    comparison: Comparison | None = None
    bridge: Bridge = "auto"
    key: str = ""
    options: GgufOptions = field(default_factory=GgufOptions)
    notes: tuple[str, ...] = ()

    def close(self) -> None:
        """Free both."""
        if self.draft is not None:
            self.draft.close()
        self.target.close()


def load_models(
    target: str | Path,
    draft: str | Path | None = None,
    *,
    options: GgufOptions | None = None,
    draft_options: GgufOptions | None = None,
    provider: Provider = "auto",
    draft_provider: Provider = "auto",
    bridge: Bridge = "auto",
    offline: bool = False,
    progress: Progress | None = None,
) -> LoadedModels:
    """Load a target and, where `draft` names one, a draft model; parameters and errors as those of `load`."""
    check_kind("target", target, (str, Path), "a name or a path")
    check_kind("draft", draft, (str, Path), "a name or a path", optional=True)
    check_kind("options", options, GgufOptions, "a GgufOptions", optional=True)
    check_truth("offline", offline)
    check_one_of("provider", provider, get_args(Provider))
    options = options or GgufOptions()
    _check_draft_arguments(draft, options, draft_options, draft_provider, bridge)

    def find(name: str | Path) -> Resolved:
        return resolve(str(name), offline=offline, progress=progress)

    target_files = find(target)
    chosen = choose_draft(target_files.path, options, provider) if _is_word(draft, "auto") else None
    notes = () if chosen is None else (chosen.reason,)
    try:
        draft_files = find(draft) if draft is not None and is_model(draft) else _chosen_files(chosen)
    except StoreError as error:
        raise StoreError(f"the draft: {error}; or use ngram, or none") from error
    tuned = _tuned(target_files, draft_files, options)
    with ExitStack() as undo:
        model = _open(target_files, provider, options, tuned)
        undo.callback(model.close)
        loaded = LoadedModels(target=model, key=model.key, options=options, notes=notes)
        if draft_files is not None:
            try:
                loaded = _beside(
                    loaded,
                    target_files,
                    draft_files,
                    draft_options,
                    draft_provider=draft_provider,
                    bridge=bridge,
                    tuned=tuned,
                )
            except LeadoutError as error:
                if chosen is None:
                    raise
                why = f"draft auto: no draft model, as {chosen.name} cannot be used: {error}"
                loaded = replace(loaded, notes=(why,))
        undo.pop_all()
    return loaded


def _beside(
    loaded: LoadedModels,
    target_files: Resolved,
    draft_files: Resolved,
    draft_options: GgufOptions | None,
    *,
    draft_provider: Provider,
    bridge: Bridge,
    tuned: Tuned | None,
) -> LoadedModels:
    """A loaded target with a draft model beside it."""
    target, options = loaded.target, loaded.options
    if draft_options is None:
        draft_options = _options_of_draft(options, target, draft_files.path)
    else:
        draft_options = replace(draft_options, n_slots=max(draft_options.n_slots, options.n_slots))
    comparison = compare_files(target_files.path, draft_files.path)
    comparison = comparison.with_sample(target.vocab.encode(SAMPLE, add_bos=False, special=False))
    note = why_this_way(comparison, bridge)
    draft = _open(draft_files, draft_provider, draft_options, tuned, is_draft=True)
    return replace(
        loaded,
        draft=draft,
        comparison=comparison,
        bridge=bridge,
        key=f"{loaded.key}-{draft.key}",
        notes=(*loaded.notes, note) if note else loaded.notes,
    )


def _open(
    files: Resolved,
    provider: Provider,
    options: GgufOptions,
    tuned: Tuned | None,
    *,
    is_draft: bool = False,
) -> GgufModel:
    """Load a model; what the user left open is as it was tuned, if it was."""
    name, reason = _name(files), "asked for"
    chosen = None if tuned is None else tuned.draft if is_draft else tuned.target
    if tuned is not None and chosen is not None and provider in ("auto", chosen.provider):
        options = chosen.options(options, is_draft=is_draft)
        if provider == "auto":
            provider, reason = chosen.provider, f"tuned: {tuned.reason}"
    return open_model(files.path, name=name, provider=provider, options=options, reason=reason)


def _tuned(target: Resolved, draft: Resolved | None, options: GgufOptions) -> Tuned | None:
    """What was chosen for these files, if anything was; it holds for the CPU alone."""
    if options.n_gpu_layers != 0 or options.exact:
        return None
    parts = read_header(target.path).parts
    alone = recall_tuned(tuned_key(parts))
    if draft is None:
        return alone
    return recall_tuned(tuned_key(parts, read_header(draft.path).parts)) or alone


def _drafter(draft: str | Path | None, models: LoadedModels, *, lookups: bool) -> Drafter | None:
    """What drafts, by the word or the model that was asked for."""
    if draft is None or _is_word(draft, "none"):
        return None
    if _is_word(draft, "suffix"):
        return SuffixDrafter()
    if _is_word(draft, "ngram"):
        return NgramDrafter()
    model = None if models.draft is None else draft_model_of(models)
    if model is not None and not lookups:
        return model
    return HybridDrafter([SuffixDrafter(), NgramDrafter()], model)


def draft_model_of(models: LoadedModels, stand_in: Model | None = None) -> DraftModel:
    """The draft model of a pair as a drafter, without lookups.

    Parameters
    ----------
    models : LoadedModels
    stand_in : Model or None
        Something around the draft model that drafts in its place.

    Raises
    ------
    InputError
        If there is none, or it cannot roll back.
    VocabularyError
        If shared tokens were asked for, and there are none.
    """
    if models.draft is None or models.comparison is None:
        raise InputError("there is no draft model among these; load them with one")
    return connect(stand_in or models.draft, models.target.vocab, models.comparison, models.bridge)


def _paced(
    models: LoadedModels, drafter: Drafter | None, longest: int, *, exact: bool, progress: Progress
) -> PacedSchedule:
    """The schedule that measures, with what is known of this pair; measured now where nothing is."""
    if drafter is None or _why_none(models.target, longest, exact=exact):
        return PacedSchedule(longest=longest)
    findings, key = Findings("profiles"), profile_key(models)
    memory, note = recall(findings, key), ""
    if memory is None:
        progress.start(0, f"measuring what passes cost here, about {BUDGET_S:.0f} s, this once")
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


def is_one_vocabulary(models: LoadedModels) -> bool:
    """Whether the draft model, if there is one, gives rows of the target's tokens."""
    return models.comparison is None or way_over(models.comparison, models.bridge) is None


def profile_key(models: LoadedModels) -> str:
    """Where the costs of this pair are kept."""
    return hashlib.sha256(models.key.encode()).hexdigest()


def _why_none(target: Model, longest: int, *, exact: bool) -> str:
    """Why nothing may be drafted for this target, or ""; then there is nothing to measure either."""
    if target.info.rollback == "none":
        return target.info.rollback_reason
    return why_none_fits(longest, target.exact_widths() if exact else None, target.info.name)


def is_model(draft: str | Path | None) -> bool:
    """Whether `draft` stands for a draft model, not for a lookup or for nothing."""
    return draft is not None and not _is_word(draft, "none", *_LOOKUPS)


def _check_draft_arguments(
    draft: str | Path | None,
    options: GgufOptions,
    draft_options: GgufOptions | None,
    draft_provider: Provider,
    bridge: Bridge,
) -> None:
    """Refuse what would be ignored, or could not serve every slot of the target."""
    check_kind("draft_options", draft_options, GgufOptions, "a GgufOptions", optional=True)
    check_one_of("draft_provider", draft_provider, get_args(Provider))
    check_one_of("bridge", bridge, get_args(Bridge))
    is_given = {
        "draft_options": draft_options is not None,
        "draft_provider": draft_provider != "auto",
        "bridge": bridge != "auto",
    }
    given = [name for name in is_given if is_given[name]]
    if given and not is_model(draft):
        raise InputError(
            f"{' and '.join(given)} can only be given with a draft model, but draft is {draft!r}; "
            "leave it out, or name a draft model"
        )
    if draft_options is not None and 1 < draft_options.n_slots < options.n_slots:
        raise InputError(
            f"draft_options has n_slots {draft_options.n_slots}, but the target has {options.n_slots} slots, "
            "and the draft needs as many; leave n_slots out of draft_options"
        )


def _is_word(draft: str | Path | None, *words: str) -> bool:
    return isinstance(draft, str) and draft in words


def _chosen_files(chosen: AutoDraft | None) -> Resolved | None:
    """The files of the draft model that was chosen automatically, if one was."""
    if chosen is None or chosen.path is None:
        return None
    return Resolved(name=chosen.name, files=(chosen.path,), source="path")


def _name(files: Resolved) -> str:
    """What to call a model: the name asked for, or the file's own where a path was given."""
    return files.path.stem if files.source == "path" else files.name


def _options_of_draft(options: GgufOptions, target: Model, path: Path) -> GgufOptions:
    """The target's options, as many slots and positions, but no more than the draft was trained for."""
    n_ctx, n_trained = target.info.n_ctx, read_header(path).n_ctx_train
    is_stretched = options.rope_scaling is not None or options.rope_freq_scale is not None
    if n_trained and not is_stretched:
        n_ctx = min(n_ctx, n_trained)
    return replace(options, n_ctx=n_ctx, exact=False)
