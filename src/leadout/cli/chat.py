"""`leadout chat`: a conversation; each turn reads only what is new, the rest is still in the caches."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from leadout.cli.engines import announce, open_engine
from leadout.cli.flags import CHOICE, DRAFT_MODEL, MANY_TURNS, MODEL, Choice, DraftModelOptions
from leadout.cli.options import Target, takes
from leadout.cli.output import note
from leadout.cli.prompts import Message, checked, conversation, has_standard_input
from leadout.engine.params import Params
from leadout.errors import InputError
from leadout.models.options import GgufOptions

if TYPE_CHECKING:
    from leadout.engine.engine import Engine
    from leadout.engine.events import Speculation

NOTHING_ANSWERED = 2
SWITCHED_OFF = "off: switched off with /draft off"

HELP = """\
/help           this list
/reset          forget the conversation (the system message stays)
/system TEXT    set the system message and start over; without TEXT, remove it
/draft          say whether drafts are used and why; /draft on and /draft off switch them
/quit           leave (also Ctrl-D, or Ctrl-C at the prompt)
Ctrl-C stops an answer; what was said so far stays in the conversation."""


@takes(choice=CHOICE, params=MANY_TURNS, options=MODEL, draft_options=DRAFT_MODEL)
def chat(
    target: Target,
    *,
    system: Annotated[str | None, typer.Option(metavar="TEXT", help="System message.")] = None,
    show_drafts: Annotated[
        bool, typer.Option("--show-drafts", help="Show which tokens were accepted, corrected or a bonus.")
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Leave out everything but the answers.")
    ] = False,
    choice: Choice,
    params: Params,
    options: GgufOptions,
    draft_options: DraftModelOptions,
) -> None:
    """Talk with a model; /help lists what else can be typed. Also reads lines from a pipe."""
    if not has_standard_input():
        raise InputError("standard input is closed, so there is nothing to answer; use a terminal or a pipe")
    is_refused = False
    with open_engine(target, choice, options, draft_options) as engine:
        engine.chat_ids(
            conversation(system, {"role": "user", "content": "hello"})
        )  # fails without a usable template
        talk = Conversation(engine, params, system=system, show_drafts=show_drafts, quiet=quiet)
        if not quiet:
            announce(engine)
        if sys.stdin.isatty() and not quiet:
            note("/help lists the commands, /quit leaves.")
        for line in _lines():
            try:
                if not talk.take(checked(line, "this line")):
                    break
            except InputError as error:
                note(f"leadout: {error}")
                is_refused = True
    if is_refused and not talk.has_answered and not sys.stdin.isatty():
        raise typer.Exit(NOTHING_ANSWERED)


class Conversation:
    """The messages so far, and what a typed line does to them.

    Parameters
    ----------
    engine : Engine
    params : Params
    system : str or None
        The first system message.
    show_drafts, quiet : bool
        How answers are shown.

    Attributes
    ----------
    has_answered : bool
        Whether there was an answer yet.
    """

    def __init__(
        self, engine: Engine, params: Params, *, system: str | None, show_drafts: bool, quiet: bool
    ) -> None:
        self._engine, self._params, self._system = engine, params, system
        self._show_drafts, self._quiet = show_drafts, quiet
        self._turns: list[Message] = []
        self._last = ""  # what became of drafts in the last answer
        self.has_answered = False

    def take(self, line: str) -> bool:
        """Answer a message or obey a command; False when the user wants to leave.

        Raises
        ------
        InputError
            If the line cannot be honoured; the conversation is then what it was before.
        """
        command, _, rest = line.strip().partition(" ")
        match command:
            case "":
                pass
            case "/quit" | "/exit":
                return False
            case "/help":
                note(HELP)
            case "/reset":
                self._turns.clear()
                note("The conversation is empty.")
            case "/system":
                self._system = rest.strip() or None
                self._turns.clear()
                note("The system message is set." if self._system else "There is no system message.")
            case "/draft":
                self._switch_draft(rest.strip())
            case _ if command.startswith("/") and "/" not in command[1:]:
                raise InputError(f"{command} is no command; /help lists them")
            case _:
                self._answer(line)
        return True

    def _switch_draft(self, to: str) -> None:
        if to not in ("", "on", "off"):
            raise InputError(f"/draft takes on, off or nothing, not {to!r}")
        if to:
            self._params = replace(self._params, speculate=to == "on")
        reason = self._engine.speculation.reason if self._params.speculate else SWITCHED_OFF
        note(f"speculation {reason}")
        if self._last not in ("", reason):
            note(f"in the last answer: {self._last}")

    def _answer(self, line: str) -> None:
        from leadout.cli.answering import follow
        from leadout.cli.render import AnswerPrinter, closing_line, print_legend
        from leadout.engine.result import speculation_of

        question: Message = {"role": "user", "content": line}
        messages = conversation(self._system, *self._turns, question)
        events = self._engine.stream_chat(messages, self._params)
        printer = AnswerPrinter(sys.stdout, show_drafts=self._show_drafts)
        results, _ = follow(self._engine, events, self._params, printer.show)
        printer.close()
        if not self._params.speculate:
            results = [replace(each, speculation=_switched_off(each.speculation)) for each in results]
        self._last = speculation_of(results).reason
        self.has_answered = True
        self._turns += [question, {"role": "assistant", "content": results[0].text}]
        if not self._quiet:
            if self._show_drafts:
                print_legend(sys.stdout, results)
            note(closing_line(results))


def _switched_off(speculation: Speculation) -> Speculation:
    """The same, in the words of whoever typed /draft off."""
    return replace(speculation, reason=SWITCHED_OFF)


def _lines() -> Iterator[str]:
    """Lines from a terminal, with editing where there is readline, or from a pipe, to the end of either."""
    if not sys.stdin.isatty():
        for line in sys.stdin:
            yield line.rstrip("\r\n")
        return
    with suppress(ImportError):
        import readline  # noqa: F401 (importing it gives input() its history and editing)
    while True:
        try:
            yield input("> ")
        except EOFError:
            print()
            return
