"""Short prompts of the six kinds that a benchmark asks, kept in `samples.toml`, as ids of a target."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from datetime import datetime
from importlib.resources import files
from typing import Literal, get_args

from leadout.errors import InputError
from leadout.models.base import Vocabulary
from leadout.models.conversation import Conversation

VERSION = 1
Kind = Literal["chat", "code", "edit", "extraction", "maths", "long_document"]
KINDS: tuple[Kind, ...] = get_args(Kind)

_NOW = datetime(2026, 1, 1)  # for templates that print the date: the same ids every day


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A prompt of a kind, as ids; `conversation` is what they were rendered from, where that was a chat."""

    kind: Kind
    name: str
    prompt: tuple[int, ...]
    conversation: Conversation | None = None


def read_samples(vocab: Vocabulary) -> list[Sample]:
    """All prompts through the target's chat template, or as plain text where it has none that can be used.

    They come one of each kind, then the second of each, so that what is measured at the same moment is of
    all kinds.
    """
    text = files("leadout.advise").joinpath("samples.toml").read_text(encoding="utf-8")
    read = tomllib.loads(text)
    rounds = zip(*(read[kind] for kind in KINDS), strict=True)
    return [
        _sample(vocab, kind, each["name"], each["user"].strip())
        for prompts in rounds
        for kind, each in zip(KINDS, prompts, strict=True)
    ]


def _sample(vocab: Vocabulary, kind: Kind, name: str, text: str) -> Sample:
    from leadout.models.template import encode_chat  # jinja2 is needed for chat alone

    conversation = Conversation(messages=[{"role": "user", "content": text}])
    if vocab.chat_template is not None:
        try:
            ids = encode_chat(vocab, conversation.messages, now=_NOW)
        except InputError:  # a template that cannot be used
            pass
        else:
            return Sample(kind=kind, name=name, prompt=tuple(ids), conversation=conversation)
    ids = vocab.encode(text, add_bos=vocab.adds_bos, special=True)
    return Sample(kind=kind, name=name, prompt=tuple(ids))
