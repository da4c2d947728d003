"""`leadout cache`: what leadout keeps on this machine, and its removal."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from leadout.cli.output import MB, note, print_json, print_table
from leadout.errors import InputError

if TYPE_CHECKING:
    from leadout.store.kept import Kept

cache = typer.Typer(help="List what leadout keeps on this machine, with sizes; `cache rm` removes it.")


@cache.callback(invoke_without_command=True)
def list_kept(
    context: typer.Context,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """List what leadout keeps on this machine, with sizes; `leadout cache rm` removes it."""
    from leadout.store.kept import kept
    from leadout.store.settings import StoreSettings

    if context.invoked_subcommand is not None:
        return
    settings, things = StoreSettings.from_environment(), kept()
    if json:
        rows = [{"name": each.name, "what": each.what, "n_bytes": each.n_bytes} for each in things]
        print_json({"folder": str(settings.cache_dir), "kept": rows})
        return
    print(f"in {settings.cache_dir}:")
    if things:
        _print_table(things)
    else:
        print("nothing")
    print(
        f"Models from the hub lie in {settings.hub_cache} and are not touched; `leadout models` lists them."
    )


@cache.command()
def rm(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME", help="What to remove, as `leadout cache` names it.")
    ] = None,
    *,
    all_of_it: Annotated[bool, typer.Option("--all", help="Remove everything that is listed.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Remove models, copies, settings or what was learned; everything can be fetched or found again."""
    from leadout.store.kept import kept, remove

    if bool(names) == all_of_it:
        raise InputError("name what to remove, as `leadout cache` lists it, or give --all")
    known = {each.name: each for each in kept()}
    unknown = [name for name in names or () if name not in known]
    if unknown:
        raise InputError(f"nothing called {unknown[0]!r} is kept; there is {', '.join(known) or 'nothing'}")
    chosen = list(known.values()) if all_of_it else [known[name] for name in dict.fromkeys(names or ())]
    told = ", ".join(f"{each.name} ({_size(each)})" for each in chosen)
    if not chosen:
        note("nothing is kept")
        return
    if not yes:
        if not sys.stdin.isatty():
            raise InputError(f"this would remove {told}; add --yes, as nobody can be asked here")
        typer.confirm(f"Remove {told}?", abort=True, err=True)
    remove(chosen)
    print(f"removed {told}")


def _print_table(things: list[Kept]) -> None:
    from rich.table import Table

    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("name")
    table.add_column("size", justify="right")
    table.add_column("what")
    for each in things:
        table.add_row(each.name, _size(each), each.what)
    print_table(table)


def _size(thing: Kept) -> str:
    return f"{thing.n_bytes / MB:.1f} MB"
