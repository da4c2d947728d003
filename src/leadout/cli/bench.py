"""`leadout bench`: leadout against plain decoding and other engines, on this machine with these files."""

from __future__ import annotations

import json as json_format
from dataclasses import asdict, replace
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Annotated, cast

import typer

from leadout.bench.options import BenchOptions
from leadout.bench.quantised import BITS_PER_WEIGHT
from leadout.cli.flags import (
    CHOICE,
    DRAFT_MODEL,
    MODEL,
    Choice,
    DraftModelOptions,
    ProviderChoice,
    check_draft_flags,
)
from leadout.cli.options import Flag, Group, Target, takes
from leadout.cli.output import note, print_json, print_table
from leadout.errors import InputError
from leadout.models.options import GgufOptions

if TYPE_CHECKING:
    from leadout.bench.bench import Benchmark
    from leadout.loading import LoadedModels

QUANTS = ", ".join(BITS_PER_WEIGHT)

BENCH = Group(
    kind=BenchOptions,
    panel="Benchmark",
    flags=(
        Flag(
            "vs",
            "Contenders: auto (what leadout does by itself), plain, ngram:K, fixed:K, step:K (K tokens a "
            "round), each with @ik or @llama if need be; llama-cpp-python, llama-server, transformers, "
            "openvino, each with :plain, :lookup or :draft, else the best that it can do.",
            metavar="LIST",
        ),
        Flag(
            "workloads",
            "chat, code, edit, extraction, maths, long_document, agent; chat:3 takes three prompts of it.",
            metavar="LIST",
        ),
        Flag("n_prompts", "Prompts per workload.", names=("--prompts",), metavar="N", unset="all"),
        Flag("n_calls", "Calls of the agent loop.", names=("--calls",), metavar="N", unset="all"),
        Flag("repeats", "Times that everything is answered.", metavar="N"),
        Flag("max_tokens", "Longest answer in tokens.", metavar="N"),
        Flag("temperature", "Randomness; 0 always takes the most probable token.", metavar="T"),
        Flag("seed", "Of every request.", metavar="N", unset="none"),
        Flag("llama_server", "The llama-server program.", metavar="FILE", unset="on PATH"),
        Flag(
            "peer_python",
            "A Python for the other engines that this one does not have; it needs leadout's packages, too.",
            metavar="FILE",
            unset="none",
        ),
        Flag(
            "quant",
            f"Make the target {QUANTS} first; kept in the cache folder.",
            metavar="KIND",
            unset="as it is",
        ),
        Flag("draft_quant", "The same for the draft model.", metavar="KIND", unset="as it is"),
        Flag(
            "useless_draft",
            "Scramble the draft model's weights first, to see what a bad draft costs.",
            names=("--useless-draft",),
        ),
        Flag("out", "The JSON file that keeps everything.", metavar="FILE"),
        Flag("picture", "Also draw it: .svg, .png or .pdf.", metavar="FILE", unset="none"),
    ),
)


@takes(
    bench_options=BENCH,
    choice=CHOICE.without("draft", "lookups", "k", "schedule"),
    options=MODEL,
    draft_options=DRAFT_MODEL,
)
def bench(
    target: Target,
    *,
    draft: Annotated[
        str,
        typer.Option(
            metavar="none|ngram|MODEL",
            help="What drafts: ngram (lookups alone), or the name or path of a draft model.",
        ),
    ] = "ngram",
    json: Annotated[bool, typer.Option("--json", help="Print the record instead of tables.")] = False,
    bench_options: BenchOptions,
    choice: Choice,
    options: GgufOptions,
    draft_options: DraftModelOptions,
) -> None:
    """Measure the speed of contenders on six kinds of prompts and an agent loop, against plain decoding."""
    from leadout.bench.bench import bench as measure
    from leadout.bench.picture import HAS_MATPLOTLIB, NEEDS_MATPLOTLIB, draw
    from leadout.bench.record import write_record
    from leadout.cli.progress import BarProgress, StepProgress
    from leadout.loading import is_model, load_models

    picture = bench_options.picture if HAS_MATPLOTLIB else None
    _check_writable(bench_options.out)
    if picture is not None:
        _check_writable(picture)
    elif bench_options.picture is not None:
        note(NEEDS_MATPLOTLIB)
    has_model = is_model(draft)
    if not has_model and draft not in ("none", "ngram"):
        raise InputError(
            f"draft is {draft!r}; here it is a draft model (`leadout pick` names what auto would take), or "
            "ngram, with which the contender auto uses all lookups, or none"
        )
    check_draft_flags(replace(choice, draft=draft), draft_options, has_model=has_model)
    target_file, draft_file = _files(
        target, draft, bench_options, offline=choice.offline, has_draft=has_model
    )

    def load(provider: str) -> LoadedModels:
        taken = cast("ProviderChoice", provider or choice.provider)
        return load_models(
            target_file,
            draft_file,
            options=options,
            draft_options=draft_options.applied_to(options),
            provider=taken,
            draft_provider=taken if has_model else "auto",
            bridge=choice.bridge,
            offline=choice.offline,
            progress=BarProgress(),
        )

    arguments: dict[str, object] = {
        "target": target,
        "draft": draft,
        **asdict(bench_options),
        "out": bench_options.out.name,
        "picture": None if bench_options.picture is None else bench_options.picture.name,
        "options": asdict(options),
        "draft_options": asdict(draft_options),
        "provider": choice.provider,
    }
    partial = bench_options.out.with_suffix(".partial.json")

    def keep(so_far: Benchmark) -> None:
        write_record(partial, "bench", arguments, so_far.to_json("plain"))

    with StepProgress(is_quiet=json) as progress:
        done = measure(
            load, bench_options, options, draft=draft, progress=progress.show, keep=keep, tell=note
        )
    out = bench_options.out if done.run.is_complete else partial
    write_record(out, "bench", arguments, done.to_json("plain"))
    if done.run.is_complete:
        partial.unlink(missing_ok=True)
    record = json_format.loads(out.read_text(encoding="utf-8"))
    if json:
        print_json(record)
    else:
        _print(done)
    if picture is not None and done.run.is_complete:
        draw(record, picture)
    for text in done.notes:
        note(text)
    if not done.run.is_complete:
        note(f"what there is of every answer's figures is in {out}")
        raise typer.Abort
    note(f"every answer's figures are in {out}")


def _check_writable(file: Path) -> None:
    """Refuse a file that could not be written in the end; its folder is made.

    Raises
    ------
    InputError
    """
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        TemporaryFile(dir=file.parent).close()
    except OSError as error:
        raise InputError(f"{file} cannot be written: {error}") from error


def _files(
    target: str, draft: str, options: BenchOptions, *, offline: bool, has_draft: bool
) -> tuple[str, str]:
    """The names of target and draft, or paths of what has to be made of them first."""
    from leadout.bench.quantised import quantised
    from leadout.bench.useless import scrambled
    from leadout.cli.progress import BarProgress
    from leadout.store import resolve

    about_draft = BENCH.only("draft_quant", "useless_draft").given(options)
    if about_draft and not has_draft:
        raise InputError(
            f"{', '.join(about_draft)} can only be given with a draft model, but --draft is {draft}"
        )

    def made(name: str, quant: str) -> str:
        if not quant:
            return name
        found = resolve(name, offline=offline, progress=BarProgress())
        return str(quantised(found.path, quant, progress=BarProgress()))

    target, draft = made(target, options.quant), made(draft, options.draft_quant)
    if options.useless_draft:
        found = resolve(draft, offline=offline, progress=BarProgress())
        draft = str(scrambled(found.path, progress=BarProgress()))
    return target, draft


def _print(done: Benchmark) -> None:
    from leadout.bench.table import figures_table, held_out_table, look_back_table, widths_table

    print_table(figures_table(done.figures))
    if done.looks_back:
        print()
        print_table(look_back_table(done.looks_back))
    if done.held_out is not None:
        print()
        print_table(held_out_table(done.held_out))
    print()
    print_table(widths_table({name or "run": each.verify_ms for name, each in done.costs.items()}))
