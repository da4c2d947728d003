"""`leadout pull`: fetch a model, or check one that is here, and say where it lies."""

from __future__ import annotations

from typing import Annotated

import typer

from leadout.cli.output import MB, note, print_json


def pull(
    name: Annotated[
        str,
        typer.Argument(metavar="NAME", help="A catalogue name, hf:user/repo[:quant], ollama:name or a path."),
    ],
    offline: Annotated[
        bool, typer.Option("--offline", help="Make no network call: only check what is here.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Fetch a model and check its hash; resumes where an earlier attempt stopped."""
    from leadout.cli.progress import BarProgress
    from leadout.store import pull as fetch

    found = fetch(name, offline=offline, progress=BarProgress())
    n_bytes = sum(file.stat().st_size for file in found.files)
    if json:
        files = [str(file) for file in found.files]
        print_json(
            {
                "name": found.name,
                "files": files,
                "n_bytes": n_bytes,
                "source": found.source,
                "licence": found.licence,
                "notes": list(found.notes),
            }
        )
        return
    note(f"{found.name}: {n_bytes / MB:.0f} MB" + (f", licence {found.licence}" if found.licence else ""))
    for remark in found.notes:
        note(remark)
    for file in found.files:
        print(file)
