"""A draft model that knows nothing: the rows of every matrix of a real one in random order.

It has the vocabulary, the size and the speed of the real one, so it costs as much as a draft model can and
brings as little.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np

from leadout.folders import cache_folder
from leadout.models.model_files import read_front
from leadout.store.disk import disk_errors, exclusive
from leadout.store.progress import NoProgress, Progress, stage


def scrambled(
    source: Path, *, folder: Path | None = None, seed: int = 0, progress: Progress | None = None
) -> Path:
    """A copy of `source` with scrambled weights; made anew each time, whole or not at all.

    Parameters
    ----------
    source : Path
        A GGUF file in one part.
    folder : Path or None
        Where it is kept; None is "scrambled" in leadout's cache folder.
    seed : int
    progress : store.Progress or None

    Raises
    ------
    ModelFileError
        If the source is no GGUF file.
    StoreError
        If the folder cannot be written.
    """
    front = read_front(source)
    folder, progress = folder or cache_folder() / "scrambled", progress or NoProgress()
    file = folder / f"{source.stem}-scrambled.gguf"
    part = file.with_suffix(".part")
    start = front.n_bytes - max(each.offset + (each.n_bytes or 0) for each in front.tensors.values())
    random = np.random.default_rng(seed)
    with disk_errors(folder, front.n_bytes), exclusive(folder, progress):
        try:
            with stage(progress, front.n_bytes, f"scrambling {source.name}"):
                shutil.copyfile(source, part)
                for each in front.tensors.values():
                    if len(each.shape) == 2 and each.n_bytes:
                        rows = np.memmap(
                            part,
                            np.uint8,
                            "r+",
                            start + each.offset,
                            (each.shape[1], each.n_bytes // each.shape[1]),
                        )
                        rows[:] = rows[random.permutation(len(rows))]
                        rows.flush()
                        progress.advance(each.n_bytes)
            part.replace(file)
        finally:
            part.unlink(missing_ok=True)
    return file
