"""`leadout check`: whether a draft model is worth it for a target, measured on short samples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from leadout.cli.flags import CHOICE, DRAFT_MODEL, MODEL, Choice, DraftModelOptions
from leadout.cli.options import Target, takes
from leadout.cli.output import note, print_json, print_table, told
from leadout.models.options import GgufOptions

if TYPE_CHECKING:
    from leadout.advise.check import CheckReport

Draft = Annotated[str, typer.Argument(metavar="DRAFT", help="A draft model, by name or path.")]


@takes(choice=CHOICE.only("provider", "offline"), options=MODEL, draft_options=DRAFT_MODEL)
def check(
    target: Target,
    draft: Draft,
    *,
    again: Annotated[
        bool, typer.Option("--again", help="Measure anew, whatever is remembered of this pair.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")] = False,
    choice: Choice,
    options: GgufOptions,
    draft_options: DraftModelOptions,
) -> None:
    """Check vocabularies, memory and speed of a pair, and say in one sentence whether to use it.

    Measuring takes about a minute the first time, on a machine that does nothing else; results are
    remembered by files and machine. Exit codes: 0 use it; 3 do not; 1 and 2 as for every command.
    """
    from leadout.cli.advice import NOT_ADVISED, check_pair

    report = check_pair(target, draft, choice, options, draft_options, again=again, is_quiet=json)
    if json:
        print_json(report.to_json())
    else:
        _print(report)
    if report.verdict.advice != "use":
        raise typer.Exit(NOT_ADVISED)


def _print(report: CheckReport) -> None:
    from rich.table import Table

    seen, prediction = report.preview, report.prediction
    print(told(f"vocabulary: {seen.vocabulary.text}"))
    print(f"memory: {seen.memory.explain()}")
    for each in seen.notes:
        print(told(each))
    if prediction is not None:
        table = Table(box=None, header_style="bold", pad_edge=False)
        table.add_column("kind")
        for heading in ("with the draft", "lookups alone", "draft's tokens right"):
            table.add_column(heading, justify="right", no_wrap=True)
        for kind in prediction.kinds:
            right = "" if kind.agreement is None else f"{kind.agreement:.0%}"
            table.add_row(kind.kind.replace("_", " "), str(kind.speedup), str(kind.lookups), right)
        overall = "" if prediction.agreement is None else f"{prediction.agreement:.0%}"
        table.add_row("all", str(prediction.speedup), str(prediction.lookups), overall)
        print_table(table)
        target_ms, draft_ms = 1000 * prediction.target_s, 1000 * prediction.draft_s
        print(
            f"a plain round takes {target_ms:.1f} ms, a token drafted by {prediction.draft} {draft_ms:.1f} ms"
        )
    if report.warning:
        note(report.warning)
    print(told(report.verdict.sentence))
