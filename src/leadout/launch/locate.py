"""From a model's name to what an engine is given, and to the files that can be looked at before."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from huggingface_hub import try_to_load_from_cache

from leadout.errors import InputError, ModelFileError, StoreError
from leadout.folders import expanded
from leadout.launch.engine import Engine
from leadout.launch.plan import ServedModel
from leadout.launch.vocabularies import read_json
from leadout.models.header import read_header
from leadout.store import Progress, resolve

_REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_READ_FILES = ("config.json", "tokenizer.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class Located:
    """A model for an engine; `path` is where its vocabulary can be read, None where it is not here."""

    model: ServedModel
    path: Path | None


def locate(name: str, engine: Engine, *, offline: bool = False, progress: Progress | None = None) -> Located:
    """Find a model for an engine.

    Parameters
    ----------
    name : str
        A .gguf file, a model folder, a catalogue name, hf:user/repo[:quant], ollama:name, a hub repository
        (user/repo) for engines that fetch themselves, or a name of the engine's own.
    engine : Engine
        Says which of these forms it takes.
    offline, progress
        As in `leadout.store.resolve`.

    Raises
    ------
    InputError
        If the engine does not take such a model; says what it takes.
    StoreError, ModelFileError
        If the name leads nowhere, or to a damaged file.
    """
    if not name.strip():
        raise InputError(f"the model's name is empty; {engine.title} takes {engine.takes}")
    folder = expanded(name)
    if folder.is_dir():
        return _folder(name, folder.absolute(), engine)
    if "gguf" in engine.forms:
        if _is_own_name(name, engine):
            return _name(name, engine)
        return _gguf(name, offline=offline, progress=progress)
    if name.lower().endswith(".gguf") or name.startswith(("hf:", "ollama:")) or folder.is_file():
        raise InputError(f"{engine.title} takes {engine.takes}, not {name!r}; {engine.instead}")
    if "name" not in engine.forms or (engine.takes_repositories and not _REPOSITORY.fullmatch(name)):
        raise InputError(f"{name!r} is no folder here; {engine.title} takes {engine.takes}")
    return _name(name, engine)


def _is_own_name(name: str, engine: Engine) -> bool:
    """Whether it is a name that the engine resolves, in an engine that takes GGUF files too."""
    if "name" not in engine.forms or name.startswith("hf:") or name.lower().endswith(".gguf"):
        return False
    return not expanded(name).is_file()


def _gguf(name: str, *, offline: bool, progress: Progress | None) -> Located:
    try:
        path = resolve(name, offline=offline, progress=progress).path.absolute()
    except StoreError as error:
        raise StoreError(f"{error}; this engine needs a GGUF file") from error
    header = read_header(path)
    model = ServedModel(
        name=name,
        given=str(path),
        form="gguf",
        n_bytes=header.n_bytes,
        n_ctx_train=header.n_ctx_train,
        architectures=(header.architecture,),
    )
    return Located(model=model, path=path)


def _folder(name: str, folder: Path, engine: Engine) -> Located:
    if "folder" not in engine.forms:
        raise InputError(f"{folder} is a folder; {engine.title} takes {engine.takes}")
    if not (folder / "config.json").is_file():
        raise ModelFileError(f"{folder} has no config.json, so it is no model folder; check the path")
    weights = [*folder.glob("*.safetensors"), *folder.glob("*.bin")]
    if not weights:
        raise ModelFileError(f"{folder} has no weights (*.safetensors); fetch the model again")
    config = read_json(folder / "config.json")
    n_bytes = sum(file.stat().st_size for file in weights)
    return Located(model=_of_config(name, str(folder), "folder", config, n_bytes), path=folder)


def _name(name: str, engine: Engine) -> Located:
    """A name for the engine; what the hub's cache has of it is read."""
    cached = [try_to_load_from_cache(name, file) for file in _READ_FILES] if engine.takes_repositories else []
    if len(cached) == len(_READ_FILES) and all(isinstance(path, str) for path in cached):
        folder = Path(str(cached[0])).parent
        model = _of_config(name, name, "name", read_json(folder / "config.json"), 0)
        return Located(model=model, path=folder)
    given = name.removeprefix("ollama:")
    return Located(model=ServedModel(name=name, given=given, form="name"), path=None)


def _of_config(name: str, given: str, form: Any, config: dict[str, Any], n_bytes: int) -> ServedModel:
    text_config = config.get("text_config", config)
    return ServedModel(
        name=name,
        given=given,
        form=form,
        n_bytes=n_bytes,
        n_ctx_train=int(text_config.get("max_position_embeddings") or 0),
        architectures=tuple(map(str, config.get("architectures") or ())),
    )
