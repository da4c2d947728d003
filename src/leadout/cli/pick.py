"""`leadout pick`: the best draft for a target among the models on this machine."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated

import typer

from leadout.cli.flags import CHOICE, MODEL, Choice, DraftModelOptions
from leadout.cli.options import Target, takes
from leadout.cli.output import note, print_json, print_table, told
from leadout.errors import ModelFileError, ProviderError
from leadout.models.options import GgufOptions

if TYPE_CHECKING:
    from leadout.advise.pick import Candidate, Picks
    from leadout.advise.verdict import Advice

_INTRODUCTIONS: Mapping[Advice, str] = MappingProxyType(
    {
        "use": "Use it with",
        "lookups": "No draft model is needed",
        "plain": "Decode plainly",
        "cannot": "Decode plainly",
    }
)


@takes(choice=CHOICE.only("provider", "offline"), options=MODEL)
def pick(
    target: Target,
    *,
    folders: Annotated[
        list[str] | None,
        typer.Option(
            "--from",
            metavar="DIR",
            help="Look here, and in the folders inside; may be repeated.",
            show_default="the target's folder, and what leadout, the hub, Ollama, LM Studio, llama.cpp keep",
        ),
    ] = None,
    measure: Annotated[
        int, typer.Option("--measure", metavar="N", min=0, max=20, help="Check the N best, a minute each.")
    ] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")] = False,
    choice: Choice,
    options: GgufOptions,
) -> None:
    """Rank the models on this machine as drafts for a target, with a reason for each that is ruled out.

    Exit codes: 0 a draft model is worth it; 3 none is; 1 and 2 as for every command.
    """
    from leadout.advise.candidates import Place, find, folder_at, usual_places
    from leadout.advise.pick import Picker
    from leadout.cli.advice import NOT_ADVISED, check_pair, file_of
    from leadout.models.free_memory import free_bytes
    from leadout.models.header import read_header
    from leadout.store import StoreSettings, draft_to_fetch

    header = read_header(file_of(target, choice))
    if folders:
        found, notes = find([Place(folder=folder_at(each)) for each in folders])
    else:
        settings = StoreSettings.from_environment()
        beside = Place(folder=header.path.parent, depth=0)
        found, notes = find([*usual_places(settings), beside], settings)
        if other := draft_to_fetch(target, settings):
            notes.append(f"{other} drafts for {target}, but is not here; `leadout pull {other}` fetches it")
    picker = Picker(header, options, free_bytes(), choice.provider)
    picks = picker.pick(found, notes)
    if measure and picks.fit:
        for each in picks.fit[:measure]:
            try:
                check_pair(target, each.facts.path, choice, options, DraftModelOptions(), is_quiet=json)
            except (ModelFileError, ProviderError) as error:
                picker.refuse(each, str(error))
        picks = picker.pick(found, notes)
    if json:
        print_json(picks.to_json(target))
    else:
        _print(picks, target)
    if picks.winner is None:
        raise typer.Exit(NOT_ADVISED)


def _print(picks: Picks, target: str) -> None:
    from rich.table import Table

    if picks.fit:
        rows = [_row(each) for each in picks.fit]
        n_better = sum(each.estimate.speedup > picks.lookups for each in picks.fit)
        basis = picks.fit[0].estimate.basis
        rows.insert(n_better, ("no draft model (lookups)", f"{picks.lookups:.2f}x", basis, "", ""))
        table = Table(box=None, header_style="bold", pad_edge=False)
        for heading in ("draft", "predicted", "basis", "most weights as", "vocabulary"):
            table.add_column(heading)
        for row in rows:
            table.add_row(*row)
        print_table(table)
    for each in picks.ruled_out:
        print(told(f"ruled out: {each.name}: {each.reason}"))
    for text in picks.notes:
        note(text)
    print(told(picks.verdict.sentence))
    print(told(f"{_INTRODUCTIONS[picks.verdict.advice]}: {picks.command(target)}"))


def _row(candidate: Candidate) -> tuple[str, ...]:
    estimate = candidate.estimate
    speedup = f"{estimate.speedup:.2f}x"
    return told(candidate.name), speedup, estimate.basis, candidate.facts.quantisation, candidate.vocabulary
