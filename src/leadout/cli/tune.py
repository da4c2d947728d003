"""`leadout tune`: finds the fastest way to run these files here, prints what was measured, and keeps it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from leadout.cli.flags import MODEL
from leadout.cli.options import Target, takes
from leadout.cli.output import note, print_json, print_table
from leadout.folders import cache_folder
from leadout.models.options import GgufOptions

if TYPE_CHECKING:
    from rich.table import Table

    from leadout.advise.tune import TuneReport

_WIDTHS = (1, 2, 4, 8, 16)


@takes(options=MODEL.without("exact", "n_threads", "n_gpu_layers", "kv_type_k", "kv_type_v"))
def tune(
    target: Target,
    *,
    draft: Annotated[
        str, typer.Option(metavar="none|MODEL", help="A draft model to tune beside it, by name or path.")
    ] = "none",
    threads: Annotated[
        list[int] | None,
        typer.Option(
            min=1, metavar="N", help="A thread count to try; may be repeated.", show_default="by cores"
        ),
    ] = None,
    offline: Annotated[
        bool, typer.Option("--offline", help="Make no network call; use what is on this machine.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")] = False,
    options: GgufOptions,
) -> None:
    """Try libraries, threads and cache formats on these files; what is fastest is used from then on."""
    from leadout.cli.progress import BarProgress, StepProgress
    from leadout.cli.tune_files import tune_files

    with StepProgress(is_quiet=json) as progress:
        report = tune_files(
            target,
            draft,
            options=options,
            threads=threads or (),
            offline=offline,
            progress=BarProgress(),
            show=progress.show,
        )
    if json:
        print_json(report.to_json())
    else:
        _print(report)


def _print(report: TuneReport) -> None:
    for table in (_targets(report), _drafts(report), _pairs(report)):
        if table.row_count:
            print_table(table)
    for failure in report.failures:
        note(f"left out: {failure}")
    if report.warning:
        print(f"fastest: {report.choice.reason}")
        note(report.warning)
        return
    print(f"chosen: {report.choice.reason}")
    print(f"kept in {cache_folder() / 'tuned'} and used from now on; undone by: leadout cache rm tuned")


def _targets(report: TuneReport) -> Table:
    table = _table("target", "context", "tokens/s", *(f"{width} wide, ms" for width in _WIDTHS))
    chosen = report.choice.target
    for trial in (*report.targets, *report.caches):
        is_chosen = (trial.way.provider, trial.way.n_threads) == (chosen.provider, chosen.n_threads)
        mark = " *" if is_chosen and trial in report.targets else ""
        for context, costs in trial.costs.items():
            known = dict(costs.widths)
            times = (f"{1e3 * known[width]:.1f}" if width in known else "" for width in _WIDTHS)
            table.add_row(f"{trial.way}{mark}", str(context), f"{1 / costs.verify_s(1):.1f}", *times)
    return table


def _drafts(report: TuneReport) -> Table:
    table = _table("draft", "ms/token", "ms/read token", "acceptance", "k", "tokens/s, predicted")
    costs = next(each for each in report.targets if each.way.provider == report.choice.target.provider).short
    for trial in report.drafts:
        k, speed = trial.best(costs)
        table.add_row(
            str(trial.way), f"{1e3 * trial.draft_s:.1f}", f"{1e3 * trial.read_s:.1f}",
            f"{trial.acceptance:.2f} of {len(trial.agreements)}", str(k), f"{speed:.1f}",
        )  # fmt: skip
    return table


def _pairs(report: TuneReport) -> Table:
    table = _table("target", "draft", "k", "round, ms", "by the passes alone", "rounds", "tokens/s")
    for pair in report.pairs:
        table.add_row(
            str(pair.target), str(pair.draft), str(pair.k), f"{1e3 * pair.round_s:.1f}",
            f"{1e3 * pair.predicted_s:.1f}", str(pair.n_rounds), f"{pair.tokens_per_s:.1f}",
        )  # fmt: skip
    return table


def _table(*headings: str) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for heading in headings:
        table.add_column(heading)
    return table
