"""The `leadout` command: its subcommands, its exit codes and what a user sees when something is wrong.

With `--json`, standard output is one JSON object, of an error as well; after Ctrl-C it may be none.

Exit codes: 0 done; 1 something failed while running, or a proof did not hold; 2 a mistake in what was asked
for; 3 the answer of a check, a pick or a plan is no; 3..6 what `leadout probe` found; 130 stopped with
Ctrl-C.
"""

from __future__ import annotations

import os
import re
import sys
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import typer

from leadout import __version__
from leadout.cli import (
    bench,
    cache,
    chat,
    check,
    demo,
    launch,
    models,
    pick,
    plan,
    probe,
    prove,
    pull,
    replay,
    run,
    serve,
    streams,
    tune,
)
from leadout.cli.output import print_json, told
from leadout.errors import BackendError, LeadoutError, RollbackError, ServerError

FAILED, MISUSED, STOPPED = 1, 2, 130
_MODELS = ("TARGET", "DRAFT", "NAME")


@dataclass(slots=True)
class Invocation:
    """What holds for the whole run: whether tracebacks are shown, and whether errors are told as JSON too."""

    debug: bool = False
    is_json: bool = False


app = typer.Typer(
    name="leadout",
    help="Run language models faster without changing what they say: lossless speculative decoding.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (
    run.run,
    chat.chat,
    check.check,
    pick.pick,
    plan.plan,
    tune.tune,
    prove.prove,
    bench.bench,
    serve.serve,
    replay.replay,
    launch.launch,
    probe.probe,
    demo.demo,
    models.models,
    pull.pull,
):
    app.command()(command)
app.add_typer(cache.cache, name="cache")


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"leadout {__version__}")
        raise typer.Exit


@app.callback()
def _before_any_command(
    context: typer.Context,
    version: Annotated[  # noqa: ARG001
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", envvar="LEADOUT_DEBUG", help="Show the traceback of an error.")
    ] = False,
) -> None:
    context.ensure_object(Invocation).debug = debug


def execute(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code; every error becomes one line on standard error.

    With ``--json`` it is told on standard output too, as ``{"error": ..., "exit_code": ...}``.
    """
    if not streams.prepare():
        streams.say("leadout: standard output is closed; send it to a file or to /dev/null")
        return MISUSED
    options = arguments[: arguments.index("--")] if "--" in arguments else arguments
    invocation = Invocation(debug=bool(os.environ.get("LEADOUT_DEBUG")), is_json="--json" in options)
    try:
        code = app(list(arguments), prog_name="leadout", standalone_mode=False, obj=invocation)
        sys.stdout.flush()
    except typer.TyperException as error:
        text = _explained(error.format_message(), arguments)
        return _report(error, text, MISUSED, replace(invocation, debug=False))
    except (BackendError, RollbackError, ServerError) as error:
        return _report(error, str(error), FAILED, invocation)
    except LeadoutError as error:
        return _report(error, str(error), MISUSED, invocation)
    except typer.Abort:
        return STOPPED
    except BrokenPipeError:
        streams.silence(sys.stdout)
        return FAILED
    except OSError as error:
        if error.filename is not None:
            return _report(error, str(error), FAILED, invocation)
        streams.silence(sys.stdout)
        text = f"cannot write the output: {error.strerror or error}"
        return _report(error, text, FAILED, invocation)
    except Exception as error:  # the last line of defence: nobody gets a bare traceback
        text = f"unexpected {type(error).__name__}: {error}; please report what `leadout --debug ...` shows"
        return _report(error, text, FAILED, invocation)
    return code or 0


def _explained(text: str, arguments: Sequence[str]) -> str:
    """What is wrong with a command line; of a missing argument also what could stand there."""
    missing = re.match(r"Missing argument '(\w+)'", text)
    if missing is None:
        return text
    example = ", such as smollm2-135m (`leadout models` lists names)" if missing[1] in _MODELS else ""
    command = next((each for each in arguments if not each.startswith("-")), "")
    return f"{missing[0]}{example}; `leadout {command} --help` tells what is needed"


def _report(error: Exception, text: str, code: int, invocation: Invocation) -> int:
    if invocation.debug:
        streams.say("".join(traceback.format_exception(error)).rstrip())
    line = told(re.sub(r"\s*[\r\n]\s*", " ", text.strip()).replace("Value error, ", ""))
    if line:  # empty where the help has just been shown
        streams.say(f"leadout: {line}")
    if invocation.is_json:
        try:
            print_json({"error": line, "exit_code": code})
        except OSError:  # nobody listens, or it was the output that failed
            streams.silence(sys.stdout)
    return code
