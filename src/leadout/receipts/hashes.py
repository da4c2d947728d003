"""Hashes of what a receipt is about: files, ids, text, and the receipt itself."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from leadout.models.remember import Findings, key_of
from leadout.store.paths import resolve_path
from leadout.store.progress import NoProgress, Progress
from leadout.store.receipts import hash_file


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRecord:
    """A file as it was: its name without folders, its SHA-256 in hexadecimal, its size."""

    name: str
    sha256: str
    n_bytes: int


def record_files(
    path: Path, *, progress: Progress | None = None, folder: Path | None = None
) -> tuple[FileRecord, ...]:
    """All parts of a model's file.

    Hashing takes about a second for each GB. It is remembered until a file's size, time or beginning
    changes, in `folder` or else in leadout's cache folder.

    Raises
    ------
    ModelFileError
        If a part is missing.
    """
    findings = Findings("hashes", folder)
    return tuple(
        FileRecord(
            name=part.name,
            sha256=_hash_of_file(part, findings, progress or NoProgress()),
            n_bytes=part.stat().st_size,
        )
        for part in resolve_path(str(path))
    )


def hash_of_ids(ids: Sequence[int]) -> str:
    """SHA-256 of token ids as a JSON array without spaces."""
    return hashlib.sha256(canonical(list(ids))).hexdigest()


def hash_of_text(text: str) -> str:
    """SHA-256 of text as UTF-8."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def hash_of_json(value: Mapping[str, object]) -> str:
    """SHA-256 of an object's canonical JSON."""
    return hashlib.sha256(canonical(value)).hexdigest()


def canonical(value: object) -> bytes:
    """JSON in one form only: keys sorted, no spaces, ASCII, no NaN, 1.0 written as 1.

    The last, as JavaScript and others that pass a receipt on know one kind of number.
    """
    plain = _with_whole_numbers(value)
    return json.dumps(plain, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def _with_whole_numbers(value: object) -> object:
    match value:
        case float() if value.is_integer():
            return int(value)
        case dict():
            return {key: _with_whole_numbers(each) for key, each in value.items()}
        case list():
            return [_with_whole_numbers(each) for each in value]
    return value


def _hash_of_file(path: Path, findings: Findings, progress: Progress) -> str:
    key = key_of([path], {"finding": "sha256", "path": str(path)})
    known = findings.read(key)
    if isinstance(known, str):
        return known
    sha256 = hash_file(path, progress, f"hashing {path.name}")
    findings.write(key, sha256)
    return sha256
