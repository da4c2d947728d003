"""Space, locks and the mapping of disk errors to ours."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from leadout.errors import StoreError
from leadout.store.progress import Progress, stage

FULL_DISK = frozenset({errno.ENOSPC, errno.EDQUOT}) if hasattr(errno, "EDQUOT") else frozenset({errno.ENOSPC})


def free_bytes(folder: Path) -> int:
    """Free bytes of the disk that holds `folder`, which need not exist yet."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return shutil.disk_usage(folder).free


def no_space(folder: Path, needed: int, free: int) -> StoreError:
    """Build the error for a disk that cannot hold `needed` more bytes."""
    return StoreError(
        f"no space left in {folder}: {needed:,} bytes are needed, {free:,} are free; "
        "free some space, or set LEADOUT_CACHE (HF_HOME for hub models) to a folder on a larger disk"
    )


@contextmanager
def disk_errors(folder: Path, needed: int) -> Iterator[None]:
    """Turn a full disk and other failures to write below `folder` into StoreError."""
    try:
        yield
    except OSError as error:
        if error.errno in FULL_DISK:
            raise no_space(folder, needed, free_bytes(folder)) from error
        reason = error.strerror or type(error).__name__
        where = error.filename or folder
        raise StoreError(
            f"cannot write {where}: {reason}; make it writable, or set LEADOUT_CACHE to another folder"
        ) from error


@contextmanager
def exclusive(folder: Path, progress: Progress) -> Iterator[None]:
    """Hold `folder` for this process alone; a second process waits, however long that takes."""
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / ".lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        with stage(progress, 0, f"waiting for another process that fetches {folder.name}"):
            lock.acquire()
    try:
        yield
    finally:
        lock.release()
