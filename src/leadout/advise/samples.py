"""Short prompts of the six kinds that a benchmark asks, kept in `samples.toml`, as ids of a target."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from datetime import datetime
from importlib.resources import files
from typing import Literal, get_args

from leadout.errors import InputError
from leadout.models.base import Vocabulary

VERSION = 1
Kind = Literal["chat", "code", "edit", "extraction", "maths", "long_document"]
KINDS: tuple[Kind, ...] = get_args(Kind)

_NOW = datetime(2026, 1, 1)  # for templates that print the date: the same ids every day


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A prompt of a kind, as ids."""

    kind: Kind
    name: str
    prompt: tuple[int, ...]


def read_samples(vocab: Vocabulary) -> list[Sample]:
    """All prompts through the target's chat template, or as plain text where it has none.

    They come one of each kind, then the second of each, so that what is measured at the same moment is of
    all kinds.
    """
    text = files("leadout.advise").joinpath("samples.toml").read_text(encoding="utf-8")
    read = tomllib.loads(text)
    rounds = zip(*(read[kind] for kind in KINDS), strict=True)
    return [
        Sample(kind=kind, name=each["name"], prompt=tuple(_ids(vocab, each["user"].strip())))
        for prompts in rounds
        for kind, each in zip(KINDS, prompts, strict=True)
    ]


def _ids(vocab: Vocabulary, text: str) -> list[int]:
    from leadout.models.template import encode_chat  # jinja2 is needed for chat alone

    if vocab.chat_template is not None:
        try:
            return encode_chat(vocab, [{"role": "user", "content": text}], now=_NOW)
        except InputError:  # a template that cannot be used
            pass
    return vocab.encode(text, add_bos=vocab.adds_bos, special=True)
