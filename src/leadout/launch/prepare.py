"""From what the user asked to a set-up: asks the engine, refuses old forms, compares vocabularies, plans."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from leadout.errors import InputError, ProviderError
from leadout.launch.capabilities import Capabilities, assumed, probe
from leadout.launch.combinations import find_useless
from leadout.launch.engine import DefaultK, Engine
from leadout.launch.engines import find_engine
from leadout.launch.locate import Located, locate
from leadout.launch.old_forms import find_old_forms
from leadout.launch.old_forms_table import table_of
from leadout.launch.plan import DraftKind, Plan, Serving
from leadout.launch.setup import Setup
from leadout.launch.versions import version_of
from leadout.launch.vocabularies import compare
from leadout.store import Progress


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is asked for.

    Parameters
    ----------
    engine, target : str
        Names, as the user writes them.
    draft : str
        "none", "ngram", "suffix", or a draft model.
    k : int or None
        Tokens to draft in a round; None takes the engine's default.
    serving : Serving
    extra : tuple of str
        Arguments for the engine.
    program : str
        Path of the engine's program, or of its Python; "" looks on PATH.
    release : str
        Set up for this version without asking what is installed; "" asks.
    must_run : bool
        False where the commands are only shown or saved: the engine need not be installed.
    offline : bool
        Make no network call.
    """

    engine: str
    target: str
    draft: str = "none"
    k: int | None = None
    serving: Serving = field(default_factory=Serving)
    extra: tuple[str, ...] = ()
    program: str = ""
    release: str = ""
    must_run: bool = True
    offline: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A set-up and what it was made of."""

    engine: Engine
    plan: Plan
    capabilities: Capabilities
    setup: Setup


def prepare(
    request: Request,
    environment: Mapping[str, str],
    *,
    known_length: Callable[[Path, Path], DefaultK | None] | None = None,
    progress: Progress | None = None,
) -> Prepared:
    """Set an engine up.

    Parameters
    ----------
    request : Request
    environment : mapping
        Variables that the engine will inherit; old forms are looked for in them.
    known_length : callable or None
        What is known of how much to draft with these two files; asked where nobody says.
    progress : Progress or None
        Told of downloads.

    Raises
    ------
    InputError
        If the engine is unknown, cannot do what is asked, or is asked in a form it no longer has.
    ProviderError
        If the engine is not installed and must run.
    StoreError, ModelFileError
        If a model cannot be found, or is damaged.
    """
    engine = find_engine(request.engine)
    kind = draft_kind(request.draft)
    default = None if kind == "none" else engine.default_k(kind)
    if kind == "none" and request.k is not None:
        raise InputError("-k can only be given with drafts, but --draft is none; name what drafts")
    capabilities = ask(engine, request)
    remarks = _check_forms(engine, capabilities, request.extra, environment)
    target = locate(request.target, engine, offline=request.offline, progress=progress)
    draft: Located | None = None
    if kind == "model":
        draft = locate(request.draft, engine, offline=request.offline, progress=progress)
    if request.k is None and known_length and draft and draft.path and target.path:
        default = known_length(target.path, draft.path) or default
    why = "" if default is None else default.why
    plan = Plan(
        target=target.model,
        kind=kind,
        draft=None if draft is None else draft.model,
        k=request.k if request.k is not None or default is None else default.k,
        why_k="as asked" if request.k is not None else why,
        vocabulary=None if draft is None else compare(target.path, draft.path),
        serving=replace(request.serving, port=request.serving.port or engine.port),
        extra=request.extra,
    )
    setup = engine.set_up(plan, capabilities)
    setup = replace(setup, warnings=(*setup.warnings, *remarks, *_of_assumption(engine, capabilities)))
    return Prepared(engine=engine, plan=plan, capabilities=capabilities, setup=setup)


def draft_kind(draft: str) -> DraftKind:
    """What kind of draft a user's word is.

    Raises
    ------
    InputError
        If it is "auto", which only leadout's own engine has, or empty.
    """
    match draft:
        case "none" | "ngram" | "suffix":
            return draft
        case "auto":
            raise InputError(
                "--draft auto is leadout's own engine's; an engine needs one of: a draft model's name "
                "or path, "
                "ngram, suffix, none"
            )
        case "":
            raise InputError("--draft is empty; give a draft model's name or path, ngram, suffix or none")
        case _:
            return "model"


def ask(engine: Engine, request: Request) -> Capabilities:
    """What the installed engine can do, or the version to set up for.

    Raises
    ------
    InputError
        If `release` is no version, or is given where the engine must run.
    ProviderError
        If it is not installed and must run, or a program was named that does not work.
    """
    if request.release:
        if request.must_run:
            raise InputError("--for-version sets up for another machine; give it with --dry-run or --write")
        if not version_of(request.release):
            raise InputError(f"--for-version is {request.release!r}; it must be a version, such as 0.33.0")
        return replace(assumed(engine.installation), release=request.release)
    try:
        return probe(engine.installation, request.program)
    except ProviderError:
        if request.must_run or request.program:
            raise
        return assumed(engine.installation)


def _of_assumption(engine: Engine, capabilities: Capabilities) -> tuple[str, ...]:
    if not capabilities.is_assumed:
        return ()
    return (
        f"written for {engine.title} {capabilities.release} without asking an installed one; "
        "other versions may want other flags",
    )


def _check_forms(
    engine: Engine, capabilities: Capabilities, extra: tuple[str, ...], environment: Mapping[str, str]
) -> list[str]:
    """Refuse old forms that matter; the others come back as warnings."""
    found = find_old_forms(table_of(engine.name), capabilities, extra, environment)
    fatal = [each.message for each in found if each.form.is_fatal]
    fatal += find_useless(engine.name, capabilities, extra)
    if fatal:
        raise InputError(
            f"{engine.title} {capabilities.release} would not do what is meant: {' | '.join(fatal)}"
        )
    return [each.message for each in found]
