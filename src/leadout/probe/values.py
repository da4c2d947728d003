"""What a probe asks, what a server says, and what it counts. No engine is known here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Literal

Prompt = str | tuple[int, ...]
"""Text, or ids where the engine takes them."""

Key = int | str
"""A token: its id where the engine tells ids, else its text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One completion, with every sampling setting stated: a server's own defaults never take part.

    Parameters
    ----------
    prompt : str or tuple of int
    max_tokens : int
    temperature : float
    min_p : float
        0 is off, and then it is not sent: some engines refuse the field.
    n_top : int
        Most probable tokens to report per position; 0 reports none.
    stop : str
        Text that ends the answer; "" is none.
    """

    prompt: Prompt
    max_tokens: int
    temperature: float = 0.0
    min_p: float = 0.0
    n_top: int = 0
    stop: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """One completion as the server told it.

    Parameters
    ----------
    text : str
    pieces : tuple of str
        The text as it came, chunk by chunk.
    ids : tuple of int or None
        None where the engine tells none.
    n_tokens : int or None
        Tokens of the answer, by the server's count.
    tops : tuple of mappings
        Log probability by token and position; an empty mapping where the server left one out.
    drafted, accepted : int or None
        What the server tells of this very request; None where it tells nothing.
    first_s, last_s : float
        When the first and the last text came, seconds after the request; 0 where it was not streamed.
    """

    text: str
    pieces: tuple[str, ...] = ()
    ids: tuple[int, ...] | None = None
    n_tokens: int | None = None
    tops: tuple[Mapping[Key, float], ...] = ()
    drafted: int | None = None
    accepted: int | None = None
    first_s: float = 0.0
    last_s: float = 0.0

    def timed(self, first_s: float, last_s: float) -> Said:
        """The same with times."""
        return replace(self, first_s=first_s, last_s=last_s)

    @property
    def tokens_per_s(self) -> float | None:
        """Tokens after the first one per second; None where too few came to tell."""
        spent = self.last_s - self.first_s
        if self.n_tokens is None or self.n_tokens < 4 or spent <= 0:
            return None
        return (self.n_tokens - 1) / spent


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """What a server counted since it started; None where it does not count that.

    Parameters
    ----------
    requests, tokens : float or None
        Finished requests and generated tokens of all users.
    rounds, drafted, accepted : float or None
        Verify passes with a draft, proposed tokens, and those that stood.
    """

    requests: float | None = None
    tokens: float | None = None
    rounds: float | None = None
    drafted: float | None = None
    accepted: float | None = None

    def since(self, before: Counters) -> Counters:
        """What was counted since `before`.

        A counter that appeared meanwhile started at 0. One that went back was reset: the server started
        anew, and the difference says nothing.
        """
        changes: dict[str, float | None] = {}
        for each in fields(self):
            now, then = getattr(self, each.name), getattr(before, each.name)
            change = None if now is None else now - (then or 0)
            changes[each.name] = None if change is None or change < 0 else change
        return Counters(**changes)


Level = Literal["fault", "warning", "note"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something a user should know.

    Parameters
    ----------
    level : "fault", "warning" or "note"
        A fault decides the verdict; a warning costs speed or hides something; a note is to be known.
    name : str
        Short and stable, such as "missing-spec-type"; docs/engines/probe.md lists them.
    text : str
        What was seen.
    remedy : str
        What to change; "" where there is nothing to do.
    """

    level: Level
    name: str
    text: str
    remedy: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """What a server tells about its own set-up; telling is not doing.

    Parameters
    ----------
    configured : bool or None
        Whether speculation is set up; None where the server does not say.
    drafter : str
        What is to draft, in the engine's words; "" where it does not say.
    findings : tuple of Finding
        Traps that the set-up shows; the first fault or warning names the cause when nothing is drafted.
    """

    configured: bool | None = None
    drafter: str = ""
    findings: tuple[Finding, ...] = field(default=())
