"""`leadout models`: which models have a name, and which have files on this machine."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Annotated

import typer

from leadout.cli.output import MB, print_json, print_table

if TYPE_CHECKING:
    from leadout.store import ModelRow


def models(
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """List the catalogue, and what the caches of leadout, of the hub and of Ollama hold."""
    from leadout.store import models_overview

    rows = models_overview()
    if json:
        print_json({"models": [dataclasses.asdict(row) for row in rows]})
    else:
        _print_table(rows)


def _print_table(rows: list[ModelRow]) -> None:
    from rich.table import Table

    table = Table(box=None, header_style="bold", pad_edge=False)
    for heading in ("name", "model", "licence", "draft"):
        table.add_column(heading)
    table.add_column("size", justify="right", no_wrap=True)
    table.add_column("here")
    for row in rows:
        here = {"absent": "no", "partial": "partly", "complete": "yes"}[row.state]
        table.add_row(row.name, row.title, row.licence, row.draft, f"{row.n_bytes / MB:.0f} MB", here)
    print_table(table)
    print()
    for row in rows:
        if row.path:
            print(f"{row.name}: {row.path}")
    print("A model is one of these names, a path to a .gguf file, hf:user/repo[:quant] or ollama:name[:tag].")
