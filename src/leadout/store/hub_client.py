"""The border to huggingface_hub: the two questions asked of it, and its errors turned into ours.

The library is imported only when the hub is really called; endpoint and cache folder are always passed, since
it reads the environment just once, when it is imported.
"""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

from leadout.errors import StoreError
from leadout.store.disk import FULL_DISK, free_bytes, no_space
from leadout.store.pip import redact
from leadout.store.progress import Progress
from leadout.store.settings import StoreSettings

T = TypeVar("T")

_TRANSPORT = frozenset({"httpx", "httpx2"})  # the HTTP library, by version of huggingface_hub


class HubUnreachableError(StoreError):
    """The hub did not answer, so that what is cached may be used instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteFile:
    """A file on the hub; `n_bytes` 0 and `sha256` None where the hub does not say."""

    name: str
    n_bytes: int
    sha256: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteRepo:
    """What a repository holds now."""

    files: dict[str, RemoteFile]
    licence: str


def list_repo(repo: str, settings: StoreSettings) -> RemoteRepo:
    """Ask the hub what `repo` holds; answers or fails within twice `settings.hub_timeout_s`.

    Raises
    ------
    HubUnreachableError
        If there is no answer.
    StoreError
        If the repository does not exist or needs a login.
    """
    from huggingface_hub import HfApi

    def ask() -> RemoteRepo:
        info = HfApi(endpoint=settings.hub_endpoint).model_info(
            repo, files_metadata=True, timeout=settings.hub_timeout_s
        )
        licence = info.card_data.license if info.card_data else None
        files = [
            RemoteFile(
                name=file.rfilename,
                n_bytes=file.size or 0,
                sha256=file.lfs.sha256 if file.lfs else None,
            )
            for file in info.siblings or ()
        ]
        return RemoteRepo(
            files={file.name: file for file in files}, licence=str(licence or "see the repository")
        )

    try:
        return _within(2 * settings.hub_timeout_s, ask)
    except Exception as error:  # the HTTP library below, and so its error classes, differ by hub version
        raise _our_error(error, repo, settings, needed=0) from error


def download(repo: str, file: RemoteFile, settings: StoreSettings, progress: Progress) -> Path:
    """Fetch one file into the hub's cache, unless it is there; return its path in the cache.

    Raises
    ------
    StoreError
        As `list_repo`, and if there is no space.
    """
    from huggingface_hub import hf_hub_download

    try:
        return Path(
            hf_hub_download(
                repo,
                file.name,
                cache_dir=settings.hub_cache,
                endpoint=settings.hub_endpoint,
                etag_timeout=settings.hub_timeout_s,
                tqdm_class=_bar_of(progress),
            )
        )
    except Exception as error:
        raise _our_error(error, repo, settings, needed=file.n_bytes) from error


def _within(seconds: float, call: Callable[[], T]) -> T:
    """Run `call` for at most `seconds`: a name look-up without a network obeys no timeout of its own."""
    outcome: queue.SimpleQueue[tuple[T | None, Exception | None]] = queue.SimpleQueue()

    def run() -> None:
        try:
            outcome.put((call(), None))
        except Exception as error:
            outcome.put((None, error))

    threading.Thread(target=run, name="leadout-hub", daemon=True).start()
    try:
        value, error = outcome.get(timeout=seconds)
    except queue.Empty:
        raise TimeoutError from None
    if error is not None:
        raise error
    return value  # type: ignore[return-value]  # None only beside an error


def _our_error(error: Exception, repo: str, settings: StoreSettings, *, needed: int) -> StoreError:
    """Say in one line what went wrong; the library's texts stay out, they can hold addresses with secrets."""
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    hub = redact(settings.hub_endpoint) if settings.hub_endpoint else "the Hugging Face hub"
    if isinstance(error, OSError) and error.errno in FULL_DISK:
        return no_space(settings.hub_cache, needed, free_bytes(settings.hub_cache))
    if isinstance(error, LocalEntryNotFoundError) and isinstance(error.__cause__, Exception):
        error = error.__cause__
    if isinstance(error, HfHubHTTPError):
        status = error.response.status_code
        if status in (401, 403):
            return StoreError(
                f"{hub} refuses hf:{repo} ({status}): it is gated, private or misspelt; accept its terms "
                "on its page, log in with `hf auth login` or set HF_TOKEN, then try again"
            )
        if status == 404:
            return StoreError(
                f"{hub} has no repository hf:{repo}, or not that file of it; check the spelling"
            )
        return HubUnreachableError(f"{hub} answered {status} for hf:{repo}; try again later")
    if isinstance(error, OSError) and error.errno is not None and error.filename is not None:
        return StoreError(
            f"cannot write {error.filename}: {error.strerror}; make it writable, "
            "or set HF_HOME to another folder"
        )
    if isinstance(error, json.JSONDecodeError):  # the login page of a network, for one
        return HubUnreachableError(f"what answers at {hub} is not a hub; check the network and HF_ENDPOINT")
    if isinstance(error, OSError) or type(error).__module__.partition(".")[0] in _TRANSPORT:
        return HubUnreachableError(
            f"{hub} cannot be reached for hf:{repo} ({type(error).__name__}); check the network, "
            "or use --offline with what is cached"
        )
    return StoreError(
        f"huggingface_hub {version('huggingface_hub')} failed on hf:{repo} ({type(error).__name__}); "
        "a current huggingface_hub may mend it"
    )


def _bar_of(progress: Progress) -> type[Any]:
    """Make a class that huggingface_hub takes for its progress bar and that reports to `progress`."""
    from tqdm import tqdm  # type: ignore[import-untyped]

    class Bar(tqdm):  # type: ignore[misc]
        """Draws nothing, counts bytes."""

        def __init__(self, **options: Any) -> None:
            super().__init__(**(options | {"disable": True}))
            progress.advance(int(options.get("initial") or 0))

        def update(self, n: float | None = 1) -> bool | None:
            progress.advance(int(n or 0))
            return None

        def update_transfer(self, n: float) -> None:
            """Ignore bytes on the wire: with this method, the library counts those of the file alone."""

    return Bar
