"""`leadout demo`: a real model on a short task, plainly and with a drafter; same text, both speeds."""

from __future__ import annotations

import shlex
import shutil
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated

import typer

from leadout.cli.engines import announce, open_engine
from leadout.cli.flags import CHOICE, MODEL, Choice, DraftModelOptions
from leadout.cli.options import Flag, Group, takes
from leadout.cli.output import note, print_json, print_table
from leadout.engine.params import Params
from leadout.errors import InputError
from leadout.models.options import GgufOptions

if TYPE_CHECKING:
    from leadout.engine.engine import Engine
    from leadout.engine.result import Result

SINGLE = "smollm2-135m"
REPEAT_A_TEXT = """\
Repeat this text word for word:

The lighthouse stands on the northern cliff. Every evening the keeper climbs the stairs of the lighthouse \
and lights the lamp. Every morning the keeper climbs the stairs of the lighthouse and puts out the lamp."""
WRITE_CODE = (
    "Write a Python function that returns the n-th Fibonacci number, with a docstring, and a test for it."
)
TIME_LIMIT_S = 60.0
"""On a slow machine no further runs begin after this; there is always one of each kind."""

FAILED = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoOptions:
    """How much the demonstration runs. It always drafts k tokens, to show what that brings or costs."""

    max_tokens: int = 64
    repeats: int = 3
    k: int = 3

    def __post_init__(self) -> None:
        if not 1 <= self.repeats <= 100:
            raise InputError(f"repeats is {self.repeats}; it must be a whole number in 1..100")


OPTIONS = Group(
    kind=DemoOptions,
    panel="Demonstration",
    flags=(
        Flag("max_tokens", "Length of the answer in tokens.", metavar="N"),
        Flag("repeats", "Timed runs of each kind; plain and drafted ones alternate.", metavar="N"),
        Flag("k", "Tokens to draft in a round.", names=("-k",), metavar="N"),
    ),
)


@takes(
    demo_options=OPTIONS,
    choice=CHOICE.without("draft", "lookups", "k", "schedule"),
    options=MODEL.without("exact"),
)
def demo(
    *,
    pair: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help=f"A target with its draft model instead of {SINGLE} with n-gram lookup."
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    demo_options: DemoOptions,
    choice: Choice,
    options: GgufOptions,
) -> None:
    """Answer a short task with a small model, plainly and with a drafter: same text, both speeds."""
    target, draft, task = (SINGLE, "ngram", REPEAT_A_TEXT) if pair is None else (*find_pair(pair), WRITE_CODE)
    # No lookups beside a draft model: the runs repeat one answer, which they would simply remember.
    choice = replace(choice, draft=draft, lookups=False, k=demo_options.k, schedule="fixed")
    with open_engine(target, choice, options, DraftModelOptions()) as engine:
        comparison = compare(engine, task, demo_options, shows_answer=not json)
    if json:
        print_json(comparison.to_json())
    else:
        _print(comparison)
        print(f"next: {own_command()} chat {target} --draft auto")
    if not comparison.is_identical:
        raise typer.Exit(FAILED)


def find_pair(name: str) -> tuple[str, str]:
    """Target and draft model of a pair in the catalogue.

    Parameters
    ----------
    name : str
        The target's name, or its family's: what stands before the size.

    Raises
    ------
    InputError
        If there is no such pair; names those that there are.
    """
    from leadout.store import catalogue_entries

    pairs = {entry.name: entry.draft for entry in catalogue_entries() if entry.draft}
    for target, draft in pairs.items():
        if name.lower() in (target, target.rpartition("-")[0]):
            return target, draft
    known = ", ".join(target.rpartition("-")[0] for target in pairs)
    raise InputError(f"pair {name!r} is not in the catalogue; there is {known}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Timed runs of the same request, warm: `plain` and `drafted` alternated."""

    plain: Sequence[Result]
    drafted: Sequence[Result]

    @property
    def is_identical(self) -> bool:
        """True when every run gave the same ids."""
        return len({result.ids for result in (*self.plain, *self.drafted)}) == 1

    @property
    def speedup(self) -> float | None:
        """Median speed with a drafter over median speed without."""
        plain, drafted = speed(self.plain), speed(self.drafted)
        return drafted / plain if plain and drafted else None

    def to_json(self) -> dict[str, object]:
        """Plain values for JSON."""
        kinds = {"plain": self.plain, "drafted": self.drafted}
        return {
            "identical": self.is_identical,
            "speedup": self.speedup,
            **{f"{kind}_tokens_per_second": speed(results) for kind, results in kinds.items()},
            **{kind: [result.to_json() for result in results] for kind, results in kinds.items()},
        }


def speed(results: Sequence[Result]) -> float | None:
    """Median tokens per second, or None when no answer was long enough to tell."""
    speeds = [result.usage.tokens_per_second for result in results]
    return statistics.median(each for each in speeds if each is not None) if None not in speeds else None


def compare(engine: Engine, task: str, options: DemoOptions, *, shows_answer: bool) -> Comparison:
    """Run the task once of each kind to warm up, then alternate."""
    from leadout.cli.answering import follow, show_nothing
    from leadout.cli.render import AnswerPrinter, print_legend

    drafting = Params(temperature=0.0, max_tokens=options.max_tokens)
    plainly = Params(temperature=0.0, max_tokens=options.max_tokens, speculate=False)
    messages = [{"role": "user", "content": task}]

    def answer(params: Params, printer: AnswerPrinter | None = None) -> Result:
        events = engine.stream_chat(messages, params)
        results, is_stopped = follow(engine, events, params, printer.show if printer else show_nothing)
        if is_stopped:
            raise KeyboardInterrupt
        return results[0]

    if shows_answer:
        announce(engine)
        printer = AnswerPrinter(sys.stdout, show_drafts=True)
        note(f"\n{task}\n")
        result = answer(drafting, printer)
        printer.close()
        print_legend(sys.stdout, [result])
        note(f"\ntiming up to {options.repeats} runs of each kind ...")
    else:
        answer(drafting)
    answer(plainly)
    started = perf_counter()
    runs: list[tuple[Result, Result]] = []
    while len(runs) < options.repeats and perf_counter() - started < TIME_LIMIT_S:
        runs.append((answer(plainly), answer(drafting)))
    return Comparison(plain=[plain for plain, _ in runs], drafted=[drafted for _, drafted in runs])


def _print(comparison: Comparison) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for heading in ("", "tok/s", "tokens per target pass", "acceptance"):
        table.add_column(heading, justify="left" if not heading else "right")
    for name, results in (("plain", comparison.plain), (_drafter(comparison), comparison.drafted)):
        usage, median = results[0].usage, speed(results)
        table.add_row(
            name,
            "-" if median is None else f"{median:.1f}",
            "-" if usage.tokens_per_pass is None else f"{usage.tokens_per_pass:.2f}",
            "-" if usage.acceptance is None else f"{usage.acceptance:.0%}",
        )
    print_table(table)
    print(_verdict(comparison))
    print(f"identical: {'yes' if comparison.is_identical else 'no'}")


def own_command() -> str:
    """How to start this program again from here: by its name where the shell finds it, else by its path."""
    started = Path(sys.argv[0])
    if started.name == "__main__.py":
        return f"{shlex.quote(sys.executable)} -m leadout"
    found = shutil.which(started.name)
    is_found = found is not None and started.exists() and started.samefile(found)
    return started.name if is_found else shlex.quote(str(started))


def _drafter(comparison: Comparison) -> str:
    return f"with {comparison.drafted[0].speculation.drafter}"


def _verdict(comparison: Comparison) -> str:
    speculation, speedup = comparison.drafted[0].speculation, comparison.speedup
    if not any(result.usage.drafted for result in comparison.drafted):
        return f"Nothing was drafted: speculation {speculation.reason}."
    if speedup is None:
        return "The answer was too short to time."
    times = f"{speedup:.2f} times the speed of plain decoding, for this task on this machine"
    if speedup < 1:
        return f"Slower here: {times}; drafts cost more than they save on this task and machine."
    return f"{times}. Other tasks gain less, or nothing." if speculation.drafter == "ngram" else f"{times}."
