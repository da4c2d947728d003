"""Where models lie on this machine: folders, leadout's and the hub's caches, Ollama, LM Studio, llama.cpp.

Lists files and what to call them; what is in them, `inspect` says.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from leadout.errors import InputError, StoreError
from leadout.folders import home_folder
from leadout.store.names import parse_name
from leadout.store.ollama import ollama_names, resolve_ollama
from leadout.store.paths import existing_forms, is_folder
from leadout.store.settings import StoreSettings
from leadout.store.split import whole_name

Source = Literal["folder", "leadout", "hub", "ollama", "lmstudio", "llama.cpp"]

_MAX_DEPTH = 12
_HUB_FOLDER = "models--"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A folder to look through, whose it is, and how many folders deep."""

    folder: Path
    source: Source = "folder"
    depth: int = _MAX_DEPTH


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A file that may be a model; `name` is what ``--draft`` takes."""

    path: Path
    name: str
    source: Source


def folder_at(text: str) -> Path:
    """The folder that a user means: ``~`` expanded, relative to here, in whichever Unicode form exists.

    Raises
    ------
    InputError
        If there is no such folder; names the absolute path.
    """
    try:
        asked = Path(text).expanduser().absolute()
    except (OSError, RuntimeError) as error:
        raise InputError(f"folder {text}: {error}; write the whole path") from error
    forms = existing_forms(asked)
    found = next((form for form in forms if is_folder(form)), None)
    if found is None:
        what = "is not a folder; name the folder it is in" if forms else "does not exist; check the path"
        raise InputError(f"folder {asked} {what}")
    return found


def usual_places(
    settings: StoreSettings, environ: Mapping[str, str] = os.environ, home: Path | None = None
) -> list[Place]:
    """The folders where leadout, the hub's client, LM Studio and llama.cpp keep models, if they exist."""
    home = home or home_folder() or settings.cache_dir
    caches = Path(environ.get("XDG_CACHE_HOME") or home / ".cache")
    of_llama = {"darwin": home / "Library" / "Caches", "win32": Path(environ.get("LOCALAPPDATA") or home)}
    llama = Path(environ.get("LLAMA_CACHE") or of_llama.get(sys.platform, caches) / "llama.cpp")
    places = [
        Place(folder=settings.cache_dir / "models", source="leadout"),
        Place(folder=settings.hub_cache, source="hub"),
        *(
            Place(folder=home / each, source="lmstudio")
            for each in (".lmstudio/models", ".cache/lm-studio/models")
        ),
        Place(folder=llama, source="llama.cpp"),
    ]
    return [place for place in places if is_folder(place.folder)]


def find(places: Sequence[Place], settings: StoreSettings | None = None) -> tuple[list[Found], list[str]]:
    """Files that may be models, each once, in the order of the places; what could not be read, in words.

    Parameters
    ----------
    places : sequence of Place
        Folders; those inside them are looked through too, through links, but none twice.
    settings : StoreSettings or None
        Whose Ollama store is read as well, and whose catalogue names files; None leaves both out.

    Returns
    -------
    found : list of Found
        Of a split model the first part there is.
    notes : list of str
    """
    found: list[Found] = []
    notes: list[str] = []
    seen: set[object] = set()
    named = {} if settings is None else _catalogue_names(settings)
    for place in places:
        for path in _walk(place, notes):
            found.append(Found(path=path, name=named.get(path) or _name(path, place), source=place.source))
    if settings is not None:
        found += _ollama(settings, notes)
    return [each for each in found if not _is_known(each.path, seen)], notes


def _walk(place: Place, notes: list[str]) -> Iterator[Path]:
    """GGUF files below a folder, sorted; links are followed, each folder is entered once."""
    folder = place.folder
    entered: set[tuple[int, int]] = set()

    def refuse(error: OSError) -> None:
        notes.append(f"{error.filename} cannot be read ({error.strerror})")

    for root, folders, names in os.walk(folder, followlinks=True, onerror=refuse):
        here = Path(root)
        try:
            status = here.stat()
        except OSError as error:
            refuse(error)
            folders.clear()
            continue
        identity = (status.st_dev, status.st_ino)
        if identity in entered:
            folders.clear()
            continue
        entered.add(identity)
        if len(here.parts) - len(folder.parts) >= place.depth:
            folders.clear()
        folders[:] = sorted(each for each in folders if not _is_stale(here, each))
        ggufs = sorted(name for name in names if name.lower().endswith(".gguf"))
        firsts = {whole_name(name): name for name in reversed(ggufs)}  # of several parts the first there is
        yield from (here / name for name in ggufs if firsts[whole_name(name)] == name)


def _is_stale(parent: Path, name: str) -> bool:
    """Whether this is a folder of the hub's cache that holds nothing, or only what its snapshots link to."""
    is_repo = parent.name.startswith(_HUB_FOLDER)
    return (is_repo and name in ("blobs", "refs")) or name in (".no_exist", ".locks")


def _name(path: Path, place: Place) -> str:
    """What `resolve` takes for this file: hf:user/repo:file in the hub's cache, else its path."""
    if place.source == "hub":
        inside = path.relative_to(place.folder).parts
        words = inside[0].split("--")
        if len(words) == 3 and len(inside) > 3 and inside[1] == "snapshots":
            name = f"hf:{words[1]}/{words[2]}:{'/'.join(inside[3:])}"
            if _is_name(name):
                return name
    return str(path)


def _is_name(text: str) -> bool:
    try:
        parse_name(text)
    except StoreError:
        return False
    return True


def _catalogue_names(settings: StoreSettings) -> dict[Path, str]:
    return {settings.model_dir(model) / model.file: model.name for model in settings.catalogue}


def _ollama(settings: StoreSettings, notes: list[str]) -> Iterator[Found]:
    try:
        names = ollama_names(settings)
    except StoreError as error:
        notes.append(str(error))
        return
    for name in names:
        try:
            model = resolve_ollama(name, settings)
        except StoreError as error:
            notes.append(str(error))
            continue
        yield Found(path=model.files[0], name=f"ollama:{name}", source="ollama")


def _is_known(path: Path, seen: set[object]) -> bool:
    """Whether the same file was listed before, through whatever links; remembers it."""
    try:
        status = path.stat()
    except (OSError, ValueError):  # a link to nothing is still to be told about
        return False
    identity = (status.st_dev, status.st_ino) if stat.S_ISREG(status.st_mode) else path
    is_known = identity in seen
    seen.add(identity)
    return is_known
