"""`leadout run`: one prompt, one answer (or n), streamed as it comes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from leadout.cli.answer_form import bound, read_schema
from leadout.cli.engines import announce, open_engine
from leadout.cli.flags import CHOICE, DRAFT_MODEL, MODEL, ONE_TURN, Choice, DraftModelOptions
from leadout.cli.options import Target, takes
from leadout.cli.output import note, print_json, write_json
from leadout.cli.prompts import conversation, read_prompt
from leadout.engine.params import Params
from leadout.errors import InputError
from leadout.models.conversation import Conversation
from leadout.models.options import GgufOptions

if TYPE_CHECKING:
    from leadout.engine.engine import Engine
    from leadout.engine.result import Result

STOPPED = 130


@takes(choice=CHOICE, params=ONE_TURN, options=MODEL, draft_options=DRAFT_MODEL)
def run(
    target: Target,
    *,
    prompt: Annotated[
        str | None, typer.Option("--prompt", "-p", help="The prompt; - reads standard input.")
    ] = None,
    prompt_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Read the prompt from a UTF-8 file.")
    ] = None,
    system: Annotated[
        str | None, typer.Option(metavar="TEXT", help="System message before the prompt.")
    ] = None,
    raw: Annotated[
        bool, typer.Option("--raw", help="Continue the text as it is, without chat template.")
    ] = False,
    schema: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Answer with JSON that is valid by this schema.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")] = False,
    show_drafts: Annotated[
        bool, typer.Option("--show-drafts", help="Show which tokens were accepted, corrected or a bonus.")
    ] = False,
    receipt: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write what `leadout replay` needs to check the answer."),
    ] = None,
    receipt_prompt: Annotated[
        bool, typer.Option("--receipt-prompt", help="Put the prompt's ids into the receipt too.")
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Leave out everything but the answer.")
    ] = False,
    choice: Choice,
    params: Params,
    options: GgufOptions,
    draft_options: DraftModelOptions,
) -> None:
    """Answer one prompt with a model, speculatively where that is predicted to pay."""
    if raw and system is not None:
        raise InputError("--system needs the chat template, which --raw leaves out; put it into the prompt")
    if json and show_drafts:
        raise InputError("--show-drafts colours text, and --json prints none; leave one of them out")
    if params.logprobs is not None and not json:
        raise InputError("--logprobs reports in JSON; add --json")
    if schema is not None and receipt is not None:
        raise InputError("--receipt cannot be given for an answer by --schema; leave out one of the two")
    params = _repeatable(params, receipt, has_prompt=receipt_prompt)
    text, grammar = read_prompt(prompt, prompt_file), read_schema(schema)
    quiet = quiet or json
    with open_engine(target, choice, options, draft_options) as engine:
        from leadout.cli.answering import follow, show_nothing
        from leadout.cli.render import AnswerPrinter, closing_line, print_legend

        params = bound(params, engine, grammar)
        asked: str | Conversation = text
        if not raw:
            asked = Conversation(messages=conversation(system, {"role": "user", "content": text}))
        events = engine.stream(asked, params)
        if not quiet:
            announce(engine)
        printer = None if json else AnswerPrinter(sys.stdout, n=params.n, show_drafts=show_drafts)
        results, is_stopped = follow(engine, events, params, printer.show if printer else show_nothing)
        if not is_stopped:
            _write_receipt(receipt, engine, asked, params, results, has_prompt=receipt_prompt)
    if printer is not None:
        printer.close()
    else:
        print_json({**_as_json(results), "notes": list(engine.notes)})
    if not quiet:
        if show_drafts:
            print_legend(sys.stdout, results)
        note(closing_line(results))
    if is_stopped:
        raise typer.Exit(STOPPED)


def _repeatable(params: Params, receipt: Path | None, *, has_prompt: bool) -> Params:
    """The parameters, with a seed where a receipt needs one."""
    if receipt is None:
        if has_prompt:
            raise InputError("--receipt-prompt says what is in a receipt; name its file with --receipt FILE")
        return params
    from leadout.receipts import replayable

    return replayable(params)


def _write_receipt(
    receipt: Path | None,
    engine: Engine,
    asked: str | Conversation,
    params: Params,
    results: list[Result],
    *,
    has_prompt: bool,
) -> None:
    if receipt is None:
        return
    from leadout.receipts import make_receipt

    ids = engine.request(asked, params).prompt.ids
    write_json(receipt, make_receipt(engine, ids, params, results, has_prompt=has_prompt).to_json())


def _as_json(results: list[Result]) -> dict[str, object]:
    if len(results) == 1:
        return results[0].to_json()
    return {"choices": [result.to_json() for result in results]}
