"""What models there are: those known by name, and those whose files are on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from leadout.errors import StoreError
from leadout.store.catalogue import CatalogueModel
from leadout.store.hub import cached_repos, cached_snapshots
from leadout.store.ollama import ollama_names, resolve_ollama
from leadout.store.paths import is_file, is_folder
from leadout.store.settings import StoreSettings
from leadout.store.split import group_files

State = Literal["complete", "partial", "absent"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedModel:
    """Files of a model on this machine; `name` is what `resolve` takes, `n_bytes` what lies on the disk."""

    name: str
    path: Path
    n_bytes: int
    source: Literal["catalogue", "hub", "ollama"]
    state: Literal["complete", "partial"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRow:
    """One line of `leadout models`; `n_bytes` is the whole model's size, `path` is "" where absent."""

    name: str
    title: str
    source: Literal["catalogue", "hub", "ollama"]
    state: State
    n_bytes: int
    path: str
    licence: str = ""
    draft: str = ""
    notes: tuple[str, ...] = ()


def catalogue_entries(settings: StoreSettings | None = None) -> tuple[CatalogueModel, ...]:
    """Models that have a name of their own."""
    return (settings or StoreSettings.from_environment()).catalogue


def cached_models(settings: StoreSettings | None = None) -> list[CachedModel]:
    """Models with files here: leadout's cache, then the hub's, then Ollama's store. Hashes nothing."""
    settings = settings or StoreSettings.from_environment()
    return [*_catalogue(settings), *_hub(settings), *_ollama(settings)]


def models_overview(settings: StoreSettings | None = None) -> list[ModelRow]:
    """Lines of `leadout models`: the whole catalogue, then whatever else is cached."""
    settings = settings or StoreSettings.from_environment()
    cached = cached_models(settings)
    own = {model.name: model for model in cached if model.source == "catalogue"}
    rows = []
    for model in settings.catalogue:
        here = own.get(model.name)
        rows.append(
            ModelRow(
                name=model.name,
                title=model.title,
                source="catalogue",
                state=here.state if here else "absent",
                n_bytes=model.n_bytes,
                path=str(here.path) if here else "",
                licence=model.licence,
                draft=model.draft or "",
                notes=model.notes,
            )
        )
    rest = [model for model in cached if model.source != "catalogue"]
    rows += [
        ModelRow(name=m.name, title="", source=m.source, state=m.state, n_bytes=m.n_bytes, path=str(m.path))
        for m in rest
    ]
    return rows


def draft_to_fetch(target: str, settings: StoreSettings | None = None) -> str:
    """The catalogue's draft model for a target of this name, where that is not here; else ""."""
    rows = {row.name: row for row in models_overview(settings)}
    draft = rows.get(rows[target].draft) if target in rows else None
    return "" if draft is None or draft.state == "complete" else draft.name


def _catalogue(settings: StoreSettings) -> Iterator[CachedModel]:
    for model in settings.catalogue:
        folder = settings.model_dir(model)
        file = folder / model.file
        whole = [file, *_in_hub_cache(model, settings)]
        path = next((p for p in whole if is_file(p) and p.stat().st_size == model.n_bytes), None)
        if path is not None:
            yield CachedModel(
                name=model.name, path=path, n_bytes=model.n_bytes, source="catalogue", state="complete"
            )
        elif is_folder(folder) and (
            pieces := [
                p for p in folder.rglob("*") if p.suffix in (".whl", ".partial", ".gguf") and is_file(p)
            ]
        ):
            n_bytes = sum(p.stat().st_size for p in pieces)
            yield CachedModel(
                name=model.name, path=folder, n_bytes=n_bytes, source="catalogue", state="partial"
            )


def _in_hub_cache(model: CatalogueModel, settings: StoreSettings) -> Iterator[Path]:
    if model.hub is None:
        return
    for files in cached_snapshots(model.hub.repo, settings):
        if model.hub.file in files:
            yield files[model.hub.file]


def _hub(settings: StoreSettings) -> Iterator[CachedModel]:
    for repo in cached_repos(settings):
        for files in cached_snapshots(repo, settings)[:1]:
            for group in group_files(files):
                present = [files[name] for name in group.files if name in files]
                yield CachedModel(
                    name=f"hf:{repo}:{group.files[0]}",
                    path=present[0],
                    n_bytes=sum(path.stat().st_size for path in present),
                    source="hub",
                    state="partial" if group.missing else "complete",
                )


def _ollama(settings: StoreSettings) -> Iterator[CachedModel]:
    for name in ollama_names(settings):
        try:
            model = resolve_ollama(name, settings)
        except StoreError:  # no weights that could be loaded
            continue
        yield CachedModel(
            name=f"ollama:{name}",
            path=model.files[0],
            n_bytes=sum(path.stat().st_size for path in model.files),
            source="ollama",
            state="complete",
        )
