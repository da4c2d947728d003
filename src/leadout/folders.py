"""Folders as users write them, and where leadout keeps what it can make or fetch again."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import platformdirs

from leadout.errors import InputError


def cache_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """$LEADOUT_CACHE, else the user's cache folder of this system; it need not exist."""
    chosen = environ.get("LEADOUT_CACHE") or platformdirs.user_cache_dir("leadout", appauthor=False)
    return expanded(chosen)


def expanded(path: str | Path) -> Path:
    """The path with ``~`` and ``~user`` expanded.

    Raises
    ------
    InputError
        If there is no such home folder.
    """
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        raise InputError(f"path {path}: {error}; write the whole path") from error
