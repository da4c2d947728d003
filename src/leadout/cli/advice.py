"""What the advising commands share: files found by name, and a pair checked."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from leadout.advise.check import CheckReport, measure, preview, report
from leadout.advise.known import check_key, recall_prediction, remember_prediction
from leadout.cli.flags import Choice, DraftModelOptions
from leadout.cli.progress import BarProgress, StepProgress
from leadout.loading import draft_model_of, load_models
from leadout.models.free_memory import free_bytes
from leadout.models.header import read_header
from leadout.models.options import GgufOptions
from leadout.models.remember import Findings
from leadout.store import resolve

NOT_ADVISED = 3
"""Exit code of a check, a pick or a plan whose answer is no."""


def file_of(name: str, choice: Choice) -> Path:
    """The (first) file that a name stands for, fetched if need be.

    Raises
    ------
    StoreError, ModelFileError
        If the name cannot be turned into files.
    """
    return resolve(name, offline=choice.offline, progress=BarProgress()).path


def check_pair(
    target: str,
    draft: str,
    choice: Choice,
    options: GgufOptions,
    draft_options: DraftModelOptions,
    *,
    again: bool = False,
    is_quiet: bool = False,
) -> CheckReport:
    """Look at a pair's headers, and measure it where nothing stands in the way and nothing is remembered.

    Raises
    ------
    LeadoutError
        If a name cannot be turned into files, or a file not be loaded.
    """
    ours, theirs = (read_header(file_of(name, choice)) for name in (target, draft))
    own = draft_options.applied_to(options)
    seen = preview(ours, theirs, options, own, free_bytes=free_bytes(), provider=choice.provider)
    if seen.obstacle:
        return report(seen, None)
    prediction = None
    if own is None and not again:
        prediction = recall_prediction(ours.path, theirs.path, options, choice.provider)
    if prediction is not None:
        return report(seen, prediction)
    with ExitStack() as closing:
        models = load_models(
            ours.path,
            theirs.path,
            options=options,
            draft_options=own,
            provider=choice.provider,
            draft_provider=choice.provider,
            offline=True,
        )
        closing.callback(models.close)
        if models.target.info.rollback == "none":
            return report(seen, None, models.target.info.rollback_reason)
        show = closing.enter_context(StepProgress(is_quiet=is_quiet)).show
        prediction = measure(
            models.target,
            draft_model_of(models),
            key=check_key(ours.path, None, options, choice.provider),
            findings=None if again else Findings("records"),
            widths=models.target.exact_widths() if options.exact else None,
            show=show,
        )
    if own is None and not prediction.is_disturbed:
        remember_prediction(ours.path, theirs.path, options, choice.provider, prediction=prediction)
    return report(seen, prediction)
