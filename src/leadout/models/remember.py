"""Small findings about model files, remembered on disk under everything they depend on."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from leadout.folders import cache_folder
from leadout.models.cpu import read_cpu

_N_HASHED_BYTES = 1 << 20


def key_of(parts: Sequence[Path], facts: Mapping[str, object]) -> str:
    """A name for a finding: the model's files, this CPU, and the `facts` (data of JSON) it depends on.

    Raises
    ------
    OSError
        If a file cannot be read.
    """
    everything = {**facts, "files": [_identity(part) for part in parts], "cpu": read_cpu().model}
    return hashlib.sha256(json.dumps(everything, sort_keys=True).encode()).hexdigest()


class Findings:
    """A folder of findings of one kind.

    Parameters
    ----------
    kind : str
        The folder's name inside leadout's cache folder.
    folder : Path or None
        The folder itself, instead.
    """

    def __init__(self, kind: str, folder: Path | None = None) -> None:
        self._folder = folder or cache_folder() / kind

    def read(self, key: str) -> object:
        """What was written under `key`; None when nothing was, or it cannot be read."""
        file = self._file(key)
        try:
            return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else None
        except (OSError, ValueError, RecursionError):
            return None

    def write(self, key: str, finding: object) -> None:
        """Remember data of JSON; a folder that cannot be written costs time later, nothing else."""
        with suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True)
            descriptor, name = tempfile.mkstemp(dir=self._folder, suffix=".part")
            part = Path(name)
            try:
                with os.fdopen(descriptor, "w", encoding="utf-8") as opened:
                    json.dump(finding, opened)
                part.replace(self._file(key))
            except BaseException:
                with suppress(OSError):
                    part.unlink()
                raise

    def _file(self, key: str) -> Path:
        return self._folder / f"{key}.json"


def _identity(file: Path) -> list[str | int]:
    status = file.stat()
    with file.open("rb") as opened:
        digest = hashlib.sha256(opened.read(_N_HASHED_BYTES)).hexdigest()
    return [digest, status.st_size, status.st_mtime_ns]
