"""The standard set: `python -m leadout.bench.standard`, which is what `make bench` runs.

Each run is a `leadout bench` of its own, written to `benchmarks/NAME.json`. A run that is there already, with
the same command and commit, is not measured again, so the set goes on where it was interrupted. At the end
every bar is printed, and `docs/benchmarks.md` is made anew.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from time import monotonic
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from leadout.bench.bars import Bars, check
from leadout.bench.record import commit
from leadout.errors import InputError

FOLDER = Path("benchmarks")
QUICK_FOLDER = Path("benchmarks/quick")
ON = "True"  # an option without a value


@dataclass(frozen=True, slots=True, kw_only=True)
class StandardRun:
    """One run of the set.

    Parameters
    ----------
    name, title : str
        Of its files, and for reports.
    target, draft : str
        As for `leadout bench`.
    options : mapping of str to str
        Further options of `leadout bench`, without their dashes; "True" for those that take no value.
    bars : Bars
        What it has to show.
    is_extra : bool
        Measured only when it is named.
    """

    name: str
    title: str
    target: str
    draft: str
    options: Mapping[str, str]
    bars: Bars
    is_extra: bool = False

    def arguments(self, folder: Path, *, more: Mapping[str, str] | None = None) -> list[str]:
        """What `leadout` is called with; `more` are options that depend on the machine."""
        given = {**self.options, **(more or {})}
        given |= {"out": str(folder / f"{self.name}.json"), "picture": str(folder / f"{self.name}.svg")}
        flat = [
            part
            for name, value in given.items()
            if value
            for part in ((f"--{name}",) if value == ON else (f"--{name}", value))
        ]
        return ["bench", self.target, "--draft", self.draft, *flat]


def read_set(*, quick: bool = False) -> tuple[StandardRun, ...]:
    """The runs as they are written down; `quick` is a part of them, shortened."""
    text = files("leadout.bench").joinpath("standard.toml").read_text(encoding="utf-8")
    return parse_set(tomllib.loads(text), quick=quick)


def parse_set(given: Mapping[str, Any], *, quick: bool = False) -> tuple[StandardRun, ...]:
    """The runs of a set that was read; every run takes what it does not say from the set."""
    short = given["quick"] if quick else {}
    common = {key: value for key, value in given.items() if key not in ("runs", "quick")}
    wanted = short.get("runs", [each["name"] for each in given["runs"]])
    limits = {key: value for key, value in short.items() if key != "runs"}
    runs = []
    for each in given["runs"]:
        if each["name"] not in wanted:
            continue
        merged = {**common, **limits, **each}
        options = {
            key.replace("_", "-"): str(value)
            for key, value in merged.items()
            if key not in ("name", "title", "target", "draft", "bars", "extra")
        }
        runs.append(
            StandardRun(
                name=each["name"],
                title=each["title"],
                target=merged["target"],
                draft=merged["draft"],
                options=options,
                bars=Bars.of(each.get("bars", {})),
                is_extra=each.get("extra", False),
            )
        )
    return tuple(runs)


def is_done(file: Path, arguments: list[str], now: str | None) -> bool:
    """Whether the record of exactly this call, by this commit, is there and complete."""
    try:
        record = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    is_same = record.get("command", [])[1:] == arguments and now is not None and record.get("commit") == now
    return bool(is_same and record.get("figures", {}).get("complete"))


def run_to_its_end(command: list[str]) -> int:
    """The exit code of a command; Ctrl-C reaches it too, and it is given the time to keep what it has."""
    process = subprocess.Popen(command)
    while True:
        try:
            return process.wait()
        except KeyboardInterrupt:
            continue


def bars_table(runs: tuple[StandardRun, ...], folder: Path) -> Table:
    """Every bar of every run that is there."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("run", "bar"):
        table.add_column(heading)
    for heading in ("wanted", "found", ""):
        table.add_column(heading, justify="right")
    for run in runs:
        file = folder / f"{run.name}.json"
        if not file.is_file():
            table.add_row(run.name, "not measured", "", "", "")
            continue
        for each in check(run.bars, json.loads(file.read_text(encoding="utf-8"))["figures"]):
            found = "-" if each.found is None else f"{each.found:.2f}"
            table.add_row(run.name, each.what, f"{each.wanted:.2f}", found, each.verdict)
    return table


def main(  # noqa: PLR0917
    quick: Annotated[bool, typer.Option("--quick", help="A part of it, in minutes.")] = False,
    only: Annotated[str, typer.Option(help="Names of runs with commas between them; else all.")] = "",
    fresh: Annotated[bool, typer.Option("--fresh", help="Measure again what is there already.")] = False,
    bars: Annotated[bool, typer.Option("--bars", help="Measure nothing; check what is there.")] = False,
    llama_server: Annotated[str, typer.Option(help="The llama-server program; else on PATH.")] = "",
    peer_python: Annotated[str, typer.Option(help="A Python that has the other engines.")] = "",
) -> None:
    """Measure the standard set, print its bars, and make docs/benchmarks.md."""
    from leadout.bench.page import write_page

    folder, runs = QUICK_FOLDER if quick else FOLDER, read_set(quick=quick)
    named = [part.strip() for part in only.split(",") if part.strip()]
    chosen = named or [run.name for run in runs if not run.is_extra]
    unknown = [name for name in chosen if name not in {run.name for run in runs}]
    if unknown:
        raise InputError(f"there is no run {unknown[0]!r}; there are {', '.join(run.name for run in runs)}")
    now = commit()
    for run in runs if not bars else ():
        arguments = run.arguments(folder, more={"llama-server": llama_server, "peer-python": peer_python})
        if run.name not in chosen:
            continue
        if not fresh and is_done(folder / f"{run.name}.json", arguments, now):
            print(f"{run.name}: measured already")
            continue
        print(f"\n{run.name}: leadout {' '.join(arguments)}", flush=True)
        started = monotonic()
        code = run_to_its_end([sys.executable, "-m", "leadout", *arguments])
        if code:
            raise typer.Exit(code)
        print(f"{run.name}: {(monotonic() - started) / 60:.1f} minutes", flush=True)
    Console(width=140, highlight=False, markup=False).print(bars_table(runs, folder))
    if not quick:
        write_page()


if __name__ == "__main__":
    typer.run(main)
