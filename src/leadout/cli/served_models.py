"""Which models `leadout serve` serves, and what requests call them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from leadout.advise.candidates import Place, find, folder_at
from leadout.advise.inspect import inspect
from leadout.cli.output import note
from leadout.cli.progress import BarProgress
from leadout.errors import InputError
from leadout.models.remember import Findings
from leadout.store import resolve
from leadout.store.listing import cached_models

_PART = re.compile(r"-\d{5}-of-\d{5}$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A model to be served: what requests call it, what `leadout.load` takes, and its file."""

    name: str
    target: str
    path: Path


def listed(targets: Sequence[str], folder: str | None, *, offline: bool) -> list[Listed]:
    """The targets and the models in a folder; with neither, whatever the caches on this machine hold.

    Parameters
    ----------
    targets : sequence of str
        Fetched if need be.
    folder : str or None
        Looked through with the folders in it; a model's name is its path in there.
    offline : bool
        Make no network call.

    Raises
    ------
    LeadoutError
        If a target cannot be turned into files.
    InputError
        If there is no such folder, or no model at all.
    """
    models = [_target(each, offline=offline) for each in targets]
    if folder is not None:
        models += _in_folder(folder_at(folder))
    if not targets and folder is None:
        models = _cached()
    if not models:
        where = f"in {folder}" if folder is not None else "on this machine"
        raise InputError(f"there is no model {where} to serve; name one, see `leadout models`")
    return models


def _target(target: str, *, offline: bool) -> Listed:
    files = resolve(target, offline=offline, progress=BarProgress())
    name = files.path.stem if files.source == "path" else target
    return Listed(name=name, target=target, path=files.path)


def _in_folder(folder: Path) -> list[Listed]:
    found, notes = find([Place(folder=folder)])
    for unread in notes:
        note(unread)
    models = []
    for each in found:
        if _is_model(each.path):
            inside = each.path.relative_to(folder).with_suffix("").as_posix()
            models.append(Listed(name=_PART.sub("", inside), target=str(each.path), path=each.path))
    return models


def _cached() -> list[Listed]:
    """Those of leadout's, the hub's and Ollama's stores; the last by the names that Ollama lists."""
    models: dict[str, Listed] = {}
    for each in cached_models():
        name = each.name.removeprefix("ollama:")
        name = each.name if name in models else name
        if each.state == "complete" and _is_model(each.path):
            models[name] = Listed(name=name, target=each.name, path=each.path)
    return list(models.values())


def _is_model(path: Path) -> bool:
    """Whether it can be loaded, as far as its header tells; says why where it cannot."""
    problem = inspect(path, Findings("headers")).problem
    if problem:
        note(f"{path.name} is left out: {problem}")
    return not problem
