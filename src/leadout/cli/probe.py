"""`leadout probe`: what `leadout.probe` found at a server, as a table or as JSON.

Exit codes: 0 on and unharmed; 3 off; 4 on but useless; 5 not lossless; 6 unknown; 1 and 2 as everywhere.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer

from leadout.cli.options import Flag, Group, takes
from leadout.cli.output import note, print_json, print_table
from leadout.errors import InputError
from leadout.probe.options import ProbeOptions

if TYPE_CHECKING:
    from leadout.probe.report import ProbeReport

KEY_VARIABLE = "LEADOUT_API_KEY"

PROBE = Group(
    kind=ProbeOptions,
    panel="Limits",
    flags=(
        Flag("n_prompts", "Texts continued at temperature 0.", names=("--prompts",), metavar="N"),
        Flag("n_tokens", "Length of each of these answers in tokens.", names=("--tokens",), metavar="N"),
        Flag(
            "n_replays",
            "Tokens asked again one by one where there is no plain side.",
            names=("--replays",),
            metavar="N",
        ),
        Flag("n_draws", "Samples after each of two texts; 0 is none.", names=("--draws",), metavar="N"),
        Flag("long_prompt", "Also try a text of about N tokens; 0 does not.", metavar="N"),
        Flag("draft_model", "For LM Studio: the draft that requests name.", metavar="KEY", unset="none"),
        Flag("timeout_s", "Longest silence of a server in seconds.", names=("--timeout",), metavar="S"),
        Flag("limit_s", "Seconds for the whole probe.", names=("--limit",), metavar="S"),
        Flag("seed", "Drives prompts and tests.", metavar="N", unset="another each time"),
    ),
)


@takes(options=PROBE)
def probe(
    url: Annotated[str, typer.Argument(metavar="URL", help="The server, such as http://127.0.0.1:8000.")],
    *,
    engine: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="vllm, sglang, tensorrt-llm, llama-server, ollama, mlx-lm, lmstudio or leadout.",
            show_default="found out",
        ),
    ] = None,
    plain: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="A server of the same model without speculation, to compare with.",
            show_default="none",
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The model's name there.", show_default="the only one"),
    ] = None,
    api_key_env: Annotated[
        str | None,
        typer.Option(
            metavar="VARIABLE",
            help="The environment variable that holds the API key.",
            show_default=f"{KEY_VARIABLE}, if it is set",
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
    options: ProbeOptions,
) -> None:
    """Find out whether speculation is really on at a server, and whether its output is unharmed."""
    from leadout.cli.progress import StepProgress
    from leadout.probe.probe import probe_server

    with StepProgress(is_quiet=json) as progress:
        report = probe_server(
            url,
            engine=engine,
            plain_url=plain,
            model=model,
            api_key=_key(api_key_env),
            options=options,
            progress=progress.show,
        )
    if json:
        print_json(report.to_json())
    else:
        print_report(report)
    if report.exit_code:
        raise typer.Exit(report.exit_code)


def print_report(report: ProbeReport) -> None:
    """The table, the findings, and the verdict as the last line."""
    from rich.table import Table

    of = " ".join(each for each in (report.engine, report.version) if each)
    note(f"{of} at {report.url}" + (f", model {report.model}" if report.model else ""))
    table = Table(box=None, pad_edge=False)
    for heading in ("part", "result", "evidence"):
        table.add_column(heading)
    for row in report.rows():
        table.add_row(*row)
    print_table(table)
    for each in report.findings:
        remedy = f"; {each.remedy}" if each.remedy else ""
        print(f"{each.level} [{each.name}]: {each.text}{remedy}")
    if report.is_cut:
        print(f"the time limit of {report.options.limit_s:g} s was reached; what is missing was left out")
    print(f"verdict: {report.verdict} [{report.cause}]: {report.explanation}")


def _key(variable: str | None) -> str | None:
    if variable is None:
        return os.environ.get(KEY_VARIABLE) or None
    key = os.environ.get(variable)
    if not key:
        raise InputError(f"the environment variable {variable} is not set; put the API key there")
    return key
