"""`leadout serve`: models over HTTP, with the interfaces of OpenAI and Ollama, for many clients at once."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from leadout.cli.engines import announce, open_engine
from leadout.cli.flags import CHOICE, DRAFT_MODEL, MODEL, Choice, DraftModelOptions
from leadout.cli.options import Flag, Group, takes
from leadout.cli.output import note
from leadout.errors import InputError
from leadout.folders import expanded
from leadout.models.options import GgufOptions
from leadout.server.keep_alive import keep_alive_s
from leadout.server.options import ServedGgufOptions, ServerOptions

if TYPE_CHECKING:
    from leadout.cli.served_models import Listed
    from leadout.server.pool import ModelPool

SEVERAL_DRAFTS = ("auto", "suffix", "ngram", "none")
"""What can draft for several targets."""

SERVED_MODEL = Group(
    kind=ServedGgufOptions,
    panel="Model",
    flags=(Flag("n_slots", "Requests that run at once.", names=("--slots",), metavar="N"), *MODEL.flags),
)
SERVER = Group(
    kind=ServerOptions,
    panel="Server",
    flags=(
        Flag("host", "Address to listen at; 0.0.0.0 lets other machines in."),
        Flag("port", "Port; 0 takes a free one.", metavar="N"),
        Flag(
            "cors_origins",
            "Origin whose pages may read answers in a browser; may be repeated; * is all.",
            names=("--cors",),
            metavar="ORIGIN",
            repeated=True,
            parse=tuple,
            unset="none",
        ),
        Flag(
            "allowed_hosts",
            "Name by which clients may call a loopback address, beside localhost; may be repeated.",
            names=("--allowed-host",),
            metavar="NAME",
            repeated=True,
            parse=tuple,
            unset="none",
        ),
        Flag("max_body_mb", "Largest request body in MB.", names=("--max-body",), metavar="MB"),
        Flag("max_queued", "Requests that may wait for a slot.", names=("--queue",), metavar="N"),
        Flag("request_timeout_s", "Seconds a request may take.", names=("--timeout",), metavar="S"),
        Flag("body_timeout_s", "Seconds a body may take to come.", names=("--body-timeout",), metavar="S"),
        Flag("send_timeout_s", "Seconds an answer may lie unread.", names=("--send-timeout",), metavar="S"),
        Flag("grace_s", "Seconds that running requests get at the end.", names=("--grace",), metavar="S"),
        Flag(
            "keep_alive",
            "How long a model stays in memory after its last request, such as 5m; 0 leaves at once, -1 "
            "stays until another one needs its memory.",
            metavar="TIME",
        ),
        Flag("log_format", "How log lines are written."),
        Flag("log_prompts", "Show prompts and answers in the log.", names=("--log-prompts",)),
        Flag("otel", "Export spans where the OTEL_* variables say.", names=("--otel",)),
    ),
)


@takes(server=SERVER, choice=CHOICE, options=SERVED_MODEL, draft_options=DRAFT_MODEL)
def serve(
    targets: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TARGET",
            help="Models to serve: .gguf files, catalogue names, hf:user/repo[:quant] or ollama:name. "
            "Without any, those in the caches of this machine.",
        ),
    ] = None,
    *,
    models: Annotated[
        str | None, typer.Option(metavar="DIR", help="Serve the models in a folder, and in those below it.")
    ] = None,
    name: Annotated[
        str, typer.Option(metavar="NAME", help="What requests call the model.", show_default="its own name")
    ] = "",
    api_key_env: Annotated[
        str | None, typer.Option(metavar="NAME", help="Environment variable that holds an API key.")
    ] = None,
    api_key_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="File with an API key on each line.")
    ] = None,
    server: ServerOptions,
    choice: Choice,
    options: GgufOptions,
    draft_options: DraftModelOptions,
) -> None:
    """Serve models over HTTP, with the interfaces of OpenAI and Ollama.

    One target is loaded at once. Several are loaded when they are asked for, and leave when another one needs
    their memory, or as --keep-alive and requests say.
    """
    try:
        from leadout.cli.served_models import listed
        from leadout.server.run import listen, serve_models, url_of
    except ImportError as error:
        raise InputError(
            f"serving needs more packages ({error.name} is missing); "
            "install them with: pip install 'leadout[serve]'"
        ) from error
    server = replace(server, api_keys=(*_key_of(api_key_env), *_keys_in(api_key_file)))
    is_one = len(targets or ()) == 1 and models is None
    _check_choice(name, choice, is_one=is_one)
    with listen(server) as listening:
        models_there = listed(targets or [], models, offline=choice.offline)
        if name:
            models_there = [replace(each, name=name) for each in models_there]
        pool = _pool(models_there, server, choice, options, draft_options)
        if is_one:
            [served] = pool.recipes
            engine = served.load()
            announce(engine)
            pool.adopt(served.name, engine)
        url = url_of(listening)
        if not server.is_loopback and not server.api_keys:
            note("everybody who can reach this machine can use the model; --api-key-env asks for a key")
        note(f"a page to chat, and to compare with plain decoding, is at {url}/")
        note(f"serving {', '.join(pool.names())} at {url}/v1; Ctrl-C ends it")
        serve_models(pool, listening, server)


def _check_choice(name: str, choice: Choice, *, is_one: bool) -> None:
    """Refuse names that nobody can ask for, and what can be said of one model only."""
    if not name.isprintable() or name != name.strip():
        raise InputError(f"--name {name!r} has a line break, a control character or spaces around it")
    if is_one:
        return
    if name:
        raise InputError(f"--name {name} can only be given with one target, as it names that")
    if choice.draft not in SEVERAL_DRAFTS:
        raise InputError(
            f"--draft {choice.draft} is one draft model, which suits one target; for several, use "
            f"{', '.join(SEVERAL_DRAFTS)}"
        )


def _pool(
    models: Sequence[Listed],
    server: ServerOptions,
    choice: Choice,
    options: GgufOptions,
    draft_options: DraftModelOptions,
) -> ModelPool:
    """What can be loaded, and how."""
    from leadout.server.pool import ModelPool
    from leadout.server.recipes import Recipe, footprint_of

    return ModelPool(
        recipes=[
            Recipe(
                name=each.name,
                load=partial(open_engine, each.target, choice, options, draft_options),
                footprint=partial(footprint_of, each.path, options, choice.provider),
                path=each.path,
            )
            for each in models
        ],
        max_queued=server.max_queued,
        keep_alive_s=keep_alive_s(server.keep_alive),
    )


def _key_of(variable: str | None) -> tuple[str, ...]:
    if variable is None:
        return ()
    key = os.environ.get(variable, "")
    if not key:
        raise InputError(f"--api-key-env names {variable}, which is not set or empty")
    return (key,)


def _keys_in(file: Path | None) -> tuple[str, ...]:
    if file is None:
        return ()
    try:
        lines = expanded(file).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"--api-key-file {file} cannot be read: {error}") from error
    keys = tuple(line.strip() for line in lines if line.strip() and not line.startswith("#"))
    if not keys:
        raise InputError(f"--api-key-file {file} has no key in it")
    return keys
