"""`leadout plan`: memory and speed of a pair before anything is loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from leadout.cli.flags import CHOICE, DRAFT_MODEL, MODEL, Choice, DraftModelOptions
from leadout.cli.options import Flag, Group, Target, takes
from leadout.cli.output import note, print_json, print_table, told
from leadout.errors import InputError
from leadout.models.options import GgufOptions

if TYPE_CHECKING:
    from leadout.advise.plan import MemoryPlan
    from leadout.advise.speed import SpeedPlan

SLOTS = Flag("n_slots", "Independent sequences; each has the whole context.", names=("--slots",), metavar="N")
PLANNED = Group(kind=GgufOptions, panel="Model", flags=(*MODEL.flags, SLOTS))


@takes(choice=CHOICE.only("provider", "offline"), options=PLANNED, draft_options=DRAFT_MODEL)
def plan(
    target: Target,
    *,
    draft: Annotated[
        str | None, typer.Option(metavar="MODEL", help="A draft model, by name or path.", show_default="none")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
    choice: Choice,
    options: GgufOptions,
    draft_options: DraftModelOptions,
) -> None:
    """Say what a target, and a draft model beside it, take of the memory, and how fast they will be.

    Exit codes: 0 it fits into memory; 3 it does not; 1 and 2 as for every command.
    """
    from leadout.advise.pick import Picker
    from leadout.advise.plan import plan_memory
    from leadout.cli.advice import NOT_ADVISED, file_of
    from leadout.models.free_memory import free_bytes
    from leadout.models.header import read_header

    given = DRAFT_MODEL.given(draft_options)
    if given and draft is None:
        raise InputError(
            f"{', '.join(given)} can only be given with a draft model; name one with --draft MODEL"
        )
    ours = read_header(file_of(target, choice))
    theirs = None if draft is None else read_header(file_of(draft, choice))
    free = free_bytes()
    memory = plan_memory(
        ours, theirs, options, draft_options.applied_to(options), free_bytes=free, provider=choice.provider
    )
    speed = Picker(ours, options, free, choice.provider).plan_speed(theirs)
    if json:
        print_json({"memory": memory.to_json(), "sentence": memory.explain(), "speed": speed.to_json()})
    else:
        _print(memory, speed)
    if memory.fit != "fits":
        raise typer.Exit(NOT_ADVISED)


def _print(memory: MemoryPlan, speed: SpeedPlan) -> None:
    from rich.table import Table

    from leadout.advise.plan import shown

    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("")
    for heading in ("weights", "keys and values", "work space", "context", "slots"):
        table.add_column(heading, justify="right", no_wrap=True)
    for each in filter(None, (memory.target, memory.draft)):
        sizes = (shown(each.weight_bytes), shown(each.kv_bytes), shown(each.work_bytes))
        table.add_row(told(each.name), *sizes, f"{each.n_ctx:,}", str(each.n_slots))
    table.add_row("logits to verify", "", "", shown(memory.verify_bytes), "", "")
    print_table(table)
    print(memory.explain())
    print(speed.explain())
    if memory.draft is not None and memory.draft.n_ctx < memory.target.n_ctx:
        note(f"beyond {memory.draft.n_ctx:,} positions the draft stops and lookups go on")
