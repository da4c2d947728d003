"""hf:user/repo[:quant|:file.gguf] to files: what the hub's cache holds, else what the hub holds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from leadout.errors import StoreError
from leadout.store.disk import no_space
from leadout.store.hub_client import HubUnreachableError, RemoteFile, RemoteRepo, download, list_repo
from leadout.store.names import HubName, is_plain_file_name
from leadout.store.paths import is_file, is_folder
from leadout.store.progress import Progress, stage
from leadout.store.quants import choose_files
from leadout.store.receipts import hash_file
from leadout.store.settings import StoreSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class HubModel:
    """The files of a hub model on this machine, first part first."""

    files: tuple[Path, ...]
    licence: str
    notes: tuple[str, ...] = ()


def resolve_hub(
    name: HubName, *, offline: bool, verify: bool, settings: StoreSettings, progress: Progress
) -> HubModel:
    """Find or fetch a hub model.

    A name that says which file it means is answered from the cache without asking the hub;
    `verify` always asks.

    Raises
    ------
    StoreError
        If nothing fits, several files fit, the hub refuses or cannot be reached and nothing is cached, there
        is no space, or (with `verify`) a file is not what the hub lists.
    """
    where = f"hf:{name.repo}"
    offline = offline or settings.hub_offline
    cached = _cached_choice(name, settings)
    if cached and (offline or (name.choice and not verify)):
        return HubModel(files=cached, licence="see the repository", notes=("from the hub's cache",))
    if offline:
        raise StoreError(_not_cached(name, settings))
    try:
        remote = list_repo(name.repo, settings)
    except HubUnreachableError as error:
        if not cached:
            raise
        return HubModel(files=cached, licence="see the repository", notes=(f"from the hub's cache: {error}",))
    names = choose_files(
        [file for file in remote.files if is_plain_file_name(file)], name.choice, where=where
    )
    files = _fetch(
        name.repo, [remote.files[n] for n in names], verify=verify, settings=settings, progress=progress
    )
    return HubModel(files=files, licence=remote.licence)


def fetch_hub_file(repo: str, file: str, sha256: str, settings: StoreSettings, progress: Progress) -> Path:
    """Fetch one file of known hash; where the hub lists another hash, nothing is downloaded.

    Raises
    ------
    StoreError
        As `resolve_hub`.
    """
    remote: RemoteRepo = list_repo(repo, settings)
    listed = remote.files.get(file)
    if listed is None or listed.sha256 != sha256:
        has = f"has SHA-256 {listed.sha256}" if listed else "is not there"
        raise StoreError(f"{file} of hf:{repo} {has}, it must have {sha256}; another source is needed")
    return _fetch(repo, [listed], verify=True, settings=settings, progress=progress)[0]


def cached_snapshots(repo: str, settings: StoreSettings) -> list[dict[str, Path]]:
    """GGUF files in the cache of `repo` by name, a dictionary a revision: `main` first, then the newest."""
    folder = settings.hub_cache / f"models--{repo.replace('/', '--')}"
    main = folder / "refs" / "main"
    commit = main.read_text(encoding="utf-8").strip() if is_file(main) else ""
    inside = (folder / "snapshots").glob("*") if is_folder(folder) else ()
    snapshots = [path for path in inside if is_folder(path)]
    snapshots.sort(key=lambda path: (path.name == commit, path.stat().st_mtime), reverse=True)
    found = [
        {file.relative_to(snapshot).as_posix(): file for file in _ggufs(snapshot)} for snapshot in snapshots
    ]
    return [files for files in found if files]


def cached_repos(settings: StoreSettings) -> list[str]:
    """Repositories that the hub's cache has anything of."""
    folders = settings.hub_cache.glob("models--*--*") if is_folder(settings.hub_cache) else ()
    return sorted("/".join(folder.name.split("--")[1:]) for folder in folders if folder.name.count("--") == 2)


def _ggufs(snapshot: Path) -> Iterator[Path]:
    return (path for path in sorted(snapshot.rglob("*")) if path.suffix.lower() == ".gguf" and is_file(path))


def _cached_choice(name: HubName, settings: StoreSettings) -> tuple[Path, ...]:
    for files in cached_snapshots(name.repo, settings):
        try:
            chosen = choose_files(list(files), name.choice, where="")
        except StoreError:  # an older revision may have it
            continue
        return tuple(files[file] for file in chosen)
    return ()


def _not_cached(name: HubName, settings: StoreSettings) -> str:
    asked = f"hf:{name.repo}" + (f":{name.choice}" if name.choice else "")
    present = sorted({file for files in cached_snapshots(name.repo, settings) for file in files})
    has = f"only {', '.join(present)} of it is" if present else "nothing of it is"
    return (
        f"{asked} is not cached and offline is set; {has} in {settings.hub_cache}: "
        f"run `leadout pull {asked}` online"
    )


def _fetch(
    repo: str, files: list[RemoteFile], *, verify: bool, settings: StoreSettings, progress: Progress
) -> tuple[Path, ...]:
    current = next(iter(cached_snapshots(repo, settings)), {})
    needed = sum(file.n_bytes for file in files if file.name not in current)
    if needed and (free := settings.free_bytes(settings.hub_cache)) < needed:
        raise no_space(settings.hub_cache, needed, free)
    with stage(progress, needed, f"fetching hf:{repo}"):
        paths = tuple(download(repo, file, settings, progress) for file in files)
    if verify:
        for file, path in zip(files, paths, strict=True):
            _verify(file, path, progress)
    return paths


def _verify(file: RemoteFile, path: Path, progress: Progress) -> None:
    if file.sha256 is None:  # small files outside large-file storage have none
        return
    digest = hash_file(path, progress, f"checking {file.name}")
    if digest == file.sha256:
        return
    path.resolve().unlink(missing_ok=True)  # the blob that a snapshot's link points to
    path.unlink(missing_ok=True)
    raise StoreError(
        f"{file.name} has SHA-256 {digest}, the hub lists {file.sha256}; the file was removed, fetch it again"
    )
