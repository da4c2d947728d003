"""leadout's own comparison of target and draft vocabulary, before any engine is asked.

Most engines compare a size or nothing, and then draft in vain. Reads GGUF metadata or tokenizer.json, never
weights.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

from leadout.errors import ModelFileError
from leadout.models.base import Vocabulary
from leadout.models.header import read_header
from leadout.models.match import match_vocabularies

Agreement = Literal["same", "padded", "close", "different", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """How far two vocabularies agree.

    Parameters
    ----------
    agreement : Agreement
        "same": every token, and as many rows. "padded": every token, but a number of rows that differs by
        padding. "close": few ids differ, as between versions of one tokenizer. "different": the draft model
        cannot draft with ids. "unknown": the files are not on this machine.
    sentence : str
        The finding in words.
    n_target, n_draft : int
        Rows of the two output layers; 0 where unknown.
    """

    agreement: Agreement
    sentence: str
    n_target: int = 0
    n_draft: int = 0


def compare(target: Path | None, draft: Path | None) -> Verdict:
    """Compare two models' vocabularies by their files: a GGUF file, or a folder with tokenizer.json.

    Raises
    ------
    ModelFileError
        If a file is damaged, or has no vocabulary.
    """
    if target is None or draft is None:
        return Verdict(
            agreement="unknown",
            sentence="the vocabularies were not compared, as the models are not on this machine",
        )
    ours, theirs = _read(target), _read(draft)
    match = match_vocabularies(cast("Vocabulary", ours), cast("Vocabulary", theirs))
    agreement: Agreement
    if not match.usable:
        agreement = "different"
    elif match.n_shared < match.n_tokens or any(
        token < match.draft_size and _has_text(theirs, token) for token in match.differing
    ):
        agreement = "close"
    else:
        agreement = "same" if ours.size == theirs.size else "padded"
    return Verdict(
        agreement=agreement,
        sentence=f"the draft's vocabulary is {match.explain()}",
        n_target=ours.size,
        n_draft=theirs.size,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entries:
    """The part of a vocabulary that is compared."""

    texts: Sequence[str]
    bos: int | None
    eos: int | None
    adds_bos: bool

    @property
    def size(self) -> int:
        return len(self.texts)

    def text(self, token: int) -> str:
        return self.texts[token]


def _has_text(entries: _Entries, token: int) -> bool:
    return bool(entries.text(token)) and not entries.text(token).startswith("[PAD")


def _read(path: Path) -> _Entries:
    return _read_folder(path) if path.is_dir() else _read_gguf(path)


def _read_gguf(path: Path) -> _Entries:
    header = read_header(path)

    def number(key: str) -> int | None:
        value = header.metadata.get(f"tokenizer.ggml.{key}")
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    if not header.tokens:
        raise ModelFileError(f"{path} has no vocabulary; it is no model that could be served or draft")
    return _Entries(
        texts=list(header.tokens),
        bos=number("bos_token_id"),
        eos=number("eos_token_id"),
        adds_bos=bool(header.metadata.get("tokenizer.ggml.add_bos_token", False)),
    )


def _read_folder(folder: Path) -> _Entries:
    """tokenizer.json's tokens by id, as many rows as config.json says; absent ids are padding."""
    tokenizer, config = read_json(folder / "tokenizer.json"), read_json(folder / "config.json")
    by_id: dict[int, str] = {}
    vocab = tokenizer.get("model", {}).get("vocab", {})
    if isinstance(vocab, dict):
        by_id = {int(token): text for text, token in vocab.items()}
    elif isinstance(vocab, list):  # Unigram: (text, score) by rank
        by_id = {token: str(entry[0]) for token, entry in enumerate(vocab)}
    by_id |= {int(added["id"]): str(added["content"]) for added in tokenizer.get("added_tokens", [])}
    if not by_id:
        raise ModelFileError(f"{folder / 'tokenizer.json'} holds no tokens; fetch the model again")
    text_config = config.get("text_config", config)
    n_rows = max(int(text_config.get("vocab_size") or 0), max(by_id) + 1)
    eos = config.get("eos_token_id")
    return _Entries(
        texts=[by_id.get(token, "") for token in range(n_rows)],
        bos=_whole(config.get("bos_token_id")),
        eos=_whole(eos[0] if isinstance(eos, list) and eos else eos),
        adds_bos=False,
    )


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file.

    Raises
    ------
    ModelFileError
        If it is missing or no JSON object.
    """
    try:
        read = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ModelFileError(f"{path} is missing; a model folder needs it, fetch the model again") from error
    except (OSError, ValueError) as error:
        raise ModelFileError(f"{path} cannot be read: {error}; fetch the model again") from error
    if not isinstance(read, dict):
        raise ModelFileError(f"{path} is not a JSON object; fetch the model again")
    return read
