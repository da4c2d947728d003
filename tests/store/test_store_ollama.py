from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from leadout.errors import StoreError
from leadout.store import StoreSettings, cached_models, resolve

MEDIA = "application/vnd.ollama.image."
MakeSettings = Callable[..., StoreSettings]


def add(store: Path, name: str, layers: dict[str, bytes]) -> Path:
    """Write a model as Ollama does; `name` is host/namespace/model/tag. Returns the manifest."""
    entries = []
    (store / "blobs").mkdir(parents=True, exist_ok=True)
    for kind, data in layers.items():
        digest = hashlib.sha256(data).hexdigest()
        (store / "blobs" / f"sha256-{digest}").write_bytes(data)
        entries.append({"mediaType": MEDIA + kind, "digest": f"sha256:{digest}", "size": len(data)})
    manifest = store / "manifests" / name
    manifest.parent.mkdir(parents=True, exist_ok=True)
    manifest.write_text(json.dumps({"schemaVersion": 2, "config": {}, "layers": entries}))
    return manifest


@pytest.fixture
def store(tmp_path: Path) -> Path:
    folder = tmp_path / "ollama"
    add(
        folder,
        "registry.ollama.ai/library/llama3/latest",
        {"model": b"GGUF l", "license": b"\n MIT License\nmore"},
    )
    add(folder, "registry.ollama.ai/aaa/llava/13b", {"model": b"GGUF v", "projector": b"p", "adapter": b"a"})
    add(folder, "hf.co/User/Repo-GGUF/Q4_K_M", {"model": b"GGUF h"})
    return folder


@pytest.fixture
def settings(make_settings: MakeSettings, store: Path) -> StoreSettings:
    return make_settings(ollama_dirs=(store.parent / "not-there", store))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("ollama:llama3", b"GGUF l"),
        ("ollama:llama3:latest", b"GGUF l"),
        ("ollama:library/llama3", b"GGUF l"),
        ("ollama:aaa/llava:13b", b"GGUF v"),
        ("ollama:hf.co/User/Repo-GGUF:Q4_K_M", b"GGUF h"),
        ("ollama:hf.co/user/repo-gguf:q4_k_m", b"GGUF h"),
    ],
)
def test_weights_are_found_by_every_name_ollama_takes(
    settings: StoreSettings, name: str, content: bytes
) -> None:
    resolved = resolve(name, settings=settings)
    assert resolved.source == "ollama"
    assert resolved.path.read_bytes() == content


def test_licence_and_unused_layers_are_told(settings: StoreSettings) -> None:
    assert resolve("ollama:llama3", settings=settings).licence == "MIT License"
    assert resolve("ollama:aaa/llava:13b", settings=settings).notes == (
        "a LoRA adapter of ollama:aaa/llava:13b is not used",
        "an image projector of ollama:aaa/llava:13b is not used",
    )


def test_listed_names_can_be_resolved(settings: StoreSettings) -> None:
    listed = [model for model in cached_models(settings) if model.source == "ollama"]
    assert [m.name for m in listed] == [
        "ollama:aaa/llava:13b",
        "ollama:hf.co/User/Repo-GGUF:Q4_K_M",
        "ollama:llama3:latest",
    ]
    for model in listed:
        assert resolve(model.name, settings=settings).path == model.path


def test_an_unknown_model_lists_what_there_is(settings: StoreSettings) -> None:
    message = r"has no mistral:latest; it has aaa/llava:13b, hf\.co/User/Repo-GGUF:Q4_K_M, llama3:latest: run"
    with pytest.raises(StoreError, match=message):
        resolve("ollama:mistral", settings=settings)


def test_without_a_store_the_folders_looked_in_are_named(make_settings: MakeSettings, tmp_path: Path) -> None:
    with pytest.raises(
        StoreError, match=r"no Ollama store found \(looked in .*nowhere\); .*set OLLAMA_MODELS"
    ):
        resolve("ollama:llama3", settings=make_settings(ollama_dirs=(tmp_path / "nowhere",)))
    assert cached_models(make_settings(ollama_dirs=(tmp_path / "nowhere",))) == []


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        "{}",
        '{"layers": [{"mediaType": "x"}]}',
        f'{{"layers": [{{"mediaType": "{MEDIA}model", "digest": "sha256:../../x", "size": 1}}]}}',
        '{"layers": [' + " " * (1 << 20) + "]}",
    ],
)
def test_a_broken_manifest_is_named(settings: StoreSettings, store: Path, text: str) -> None:
    (store / "manifests" / "registry.ollama.ai" / "library" / "llama3" / "latest").write_text(text)
    with pytest.raises(
        StoreError, match=r"the Ollama manifest .*llama3.latest cannot be read .*run `ollama pull llama3"
    ):
        resolve("ollama:llama3", settings=settings)
    assert "ollama:llama3:latest" not in [model.name for model in cached_models(settings)]


def test_a_missing_or_incomplete_blob_is_named(settings: StoreSettings) -> None:
    blob = resolve("ollama:llama3", settings=settings).path
    blob.write_bytes(b"GG")
    with pytest.raises(
        StoreError, match=r"has 2 bytes, its manifest says 6; run `ollama pull llama3:latest` again"
    ):
        resolve("ollama:llama3", settings=settings)
    blob.unlink()
    with pytest.raises(StoreError, match=r"names the blob .*sha256-[0-9a-f]{64}, which is missing"):
        resolve("ollama:llama3", settings=settings)


def test_a_model_without_gguf_weights_is_refused(settings: StoreSettings, store: Path) -> None:
    add(store, "registry.ollama.ai/library/cloud/latest", {"tensor": b"t", "params": b"{}"})
    with pytest.raises(StoreError, match=r"holds no GGUF weights \(its layers are params, tensor\)"):
        resolve("ollama:cloud", settings=settings)


def test_the_store_is_never_written(settings: StoreSettings, store: Path) -> None:
    before = sorted((str(p), p.stat().st_mtime_ns) for p in store.rglob("*"))
    resolve("ollama:llama3", settings=settings)
    cached_models(settings)
    assert sorted((str(p), p.stat().st_mtime_ns) for p in store.rglob("*")) == before
