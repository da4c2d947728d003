"""Folders as users write them, and where leadout keeps what it can make or fetch again."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import platformdirs

from leadout.errors import InputError


def cache_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """$LEADOUT_CACHE, else the user's cache folder of this system; it need not exist.

    Raises
    ------
    InputError
        If neither is known, as for a user without a home.
    """
    if chosen := environ.get("LEADOUT_CACHE"):
        return expanded(chosen)
    try:
        return expanded(platformdirs.user_cache_dir("leadout", appauthor=False))
    except (RuntimeError, InputError) as error:
        raise InputError(
            "this user has no home folder to keep a cache in; set LEADOUT_CACHE to a folder"
        ) from error


def home_folder() -> Path | None:
    """The user's home folder; None for users who have none, as in some containers."""
    try:
        return Path.home()
    except RuntimeError:
        return None


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
