"""`leadout launch`: set an existing engine up so that it speculates, and start it.

Exit codes: the engine's own once it serves; 1 when it failed before that; 2 for a mistake in what was asked
for, an engine that is not installed or a port in use included; 130 stopped with Ctrl-C. With --probe the
engine ends after it, and the code is that of `leadout probe`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from leadout.cli.options import Flag, Group, takes
from leadout.cli.output import note, print_json
from leadout.errors import InputError
from leadout.launch.execute import READY_S
from leadout.launch.plan import Serving

if TYPE_CHECKING:
    from leadout.launch.prepare import Prepared

SERVING = Group(
    kind=Serving,
    panel="Serving",
    flags=(
        Flag("host", "Where it listens; 0.0.0.0 lets other machines in.", metavar="HOST"),
        Flag("port", "Port it listens on.", metavar="N", unset="the engine's usual one"),
        Flag("n_ctx", "Context of a request in tokens.", names=("--ctx",), metavar="N", unset="the engine's"),
        Flag(
            "n_parallel", "Most requests at once.", names=("--parallel",), metavar="N", unset="the engine's"
        ),
        Flag(
            "n_gpus",
            "GPUs of each machine; 0 is CPU only.",
            names=("--gpus",),
            metavar="N",
            unset="as the engine finds",
        ),
        Flag(
            "tensor_parallel",
            "Ways that each layer is split.",
            metavar="N",
            unset="the GPUs of one machine",
        ),
        Flag("pipeline_parallel", "Groups of layers.", metavar="N", unset="the machines"),
        Flag("n_nodes", "Machines.", names=("--nodes",), metavar="N"),
        Flag("node_rank", "Which of them this is; 0 answers requests.", metavar="N"),
        Flag("head", "Address of machine 0, as the others reach it.", metavar="HOST", unset="none"),
        Flag(
            "executor", "How vLLM reaches its workers: its own processes, or a Ray cluster.", metavar="mp|ray"
        ),
    ),
)


@takes(serving=SERVING)
def launch(
    engine: Annotated[
        str,
        typer.Argument(
            metavar="ENGINE",
            help="vllm, sglang, tensorrt-llm, llama-server, ollama, mlx-lm or lmstudio.",
        ),
    ],
    target: Annotated[
        str,
        typer.Argument(
            metavar="TARGET",
            help="What the engine takes: a .gguf file, a model folder, a hub repository, or its own "
            "name for it.",
        ),
    ],
    extra: Annotated[
        list[str] | None,
        typer.Argument(metavar="[-- ARGUMENTS]", help="Arguments for the engine itself, after --."),
    ] = None,
    *,
    draft: Annotated[
        str,
        typer.Option(metavar="none|ngram|suffix|MODEL", help="What drafts, where the engine has it."),
    ] = "none",
    k: Annotated[
        int | None,
        typer.Option("-k", metavar="N", help="Tokens to draft in a round.", show_default="the engine's"),
    ] = None,
    program: Annotated[
        str,
        typer.Option(metavar="FILE", help="The engine's program, or its Python.", show_default="on PATH"),
    ] = "",
    for_version: Annotated[
        str,
        typer.Option(
            metavar="VERSION",
            help="Set up for this version, for another machine.",
            show_default="as installed",
        ),
    ] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print what would be run.")] = False,
    write: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Only save a script, a systemd unit, a compose file and a Kubernetes manifest.",
            show_default="none",
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="With --dry-run, print one JSON object.")] = False,
    probe: Annotated[
        bool, typer.Option("--probe", help="Probe it as soon as it answers, then end it.")
    ] = False,
    ready_timeout: Annotated[
        float, typer.Option(metavar="SECONDS", help="Longest to wait until it answers.", min=1)
    ] = READY_S,
    offline: Annotated[bool, typer.Option("--offline", help="Make no network call.")] = False,
    serving: Serving,
) -> None:
    """Set another engine up so that it speculates, compare the vocabularies first, and start it."""
    from leadout.cli.known_length import known_length
    from leadout.cli.progress import BarProgress
    from leadout.launch.prepare import Request, prepare

    if json and not dry_run:
        raise InputError("--json shows what would be run; give it with --dry-run")
    must_run = not dry_run and write is None
    if probe and not must_run:
        raise InputError("--probe needs the engine to run; leave out --dry-run and --write")
    request = Request(
        engine=engine,
        target=target,
        draft=draft,
        k=k,
        serving=serving,
        extra=tuple(extra or ()),
        program=program,
        release=for_version,
        must_run=must_run,
        offline=offline,
    )
    prepared = prepare(request, os.environ, known_length=known_length, progress=BarProgress())
    if write is not None:
        _write(prepared, write.expanduser().absolute())
    if dry_run:
        _show(prepared, as_json=json)
    if must_run:
        raise typer.Exit(_run(prepared, ready_timeout, probes=probe))


def _show(prepared: Prepared, *, as_json: bool) -> None:
    from leadout.launch.show import script, to_json

    if as_json:
        print_json(to_json(prepared))
    else:
        print(script(prepared), end="")


def _write(prepared: Prepared, folder: Path) -> None:
    from leadout.launch.deploy import deployment, save

    files = deployment(prepared, folder)
    save(files, folder)
    _remark(prepared)
    for file in files:
        note(f"wrote {folder / file.name}")


def _run(prepared: Prepared, ready_s: float, *, probes: bool) -> int:
    from leadout.launch.execute import execute
    from leadout.launch.show import quoted

    note(f"{prepared.engine.title} {prepared.capabilities.release}, {prepared.capabilities.program}")
    _remark(prepared)
    for command in prepared.setup.elsewhere:
        note(f"{command.purpose}: {quoted(command.argv)}")
    if not probes:
        return execute(prepared.setup, os.environ, say=note, ready_s=ready_s)
    codes = list[int]()

    def probe_it(url: str) -> bool:
        codes.append(_probe(prepared, url))
        return False

    return execute(prepared.setup, os.environ, say=note, ready=probe_it, ready_s=ready_s) or codes[0]


def _probe(prepared: Prepared, url: str) -> int:
    from leadout.cli.probe import KEY_VARIABLE, print_report
    from leadout.cli.progress import StepProgress
    from leadout.probe import ProbeOptions, probe_server

    draft = prepared.plan.draft
    options = ProbeOptions(draft_model=draft.given if draft and prepared.engine.name == "lmstudio" else None)
    with StepProgress(is_quiet=False) as progress:
        report = probe_server(
            url,
            engine=prepared.engine.name,
            api_key=os.environ.get(KEY_VARIABLE) or None,
            options=options,
            progress=progress.show,
        )
    print_report(report)
    return report.exit_code


def _remark(prepared: Prepared) -> None:
    for text in prepared.setup.notes:
        note(text)
    for text in prepared.setup.warnings:
        note(f"warning: {text}")
