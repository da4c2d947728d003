"""The store's front door: a name in, files out."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from leadout.errors import StoreError
from leadout.store.catalogue import CatalogueModel
from leadout.store.fetch import resolve_catalogue
from leadout.store.hub import resolve_hub
from leadout.store.names import FORMS, HubName, OllamaName, PathName, parse_name
from leadout.store.ollama import resolve_ollama
from leadout.store.paths import resolve_path
from leadout.store.progress import NoProgress, Progress
from leadout.store.settings import StoreSettings

Source = Literal["path", "catalogue", "hub", "ollama"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """Where a model's files are.

    Parameters
    ----------
    name : str
        As asked for.
    files : tuple of Path, length >= 1
        All parts in order; `path` is the first, which is what a loader opens.
    source : Source
        Which form the name had.
    licence, notes
        Terms of the weights where known (else ""), and what the user should be told.
    """

    name: str
    files: tuple[Path, ...]
    source: Source
    licence: str = ""
    notes: tuple[str, ...] = ()

    @property
    def path(self) -> Path:
        """The first file."""
        return self.files[0]


def resolve(
    name: str,
    *,
    offline: bool = False,
    verify: bool = False,
    progress: Progress | None = None,
    settings: StoreSettings | None = None,
) -> Resolved:
    """Turn a model name into local files, fetching them if need be.

    Parameters
    ----------
    name : str
        hf:user/repo[:quant|:file.gguf], ollama:name[:tag], a path (it has a separator, ends in .gguf or is a
        file here), or a catalogue name.
    offline : bool
        True makes no network call and starts no process: what is cached works, the rest is an error.
    verify : bool
        Check hashes even of files that were checked before; ask the hub even if its cache could answer.
    progress : Progress or None
        Told of downloads and checks.
    settings : StoreSettings or None
        None reads the environment.

    Raises
    ------
    ModelFileError
        If a path is missing, a folder, or lacks parts.
    StoreError
        If another name cannot be turned into files: one line with the reason and the next step.
    """
    settings = settings or StoreSettings.from_environment()
    progress = progress or NoProgress()
    parsed = parse_name(name)
    if isinstance(parsed, PathName):
        return Resolved(name=name, files=resolve_path(parsed.text), source="path")
    if isinstance(parsed, HubName):
        hub = resolve_hub(parsed, offline=offline, verify=verify, settings=settings, progress=progress)
        return Resolved(name=name, files=hub.files, source="hub", licence=hub.licence, notes=hub.notes)
    if isinstance(parsed, OllamaName):
        ollama = resolve_ollama(parsed, settings)
        return Resolved(
            name=name, files=ollama.files, source="ollama", licence=ollama.licence, notes=ollama.notes
        )
    model = find_model(parsed.text, settings)
    path = resolve_catalogue(model, offline=offline, verify=verify, settings=settings, progress=progress)
    return Resolved(name=name, files=(path,), source="catalogue", licence=model.licence, notes=model.notes)


def pull(
    name: str,
    *,
    offline: bool = False,
    progress: Progress | None = None,
    settings: StoreSettings | None = None,
) -> Resolved:
    """Fetch a model unless it is here, and check it anyway; `offline` only checks. Raises as `resolve`."""
    return resolve(name, offline=offline, verify=True, progress=progress, settings=settings)


def find_model(name: str, settings: StoreSettings) -> CatalogueModel:
    """Look a catalogue name up, in any case.

    Raises
    ------
    StoreError
        If it is unknown, with the nearest names and the other forms a name can have.
    """
    by_name = {model.name: model for model in settings.catalogue}
    if (model := by_name.get(name.lower())) is not None:
        return model
    near = difflib.get_close_matches(name.lower(), by_name, n=3, cutoff=0.4)
    hint = f"nearest: {', '.join(near)}" if near else f"known: {', '.join(by_name)}"
    raise StoreError(f"model {name!r} is not in the catalogue ({hint}); a model is {FORMS}")
