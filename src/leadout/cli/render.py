"""Events on their way to a terminal or a pipe: text, where tokens came from, and the closing line."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TextIO

from rich.console import Console
from rich.text import Text

from leadout.cli.output import note
from leadout.core.slowdown import disturbance
from leadout.engine.events import Event, Finished, Origin, Token
from leadout.engine.result import Result, speculation_of

COLOURS: Mapping[Origin, str] = MappingProxyType(
    {"accepted": "green", "corrected": "bold red", "bonus": "bold blue", "plain": ""}
)
MARKS: Mapping[Origin, tuple[str, str]] = MappingProxyType(
    {"accepted": ("[", "]"), "corrected": ("<", ">"), "bonus": ("{", "}"), "plain": ("", "")}
)
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class AnswerPrinter:
    """Writes the answers of one request in order, the first unfinished one as it comes.

    Parameters
    ----------
    stream : TextIO
        Where answers go. On a terminal, control characters of the model's text are replaced, so that no
        answer can drive the terminal.
    n : int
        Answers to come; with more than one, each begins with a separator.
    show_drafts : bool
        Tell accepted, corrected and bonus tokens apart: by colour, or by marks where there is none.
    """

    def __init__(self, stream: TextIO, *, n: int = 1, show_drafts: bool = False) -> None:
        self._stream, self._n, self._show_drafts = stream, n, show_drafts
        self._console = Console(file=stream, highlight=False, soft_wrap=True)
        self._has_colour = has_colour(self._console)
        self._current, self._waiting = 0, dict[int, list[Event]]()
        self._is_line_open = False
        self._separate()

    def show(self, event: Event) -> None:
        """Write what has become certain with this event."""
        if event.index != self._current:
            self._waiting.setdefault(event.index, []).append(event)
            return
        match event:
            case Token():
                self._write(event.text, event.origin)
            case Finished():
                self._write(event.text, "plain")
                self._next_answer()

    def close(self) -> None:
        """End an open line."""
        if self._is_line_open:
            self._put("\n")

    def _next_answer(self) -> None:
        self.close()
        self._current += 1
        if self._current < self._n:
            self._separate()
            for event in self._waiting.pop(self._current, []):
                self.show(event)

    def _separate(self) -> None:
        if self._n > 1:
            self._put(f"--- answer {self._current + 1} of {self._n} ---\n")

    def _write(self, text: str, origin: Origin) -> None:
        if not text:
            return
        if self._stream.isatty():
            text = _CONTROLS.sub("\N{REPLACEMENT CHARACTER}", text)
        if not self._show_drafts:
            self._put(text)
        elif self._has_colour:
            self._console.print(Text(text, style=COLOURS[origin]), end="")
            self._is_line_open = not text.endswith("\n")
        else:
            before, after = MARKS[origin]
            self._put(f"{before}{text}{after}")

    def _put(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()
        self._is_line_open = not text.endswith("\n")


def has_colour(console: Console) -> bool:
    """Tell whether colours can be seen: not in a pipe, and not where NO_COLOR asks for none."""
    return console.color_system is not None and not console.no_color


def print_legend(stream: TextIO, results: Sequence[Result]) -> None:
    """Say on standard error what the colours or marks on `stream` stand for, if these answers have any."""
    if not any(result.usage.drafted for result in results):
        return
    if has_colour(Console(file=stream)):
        legend = Text(" ").join(Text(origin, style=style) for origin, style in COLOURS.items())
        Console(stderr=True, highlight=False).print(legend)
    else:
        note(" ".join(f"{before}{origin}{after}" for origin, (before, after) in MARKS.items()))


def closing_line(results: Sequence[Result]) -> str:
    """Speed, tokens per target pass, acceptance, reuse, and whether speculation was on and why."""
    usages = [result.usage for result in results]
    tokens, passes = sum(u.completion_tokens for u in usages), sum(u.target_passes for u in usages)
    drafted, accepted = sum(u.drafted for u in usages), sum(u.accepted for u in usages)
    seconds = sum(u.decode_seconds for u in usages)
    after_first = tokens - sum(u.completion_tokens > 0 for u in usages)
    cached, prompt = usages[0].cached_tokens, usages[0].prompt_tokens
    speculation = speculation_of(results)
    parts = [f"{tokens} tokens"]
    if after_first > 0 and seconds > 0:
        parts.append(f"{after_first / seconds:.1f} tok/s")
    if tokens and passes:
        parts.append(f"{tokens / passes:.2f} tokens per target pass")
    if drafted:
        parts.append(f"{accepted / drafted:.0%} of {drafted} drafted tokens accepted")
    parts.append(f"prompt {prompt} tokens, {cached} of them cached")
    rule = f", {speculation.verification} verification" if speculation.enabled else ""
    parts.append(f"speculation {speculation.reason}{rule}")
    if busy := disturbance(max(u.slowdown for u in usages)):
        parts.append(f"{busy}; fewer --threads may be faster")
    return " | ".join(parts)
