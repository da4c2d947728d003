"""Where the store looks and writes: one value, read once from the environment."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from leadout.folders import cache_folder, expanded, home_folder
from leadout.store.catalogue import CATALOGUE, CatalogueModel
from leadout.store.disk import free_bytes

_TRUE = {"1", "on", "yes", "true"}


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSettings:
    """Folders, sources and limits of the store.

    Parameters
    ----------
    cache_dir : Path
        leadout's own cache; models lie in `models/<name>/`.
    hub_cache : Path
        The cache that huggingface_hub keeps, shared with other programs.
    hub_endpoint : str or None
        Address of the hub; None is the library's own default.
    hub_offline : bool
        Never call the hub.
    hub_timeout_s : float
        Seconds the hub may take to answer a question before it counts as unreachable.
    ollama_dirs : tuple of Path
        Folders with Ollama's `manifests` and `blobs`; the first that exists is read.
    catalogue : tuple of CatalogueModel
        The models known by name.
    python : str
        Interpreter whose pip fetches packages.
    pip_environment : mapping
        Variables added to pip's environment.
    free_bytes : callable
        Free bytes of the disk that holds a folder.
    """

    cache_dir: Path
    hub_cache: Path
    hub_endpoint: str | None = None
    hub_offline: bool = False
    hub_timeout_s: float = 4.0
    ollama_dirs: tuple[Path, ...] = ()
    catalogue: tuple[CatalogueModel, ...] = CATALOGUE
    python: str = sys.executable
    pip_environment: Mapping[str, str] = field(default_factory=dict)
    free_bytes: Callable[[Path], int] = free_bytes

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] = os.environ) -> StoreSettings:
        """Settings from LEADOUT_CACHE and the variables that the hub's client and Ollama use themselves."""
        offline = environ.get("HF_HUB_OFFLINE") or environ.get("TRANSFORMERS_OFFLINE") or ""
        return cls(
            cache_dir=cache_folder(environ),
            hub_cache=_hub_cache(environ),
            hub_endpoint=(environ.get("HF_ENDPOINT") or "").rstrip("/") or None,
            hub_offline=offline.lower() in _TRUE,
            ollama_dirs=_ollama_dirs(environ),
        )

    def model_dir(self, model: CatalogueModel) -> Path:
        """Folder of a catalogue model in leadout's cache."""
        return self.cache_dir / "models" / model.name


def _hub_cache(environ: Mapping[str, str]) -> Path:
    """The folder that huggingface_hub would use (its documented variables, in its order)."""
    explicit = environ.get("HF_HUB_CACHE") or environ.get("HUGGINGFACE_HUB_CACHE")
    if explicit:
        return expanded(explicit)
    if chosen := environ.get("HF_HOME"):
        return expanded(chosen) / "hub"
    home = home_folder()
    usual = cache_folder(environ) if home is None else home / ".cache"
    return expanded(environ.get("XDG_CACHE_HOME") or usual) / "huggingface" / "hub"


def _ollama_dirs(environ: Mapping[str, str]) -> tuple[Path, ...]:
    """$OLLAMA_MODELS alone, else the folders of a user's and of the usual system-wide installations."""
    explicit = environ.get("OLLAMA_MODELS")
    if explicit:
        return (expanded(explicit),)
    home = home_folder()
    return (
        *(() if home is None else (home / ".ollama/models",)),
        Path("/usr/share/ollama/.ollama/models"),
        Path("/var/lib/ollama/.ollama/models"),
        Path("/var/lib/ollama/models"),
        Path("/var/snap/ollama/common/models"),
    )
