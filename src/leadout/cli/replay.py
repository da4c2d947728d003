"""`leadout replay`: whether plain decoding gives the text that a receipt is about."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from leadout.cli.output import note, print_json
from leadout.cli.prompts import conversation, read_json, read_prompt
from leadout.errors import InputError
from leadout.folders import expanded
from leadout.models.conversation import Conversation

if TYPE_CHECKING:
    from leadout.engine.engine import Engine
    from leadout.receipts import Difference, Receipt, Replay

DIFFERENT = 1


def replay(
    receipt: Annotated[
        Path, typer.Argument(metavar="RECEIPT", help="A receipt, or a response with one in it.")
    ],
    *,
    model: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The model's name or file, where the receipt's name is none."),
    ] = None,
    prompt: Annotated[
        str | None, typer.Option("--prompt", "-p", help="The prompt, where the receipt has its hash alone.")
    ] = None,
    prompt_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Read the prompt from a UTF-8 file.")
    ] = None,
    system: Annotated[
        str | None, typer.Option(metavar="TEXT", help="System message before the prompt.")
    ] = None,
    raw: Annotated[
        bool, typer.Option("--raw", help="The prompt is text as it is, without chat template.")
    ] = False,
    messages: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The prompt as JSON: a list of messages, or a request with them."),
    ] = None,
    any_version: Annotated[
        bool, typer.Option("--any-version", help="Try with other versions than the receipt's.")
    ] = False,
    offline: Annotated[bool, typer.Option("--offline", help="Make no network call.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")] = False,
) -> None:
    """Decode a receipt's answer once more, plainly: exit code 0 if the text is the same, 1 if it differs."""
    from leadout.cli.progress import BarProgress
    from leadout.engine.engine import Engine
    from leadout.receipts import open_target, read_receipt
    from leadout.receipts import replay as decode_again

    read = read_receipt(expanded(receipt))
    asked: str | Conversation | None = None
    if messages is not None:
        if prompt is not None or prompt_file is not None or system is not None or raw:
            raise InputError("--messages is the whole prompt; leave out --prompt, --system and --raw")
        asked = _messages_in(messages)
    elif prompt is not None or prompt_file is not None:
        text = read_prompt(prompt, prompt_file)
        asked = text
        if raw and system is not None:
            raise InputError("--raw is text without chat template, so there is no place for --system")
        if not raw:
            asked = Conversation(messages=conversation(system, {"role": "user", "content": text}))
    elif system is not None or raw:
        raise InputError("--system and --raw say how a prompt is written; give one with -p or --prompt-file")
    target = open_target(read, model, any_version=any_version, offline=offline, progress=BarProgress())
    with Engine(target) as engine:
        ids = None if asked is None else engine.request(asked).prompt.ids
        done = decode_again(read, engine, ids)
        if json:
            print_json(_as_json(read, done))
        else:
            _print(read, done, engine)
    if not done.is_same:
        raise typer.Exit(DIFFERENT)


def _messages_in(path: Path) -> Conversation:
    told = read_json(path, "messages file")
    variables = None
    if isinstance(told, dict):
        if told.get("tools"):
            raise InputError(
                f"--messages {path} is a request with tools, which are written out by the server; "
                'ask for receipt: "with_prompt", which needs no prompt here'
            )
        variables = told.get("chat_template_kwargs")
        if not (variables is None or isinstance(variables, dict)):
            raise InputError(f"--messages {path} has chat_template_kwargs that are no JSON object")
        told = told.get("messages")
    if not isinstance(told, list) or not told or not all(isinstance(each, dict) for each in told):
        raise InputError(f"--messages {path} has no messages: a JSON list of objects with role and content")
    return Conversation(messages=told, variables=variables)


def _print(receipt: Receipt, done: Replay, engine: Engine) -> None:
    n_tokens = sum(len(answer.ids) for answer in receipt.answers)
    if done.is_same:
        answers = "" if len(receipt.answers) == 1 else f" in {len(receipt.answers)} answers"
        print(f"the same: plain decoding gives the receipt's {n_tokens} tokens{answers}")
        return
    for each in done.differences:
        was, now = _told(each.was, engine), _told(each.now, engine)
        print(f"answer {each.index} differs at token {each.at}: the receipt has {was}, plain decoding {now}")
    for text in done.notes:
        note(text)


def _told(token: int | None, engine: Engine) -> str:
    if token is None:
        return "its end"
    text = engine.target.vocab.piece(token, special=True).decode("utf-8", "replace")
    return f"{text!r} ({token})"


def _as_json(receipt: Receipt, done: Replay) -> dict[str, object]:
    return {
        "same": done.is_same,
        "tokens": sum(len(answer.ids) for answer in receipt.answers),
        "differences": [_difference(each) for each in done.differences],
        "texts": [result.text for result in done.results],
        "notes": list(done.notes),
    }


def _difference(each: Difference) -> dict[str, object]:
    return {"index": each.index, "at": each.at, "was": each.was, "now": each.now}
