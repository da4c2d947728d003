"""What a receipt says, as values and as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from leadout.core.values import Sampling
from leadout.engine.params import Params
from leadout.errors import InputError
from leadout.models.options import GgufOptions
from leadout.receipts.hashes import FileRecord, hash_of_json

FORM = 1
"""Of this JSON; a reader refuses forms that it does not know."""

_LAW = tuple(field.name for field in fields(Sampling))
_LIMITS = ("max_tokens", "stop", "seed", "n")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRecord:
    """The target as it was run.

    Parameters
    ----------
    name : str
        What it was asked for by.
    files : tuple of FileRecord
        All its parts; empty for a model that came from no file.
    provider, provider_version, cpu : str
        What ran it.
    options : GgufOptions
        How it was loaded.
    """

    name: str
    files: tuple[FileRecord, ...]
    provider: str
    provider_version: str
    cpu: str
    options: GgufOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftRecord:
    """What drafted, which changes nothing of the text; `files` where that was a draft model."""

    name: str
    files: tuple[FileRecord, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptRecord:
    """The prompt: how many ids, their hash, and the ids themselves where that was asked for."""

    n_tokens: int
    sha256: str
    ids: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerRecord:
    """One answer: its ids, the hash of its text (with markup of reasoning and calls), its end, counts."""

    index: int
    finish_reason: str
    ids: tuple[int, ...]
    text_sha256: str
    target_passes: int
    drafted: int
    accepted: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """Everything that decides a text, and the text's hash.

    Parameters
    ----------
    version : str
        Of leadout.
    created : str
        When, as ISO 8601 in UTC.
    target : ModelRecord
    draft : DraftRecord or None
    prompt : PromptRecord
    params : Params
        The law, the seed and the limits. How it was drafted is not among them.
    answers : tuple of AnswerRecord
    """

    version: str
    created: str
    target: ModelRecord
    draft: DraftRecord | None
    prompt: PromptRecord
    params: Params
    answers: tuple[AnswerRecord, ...]

    def to_json(self) -> dict[str, object]:
        """Plain values for JSON, with the hash of all the others as ``sha256``."""
        law: dict[str, object] = {name: getattr(self.params, name) for name in _LAW}
        biases = {str(token): bias for token, bias in sorted(self.params.logit_bias.items())}
        told: dict[str, object] = {
            "form": FORM,
            "leadout": self.version,
            "created": self.created,
            "target": asdict(self.target),
            "draft": None if self.draft is None else asdict(self.draft),
            "prompt": asdict(self.prompt),
            "law": {**law, "logit_bias": biases},
            "limits": {name: getattr(self.params, name) for name in _LIMITS},
            "answers": [asdict(answer) for answer in self.answers],
        }
        told = json.loads(json.dumps(told))  # as a reader will have it
        return {**told, "sha256": hash_of_json(told)}

    @classmethod
    def from_json(cls, value: object) -> Receipt:
        """The receipt that was written as this JSON.

        Raises
        ------
        InputError
            If it is no receipt, of another form, or was changed since it was written.
        """
        if not isinstance(value, Mapping) or "form" not in value or "sha256" not in value:
            raise InputError("this is no receipt: it must be a JSON object with form and sha256")
        if value["form"] != FORM:
            raise InputError(f"the receipt has form {value['form']!r}; this version reads form {FORM}")
        told = {name: each for name, each in value.items() if name != "sha256"}
        try:
            is_unchanged = hash_of_json(told) == value["sha256"]
        except ValueError as error:  # numbers that no JSON has, which Python reads
            raise InputError(f"the receipt cannot be read: {error}") from error
        if not is_unchanged:
            raise InputError("the receipt was changed after it was written: its sha256 is another one")
        try:
            return cls._read(told)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InputError(f"the receipt cannot be read: {error}") from error

    @classmethod
    def _read(cls, told: Mapping[str, Any]) -> Receipt:
        law, limits, target, draft = told["law"], told["limits"], told["target"], told["draft"]
        biases = {int(token): bias for token, bias in law["logit_bias"].items()}
        ids = told["prompt"]["ids"]
        return cls(
            version=told["leadout"],
            created=told["created"],
            target=ModelRecord(
                **{**target, "files": _files(target["files"]), "options": GgufOptions(**target["options"])}
            ),
            draft=None if draft is None else DraftRecord(name=draft["name"], files=_files(draft["files"])),
            prompt=PromptRecord(**{**told["prompt"], "ids": None if ids is None else tuple(ids)}),
            params=Params(**{**law, "logit_bias": biases}, **{**limits, "stop": tuple(limits["stop"])}),
            answers=tuple(AnswerRecord(**{**each, "ids": tuple(each["ids"])}) for each in told["answers"]),
        )


def read_receipt(path: Path) -> Receipt:
    """The receipt in a file; a whole response with one in it will do.

    Raises
    ------
    InputError
        If the file cannot be read, or what is in it is no receipt, or was changed.
    """
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"receipt {path} cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"receipt {path} is not JSON: {error}") from error
    is_response = isinstance(value, dict) and isinstance(value.get("receipt"), dict)
    return Receipt.from_json(value["receipt"] if is_response else value)


def _files(told: list[dict[str, Any]]) -> tuple[FileRecord, ...]:
    return tuple(FileRecord(**each) for each in told)
