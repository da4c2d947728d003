"""From options to an engine: names resolved, files loaded, and one line about what runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leadout.cli.flags import Choice, DraftModelOptions, check_draft_flags
from leadout.cli.output import note
from leadout.models.options import GgufOptions

if TYPE_CHECKING:
    from leadout.engine.engine import Engine


def open_engine(
    target: str, choice: Choice, options: GgufOptions, draft_options: DraftModelOptions
) -> Engine:
    """Load what the options name, with a progress bar where something has to be fetched first.

    Raises
    ------
    LeadoutError
        If a name, a file, an option or the pair of models does not fit; see `leadout.load`.
    """
    from leadout.cli.progress import BarProgress
    from leadout.loading import is_model, load

    has_model = is_model(choice.draft)
    check_draft_flags(choice, draft_options, has_model=has_model)
    if options.exact and choice.draft != "none":
        note(
            "exact mode: which pass widths keep the bits is measured once for a file, which may take a minute"
        )
    return load(
        target,
        choice.draft,
        lookups=choice.lookups,
        options=options,
        draft_options=draft_options.applied_to(options),
        provider=choice.provider,
        draft_provider=choice.provider if has_model else "auto",
        bridge=choice.bridge,
        schedule=None if choice.draft == "none" else choice.make_schedule(),
        longest=choice.longest if choice.schedule == "auto" else None,
        exact=options.exact,
        offline=choice.offline,
        progress=BarProgress(),
    )


def announce(engine: Engine) -> None:
    """Say what runs, and whether it speculates."""
    info = engine.target.info
    reason = engine.speculation.reason
    note(f"{info.name} through {info.provider} ({info.provider_reason}); speculation {reason}")
    for each in engine.notes:
        note(each)
