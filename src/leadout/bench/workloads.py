"""What the benchmark asks: six kinds of prompts and an agent loop, written for it and kept in `texts/`.

A unit is what one engine answers before its caches and memories are dropped: a single prompt, or all calls of
a loop. Every contender gets the same ids.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib.resources import files
from typing import Literal, get_args

from leadout.bench.server_settings import TuningPrompt
from leadout.errors import InputError
from leadout.models.base import Vocabulary
from leadout.models.template import encode_chat

WorkloadName = Literal["chat", "code", "edit", "extraction", "maths", "long_document", "agent"]
WORKLOADS: tuple[WorkloadName, ...] = get_args(WorkloadName)

Message = dict[str, object]
Reply = Callable[[Sequence[int], int], Sequence[int]]
"""From the ids of a prompt and the most tokens of an answer to the ids of the answer."""

_NOW = datetime(2026, 1, 1)  # for templates that print the date: the same ids every day


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """A prompt, or a loop of calls.

    Parameters
    ----------
    name : str
        What it is about; unique within its workload.
    system : str
        System message, or "".
    turns : tuple of str, length >= 1
        What the user (in a loop: the tools) says; the model answers after each.
    """

    name: str
    system: str
    turns: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Conversations of one kind; `max_tokens` of an answer, or None where the run decides."""

    name: WorkloadName
    conversations: tuple[Conversation, ...]
    max_tokens: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """A conversation as ids.

    Parameters
    ----------
    calls : tuple of tuples of int, length >= 1
        Prompts, in order; those of a loop share a growing prefix.
    max_tokens : int
        Longest answer to each of them.
    """

    workload: WorkloadName
    name: str
    calls: tuple[tuple[int, ...], ...]
    max_tokens: int


def read_workload(name: WorkloadName) -> Workload:
    """A workload as it is written down.

    Raises
    ------
    InputError
        If there is none of that name.
    """
    if name not in WORKLOADS:
        raise InputError(f"workload {name!r} does not exist; there are {', '.join(WORKLOADS)}")
    text = files("leadout.bench").joinpath("texts", f"{name}.toml").read_text(encoding="utf-8")
    read = tomllib.loads(text)
    prompts = [
        Conversation(name=each["name"], system=each.get("system", ""), turns=(each["user"].strip(),))
        for each in read.get("prompts", ())
    ]
    loops = [
        Conversation(
            name=each["name"],
            system=each.get("system", "").strip(),
            turns=tuple(turn.strip() for turn in each["turns"]),
        )
        for each in read.get("loops", ())
    ]
    return Workload(name=name, conversations=(*prompts, *loops), max_tokens=read.get("max_tokens"))


def make_units(
    workload: Workload, vocab: Vocabulary, reply: Reply, *, max_tokens: int, limit: int | None = None
) -> list[Unit]:
    """The conversations as ids, through the model's chat template.

    Parameters
    ----------
    workload : Workload
    vocab : Vocabulary
        The target's.
    reply : Reply
        Answers the calls of a loop but the last, once, so that they stand in the prompts of later ones.
    max_tokens : int
        Longest answer in tokens; a workload may have shorter ones.
    limit : int or None
        Take the first so many conversations only; None is all.

    Raises
    ------
    InputError
        If the model has no chat template.
    """
    longest = min(max_tokens, workload.max_tokens or max_tokens)
    return [
        Unit(
            workload=workload.name,
            name=each.name,
            calls=_calls(each, vocab, lambda prompt: reply(prompt, longest)),
            max_tokens=longest,
        )
        for each in workload.conversations[:limit]
    ]


def tuning_prompts(vocab: Vocabulary) -> tuple[TuningPrompt, ...]:
    """What settings of other engines are tried on, through the model's chat template.

    Raises
    ------
    InputError
        If the model has no chat template.
    """
    text = files("leadout.bench").joinpath("texts", "tuning.toml").read_text(encoding="utf-8")
    return tuple(
        TuningPrompt(
            name=each["name"],
            stands_for=tuple(each["stands_for"]),
            ids=tuple(encode_chat(vocab, [{"role": "user", "content": each["user"].strip()}], now=_NOW)),
        )
        for each in tomllib.loads(text)["prompts"]
    )


def _calls(
    conversation: Conversation, vocab: Vocabulary, reply: Callable[[Sequence[int]], Sequence[int]]
) -> tuple[tuple[int, ...], ...]:
    messages: list[Message] = []
    if conversation.system:
        messages.append({"role": "system", "content": conversation.system})
    calls: list[tuple[int, ...]] = []
    for turn in conversation.turns:
        if calls:
            said = b"".join(vocab.piece(token) for token in reply(calls[-1]))
            messages.append({"role": "assistant", "content": said.decode("utf-8", "replace")})
        messages.append({"role": "user", "content": turn})
        calls.append(tuple(encode_chat(vocab, messages, now=_NOW)))
    return tuple(calls)
