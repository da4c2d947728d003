"""Other quantisations of a model's weights, made once and kept in the cache folder.

For measurements: what is made of an already quantised file is no better than that file.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import time
from pathlib import Path

from leadout.bench.words import LastWords, child_environment
from leadout.errors import InputError, ProviderError
from leadout.folders import cache_folder
from leadout.models.header import read_header
from leadout.store.disk import disk_errors, exclusive, free_bytes, no_space
from leadout.store.progress import NoProgress, Progress, stage

BITS_PER_WEIGHT = {"q4_0": 4.5, "q4_1": 5.0, "q5_0": 5.5, "q8_0": 8.5, "f16": 16.0}
"""The formats that can be asked for, with the size of their blocks; small tensors stay larger."""

_LOOK_S = 0.2
_ROOM = 1.1
_PIECE = 1 << 20


def check_kind_of(name: str, kind: str) -> None:
    """Refuse a format that cannot be made; "" is none.

    Raises
    ------
    InputError
        Names those that can.
    """
    if kind and kind.lower() not in BITS_PER_WEIGHT:
        raise InputError(f"{name} is {kind!r}; it must be one of {', '.join(BITS_PER_WEIGHT)}")


def quantised(
    source: Path,
    kind: str,
    *,
    folder: Path | None = None,
    n_threads: int = 0,
    progress: Progress | None = None,
) -> Path:
    """The weights of `source` in another format; made now unless it was made before.

    The file's name has the hash of the source, so a changed source is made anew. It appears under its name
    only when it is whole, whatever interrupts the making.

    Parameters
    ----------
    source : Path
        A GGUF file in one part.
    kind : str
        One of `BITS_PER_WEIGHT`, in any case.
    folder : Path or None
        Where it is kept; None is "quantised" in leadout's cache folder.
    n_threads : int
        0 takes all cores.
    progress : store.Progress or None

    Raises
    ------
    InputError
        If there is no such format.
    ModelFileError
        If the source is no GGUF file.
    StoreError
        If there is no room, or the folder cannot be written.
    ProviderError
        If llama-cpp-python is missing or fails.
    """
    check_kind_of("quant", kind)
    kind, progress = kind.lower(), progress or NoProgress()
    header = read_header(source)
    folder = folder or cache_folder() / "quantised"
    file = folder / f"{source.stem}-{kind}-{_digest(source, progress)[:16]}.gguf"
    if file.is_file():
        return file
    expected = int(header.n_params * BITS_PER_WEIGHT[kind] / 8)
    with disk_errors(folder, expected), exclusive(folder, progress):
        if file.is_file():  # another process made it meanwhile
            return file
        if (free := free_bytes(folder)) < _ROOM * expected:
            raise no_space(folder, int(_ROOM * expected), free)
        part = file.with_suffix(".part")
        try:
            with stage(progress, expected, f"making {kind} of {source.name}"):
                _make(source, part, kind, n_threads, progress)
            part.replace(file)
        finally:
            part.unlink(missing_ok=True)
    return file


def _make(source: Path, part: Path, kind: str, n_threads: int, progress: Progress) -> None:
    """Run the library in a process of its own, which Ctrl-C ends at once."""
    words = LastWords()
    command = [
        sys.executable,
        "-P",
        "-m",
        "leadout.models.binding_quantise",
        str(source),
        str(part),
        kind,
        str(n_threads),
    ]
    process = subprocess.Popen(command, stdout=words.file, stderr=words.file, env=child_environment())
    try:
        seen = 0
        while process.poll() is None:
            time.sleep(_LOOK_S)
            size = part.stat().st_size if part.exists() else 0
            progress.advance(size - seen)
            seen = size
        if process.returncode:
            raise ProviderError(f"the weights of {source} cannot be made {kind}: {words.read()}")
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        words.close()


def _digest(source: Path, progress: Progress) -> str:
    digest = hashlib.sha256()
    with source.open("rb") as opened, stage(progress, source.stat().st_size, f"hashing {source.name}"):
        while piece := opened.read(_PIECE):
            digest.update(piece)
            progress.advance(len(piece))
    return digest.hexdigest()
