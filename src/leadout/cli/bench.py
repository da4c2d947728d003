"""`leadout bench`: leadout against plain decoding and other engines, on this machine with these files."""

from __future__ import annotations

import json as json_format
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated, cast

import typer

from leadout.bench.options import BenchOptions
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
from leadout.cli.output import note, print_json, table_console
from leadout.models.options import GgufOptions

if TYPE_CHECKING:
    from leadout.bench.bench import Benchmark
    from leadout.loading import LoadedModels

BENCH = Group(
    kind=BenchOptions,
    panel="Benchmark",
    flags=(
        Flag(
            "vs",
            "Contenders: plain, ngram:K, fixed:K, step:K (K tokens a round), auto, each with @ik or "
            "@llama if need be; llama-cpp-python, llama-server, transformers, openvino, each with "
            ":plain, :lookup or :draft.",
            metavar="LIST",
        ),
        Flag("workloads", "chat, code, edit, extraction, maths, long_document, agent.", metavar="LIST"),
        Flag("n_prompts", "Prompts per workload.", names=("--prompts",), metavar="N", unset="all"),
        Flag("n_calls", "Calls of the agent loop.", names=("--calls",), metavar="N", unset="all"),
        Flag("repeats", "Times that everything is answered.", metavar="N"),
        Flag("max_tokens", "Longest answer in tokens.", metavar="N"),
        Flag("temperature", "Randomness; 0 always takes the most probable token.", metavar="T"),
        Flag("seed", "Of every request.", metavar="N", unset="none"),
        Flag("llama_server", "The llama-server program.", metavar="FILE", unset="on PATH"),
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
            metavar="none|ngram|MODEL", help="What drafts: ngram, or the name or path of a draft model."
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
    from leadout.bench.record import write_record
    from leadout.cli.progress import BarProgress, StepProgress
    from leadout.loading import is_model, load_models

    has_model = is_model(draft)
    check_draft_flags(replace(choice, draft=draft), draft_options, has_model=has_model)

    def load(provider: str) -> LoadedModels:
        taken = cast("ProviderChoice", provider or choice.provider)
        return load_models(
            target,
            draft,
            options=options,
            draft_options=draft_options.applied_to(options),
            provider=taken,
            draft_provider=taken if has_model else "auto",
            offline=choice.offline,
            progress=BarProgress(),
        )

    with StepProgress(is_quiet=json) as progress:
        done = measure(load, bench_options, options, draft=draft, progress=progress.show)
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
    write_record(bench_options.out, "bench", arguments, done.to_json("plain"))
    record = json_format.loads(bench_options.out.read_text(encoding="utf-8"))
    if json:
        print_json(record)
    else:
        _print(done)
    for text in done.notes:
        note(text)
    if bench_options.picture is not None:
        _draw(record, bench_options)
    note(f"every answer's figures are in {bench_options.out}")


def _print(done: Benchmark) -> None:
    from leadout.bench.report import verify_ms_by_width
    from leadout.bench.table import figures_table, widths_table

    console = table_console()
    console.print(figures_table(done.figures))
    console.print()
    console.print(widths_table(verify_ms_by_width(done.run)))


def _draw(record: dict[str, object], options: BenchOptions) -> None:
    from leadout.bench.picture import HAS_MATPLOTLIB, NEEDS_MATPLOTLIB, draw

    if options.picture is None or not HAS_MATPLOTLIB:
        note(NEEDS_MATPLOTLIB)
        return
    draw(record, options.picture)
