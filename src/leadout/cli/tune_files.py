"""Tuning by name: files found, tried, and what was found kept for `leadout.load`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import get_args

from leadout.advise.tune import Opener, Show, TuneReport, tune, ways_to_try
from leadout.advise.ways import Way
from leadout.drafters.base import Drafter
from leadout.engine.memory import Memory, keep
from leadout.errors import InputError
from leadout.loading import draft_model_of, is_model, load_models, profile_key
from leadout.models.base import Model
from leadout.models.cpu import usable_cores
from leadout.models.header import read_header
from leadout.models.open import open_model
from leadout.models.options import GgufOptions
from leadout.models.remember import Findings
from leadout.models.tuned import Library, remember, tuned_key
from leadout.store import Progress, Resolved, resolve


def tune_files(
    target: str,
    draft: str | None = None,
    *,
    options: GgufOptions | None = None,
    threads: Sequence[int] = (),
    offline: bool = False,
    progress: Progress | None = None,
    show: Show,
) -> TuneReport:
    """Tune a target, and a draft model for it, and keep the choice and what it costs if the machine was idle.

    Parameters
    ----------
    target, draft : str
        Names or paths, as `leadout.load` takes them; None or "none" tunes the target alone.
    options : GgufOptions or None
        How they are loaded, threads and cache formats aside.
    threads : sequence of int
        Thread counts to try; empty tries what the cores suggest.
    offline : bool
        Make no network call.
    progress : Progress or None
        Told of downloads.
    show : callable
        Told of measurements.

    Raises
    ------
    InputError
        If the options ask for a GPU: there is nothing to choose for it yet. If the draft is a lookup, which
        has nothing to tune.
    StoreError, ModelFileError, ProviderError
        If files cannot be found or run.
    """
    options = options or GgufOptions()
    if options.n_gpu_layers != 0:
        raise InputError(
            f"n_gpu_layers is {options.n_gpu_layers}, but only the CPU can be tuned; leave it out"
        )
    if draft not in (None, "none") and not is_model(draft):
        raise InputError(f"draft is {draft!r}, which loads no model; name a draft model to tune, or none")
    files = resolve(target, offline=offline, progress=progress)
    read_header(files.path)  # a damaged file is told of before any measurement is
    drafts = None
    if draft is not None and is_model(draft):
        drafts = resolve(draft, offline=offline, progress=progress)
    pair = load_models(target, None if drafts is None else draft, options=options, offline=True)
    pair.close()  # so they can be loaded, also beside each other

    def connect(draft: Model, target: Model) -> Drafter:
        return draft_model_of(replace(pair, draft=draft, target=target))

    ways = ways_to_try(get_args(Library), usable_cores())
    if threads:
        ways = [Way(provider=name, n_threads=n) for n in threads for name in get_args(Library)]
    report = tune(
        _opener(files, options),
        ways,
        None if drafts is None else _opener(drafts, options),
        connect=connect,
        clock=perf_counter,
        show=show,
    )
    if not report.warning:
        _keep(report, files, drafts, options)
    return report


def _opener(files: Resolved, options: GgufOptions) -> Opener:
    def open_one(way: Way) -> Model:
        asked = replace(options, n_threads=way.n_threads, kv_type_k=way.kv_type, kv_type_v=way.kv_type)
        return open_model(files.path, name=files.name, provider=way.provider, options=asked)

    return open_one


def _keep(report: TuneReport, files: Resolved, drafts: Resolved | None, options: GgufOptions) -> None:
    """Remember the choice, then the costs under the key that the chosen way has when it is loaded."""
    parts = read_header(files.path).parts
    if drafts is None:
        remember(tuned_key(parts), report.choice)
        _keep_costs(report, files.path, None, options)
        return
    remember(tuned_key(parts, read_header(drafts.path).parts), report.choice)
    _keep_costs(report, files.path, drafts.path, options)


def _keep_costs(report: TuneReport, target: Path, draft: Path | None, options: GgufOptions) -> None:
    models = load_models(target, draft, options=options, offline=True)
    try:
        name = "lookups" if models.draft is None else draft_model_of(models).name
        keep(Findings("profiles"), profile_key(models), Memory.of_startup(report.startup(), name))
    finally:
        models.close()
