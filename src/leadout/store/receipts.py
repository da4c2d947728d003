"""Hashes of files, and a small note beside a checked file so that it need not be hashed at every start."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path

from leadout.store.progress import Progress, stage

CHUNK_BYTES = 1 << 20
_NAME = "receipt.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """What was checked: the file, its hash, and the size and time by which a change would show."""

    path: str
    sha256: str
    n_bytes: int
    mtime_ns: int
    source: str


def read_receipt(folder: Path) -> Receipt | None:
    """Read the receipt in `folder`; None when there is none or it is not readable as one."""
    try:
        return Receipt(**json.loads((folder / _NAME).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def write_receipt(folder: Path, path: Path, *, sha256: str, source: str) -> None:
    """Note in `folder` that `path` has this hash now."""
    stat = path.stat()
    receipt = Receipt(
        path=str(path), sha256=sha256, n_bytes=stat.st_size, mtime_ns=stat.st_mtime_ns, source=source
    )
    folder.mkdir(parents=True, exist_ok=True)
    temporary = folder / f"{_NAME}.partial"
    temporary.write_text(json.dumps(asdict(receipt), indent=2) + "\n", encoding="utf-8")
    temporary.replace(folder / _NAME)


def is_receipt_of(receipt: Receipt | None, path: Path, sha256: str) -> bool:
    """Tell whether `receipt` says that `path`, unchanged since, has this hash."""
    if receipt is None or receipt.path != str(path) or receipt.sha256 != sha256:
        return False
    stat = path.stat()
    return receipt.n_bytes == stat.st_size and receipt.mtime_ns == stat.st_mtime_ns


def hash_file(path: Path, progress: Progress, label: str) -> str:
    """SHA-256 of a file, in hexadecimal, with progress."""
    digest = hashlib.sha256()
    with stage(progress, path.stat().st_size, label), path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            digest.update(chunk)
            progress.advance(len(chunk))
    return digest.hexdigest()
