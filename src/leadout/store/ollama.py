"""ollama:name[:tag] to files: Ollama's store on this machine, read and never written.

Layout: manifests/<host>/<namespace>/<name>/<tag> is an image manifest (JSON) whose layer of media type
application/vnd.ollama.image.model names the weights, blobs/sha256-<hex>.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

from leadout.errors import StoreError
from leadout.store.names import OllamaName
from leadout.store.paths import is_file, is_folder
from leadout.store.settings import StoreSettings

_MEDIA = "application/vnd.ollama.image."
_DIGEST = re.compile(r"sha256[:-]([0-9a-f]{64})")
_MAX_MANIFEST_BYTES = 1 << 20
_MAX_LISTED = 12
_IGNORED = {"adapter": "a LoRA adapter", "projector": "an image projector"}


@dataclass(frozen=True, slots=True, kw_only=True)
class OllamaModel:
    """The weights of an Ollama model."""

    files: tuple[Path, ...]
    licence: str
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Layer:
    kind: str  # "model", "adapter", "projector", "license", ...
    path: Path
    n_bytes: int


def resolve_ollama(name: OllamaName, settings: StoreSettings) -> OllamaModel:
    """Find the weights of a model that Ollama has pulled.

    Raises
    ------
    StoreError
        If there is no store or no such model (with a list of what there is), the manifest is broken, or a
        blob is missing or incomplete.
    """
    store = _store(settings)
    listed = ollama_names(settings)
    match = name if name in listed else next((n for n in listed if str(n).lower() == str(name).lower()), None)
    if match is None:
        names = ", ".join(map(str, listed[:_MAX_LISTED])) or "nothing"
        raise StoreError(f"Ollama's store {store} has no {name}; it has {names}: run `ollama pull {name}`")
    layers = _layers(store, match)
    weights = [layer for layer in layers if layer.kind == "model"]
    if not weights:
        kinds = ", ".join(sorted({layer.kind for layer in layers}))
        raise StoreError(
            f"ollama:{match} holds no GGUF weights (its layers are {kinds}); "
            "leadout reads GGUF models only, choose another"
        )
    for layer in weights:
        _check_blob(layer, match)
    notes = [f"{what} of ollama:{match} is not used" for kind, what in _IGNORED.items() if _has(layers, kind)]
    return OllamaModel(files=tuple(x.path for x in weights), licence=_licence(layers), notes=tuple(notes))


def ollama_names(settings: StoreSettings) -> list[OllamaName]:
    """Every model with a manifest in the first Ollama store there is, sorted as they are written."""
    folder = next((d / "manifests" for d in settings.ollama_dirs if is_folder(d / "manifests")), None)
    if folder is None:
        return []
    try:
        found = [path.relative_to(folder).parts for path in folder.glob("*/*/*/*") if path.is_file()]
    except OSError as error:
        raise StoreError(
            f"cannot read Ollama's store {folder}: {error.strerror}; make it readable"
        ) from error
    names = [OllamaName(host=p[0], namespace=p[1], model=p[2], tag=p[3]) for p in found if not _is_hidden(p)]
    return sorted(names, key=str)


def _store(settings: StoreSettings) -> Path:
    for folder in settings.ollama_dirs:
        if is_folder(folder / "manifests"):
            return folder
    looked = ", ".join(map(str, settings.ollama_dirs)) or "no folder"
    raise StoreError(
        f"no Ollama store found (looked in {looked}); pull a model with Ollama, or set OLLAMA_MODELS"
    )


def _is_hidden(parts: tuple[str, ...]) -> bool:
    return any(part.startswith(".") for part in parts)


def _has(layers: list[_Layer], kind: str) -> bool:
    return any(layer.kind == kind for layer in layers)


def _layers(store: Path, name: OllamaName) -> list[_Layer]:
    path = store / "manifests" / name.host / name.namespace / name.model / name.tag
    try:
        if path.stat().st_size > _MAX_MANIFEST_BYTES:
            raise ValueError(f"larger than {_MAX_MANIFEST_BYTES:,} bytes")  # noqa: TRY301
        return [_layer(store, entry) for entry in json.loads(path.read_text(encoding="utf-8"))["layers"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StoreError(
            f"the Ollama manifest {path} cannot be read ({type(error).__name__}: {error}); "
            f"run `ollama pull {name}` again"
        ) from error


def _layer(store: Path, entry: dict[str, object]) -> _Layer:
    digest = _DIGEST.fullmatch(str(entry["digest"]))
    if digest is None:
        raise ValueError(f"digest {entry['digest']!r} is not sha256:<64 hexadecimal digits>")
    return _Layer(
        kind=str(entry["mediaType"]).removeprefix(_MEDIA),
        path=store / "blobs" / f"sha256-{digest[1]}",
        n_bytes=int(str(entry["size"])),
    )


def _check_blob(layer: _Layer, name: OllamaName) -> None:
    if not is_file(layer.path):
        raise StoreError(
            f"ollama:{name} names the blob {layer.path}, which is missing; run `ollama pull {name}` again"
        )
    size = layer.path.stat().st_size
    if size != layer.n_bytes:
        raise StoreError(
            f"the blob {layer.path} of ollama:{name} has {size:,} bytes, "
            f"its manifest says {layer.n_bytes:,}; run `ollama pull {name}` again"
        )


def _licence(layers: list[_Layer]) -> str:
    """First line of the licence text that came with the model."""
    for layer in layers:
        if layer.kind == "license" and is_file(layer.path):
            with layer.path.open(encoding="utf-8", errors="replace") as file:
                lines = (line.strip() for line in file.read(4096).splitlines())
                return next((line[:100] for line in lines if line), "see the model's page")
    return "see the model's page"
