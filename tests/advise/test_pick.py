"""Which file drafts best, and why not the others."""

import os
import time
import unicodedata

import pytest
from model_folder import mixed_folder, write_other

from leadout.advise.auto import choose_draft
from leadout.advise.candidates import Place, find, folder_at, usual_places
from leadout.advise.inspect import facts_of
from leadout.advise.known import remember_prediction
from leadout.advise.pick import Picker
from leadout.advise.predict import Prediction, Speedup
from leadout.errors import InputError
from leadout.models.header import read_header
from leadout.models.options import GgufOptions
from leadout.store import resolve
from leadout.store.listing import cached_models
from leadout.store.settings import StoreSettings
from leadout.testing.tiny_gguf import write_split_gguf, write_tiny_gguf
from real_models import real_model

MUCH = 10**12


def pick(target, *folders, cache, options=None, free=MUCH, settings=None):
    picker = Picker(read_header(target), options or GgufOptions(), free, folder=cache)
    found, notes = find([Place(folder=folder) for folder in folders], settings)
    return picker.pick(found, notes)


def told(speedup, lookups=1.0, agreement=0.8):
    of = Speedup(speedup=speedup, low=speedup - 0.05, high=speedup + 0.05)
    alone = Speedup(speedup=lookups, low=lookups - 0.05, high=lookups + 0.05)
    return Prediction(
        kinds=(), speedup=of, lookups=alone, agreement=agreement, target_s=0.06, draft_s=0.01
    )  # fmt: skip


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "cache"


def test_every_file_of_a_mixed_folder_is_ranked_or_ruled_out_with_its_reason(tmp_path, cache):
    target = mixed_folder(tmp_path / "models")
    started = time.perf_counter()
    picks = pick(target, tmp_path / "models", cache=cache)
    assert time.perf_counter() - started < 3
    assert [each.facts.path for each in picks.fit] == [str(tmp_path / "models" / "fit.gguf")]
    reasons = {os.path.basename(each.name): each.reason for each in picks.ruled_out}  # noqa: PTH119
    expected = {
        "target.gguf": "the target itself",
        "innocent-name.gguf": "projector",
        "embed.gguf": "embedding",
        "style.gguf": "adapter",
        "vocab.gguf": "without weights",
        "split-00001-of-00003.gguf": "missing",
        "bigger.gguf": "as large as the target, or nearly, or larger",
        "broken.gguf": "damaged or cut short",
    }
    assert set(reasons) == set(expected)
    for name, said in expected.items():
        assert said in reasons[name]
    assert "fit.gguf" in picks.verdict.sentence


@pytest.mark.pair
def test_real_models_are_ranked_by_what_they_cost(cache):
    target = real_model("qwen2.5-coder-1.5b")
    draft = real_model("qwen2.5-coder-0.5b")
    picks = pick(target, draft.parent, cache=cache)
    assert [each.facts.path for each in picks.fit] == [str(draft)]
    assert "same" in picks.fit[0].vocabulary or "compatible" in picks.fit[0].vocabulary
    assert picks.fit[0].estimate.speedup > 1
    started = time.perf_counter()
    again = pick(target, draft.parent, cache=cache)
    assert again == picks
    assert time.perf_counter() - started < 1.5


def test_a_measured_draft_ranks_by_its_measurement(tmp_path, cache):
    target = mixed_folder(tmp_path / "models")
    slow = tmp_path / "models" / "fit.gguf"
    better = write_tiny_gguf(tmp_path / "models" / "better.gguf", n_layers=4)
    for path, speedup in ((slow, 0.97), (better, 1.4)):
        remember_prediction(
            target, path, GgufOptions(), "auto", prediction=told(speedup), findings=findings(cache, "checks")
        )
    picks = pick(target, tmp_path / "models", cache=cache)
    assert [(os.path.basename(each.name), each.estimate.speedup) for each in picks.fit] == [  # noqa: PTH119
        ("better.gguf", 1.4),
        ("fit.gguf", 0.97),
    ]
    assert picks.winner is picks.fit[0]
    assert "Recommended: predicted 1.40x plain decoding (measured by a check)." in picks.verdict.sentence
    assert picks.command("my target") == f"leadout chat 'my target' --draft {better}"


def test_lookups_are_the_answer_where_they_pay_more(tmp_path, cache):
    target = mixed_folder(tmp_path / "models")
    one = told(1.3, lookups=1.35)
    remember_prediction(
        target, tmp_path / "models" / "fit.gguf", GgufOptions(), "auto", prediction=one,
        findings=findings(cache, "checks"),
    )  # fmt: skip
    picks = pick(target, tmp_path / "models", cache=cache)
    assert (picks.winner, picks.verdict.advice) == (None, "lookups")
    assert "no draft model, lookups pay as much or more (1.35x)" in picks.verdict.sentence
    assert picks.command("t").endswith("--draft suffix")


def test_a_target_can_be_too_small_to_gain(tmp_path, cache):
    target = (
        write_tiny_gguf(tmp_path / "models" / "alone.gguf") if (tmp_path / "models").mkdir() is None else None
    )
    remember_prediction(
        target, None, GgufOptions(), "auto", prediction=told(1.0, agreement=None),
        findings=findings(cache, "checks"),
    )  # fmt: skip
    picks = pick(target, tmp_path / "models", cache=cache)
    assert (picks.winner, picks.verdict.advice) == (None, "plain")
    assert picks.verdict.sentence.startswith("This target is too small to gain")
    assert picks.command("t").endswith("--draft none")


def test_files_that_come_and_go_are_seen(tmp_path, cache):
    target = mixed_folder(tmp_path / "models")
    first = pick(target, tmp_path / "models", cache=cache)
    new = write_tiny_gguf(tmp_path / "models" / "new.gguf", n_layers=2)
    (tmp_path / "models" / "fit.gguf").unlink()
    second = pick(target, tmp_path / "models", cache=cache)
    assert [each.name for each in first.fit] == [str(tmp_path / "models" / "fit.gguf")]
    assert [each.name for each in second.fit] == [str(new)]


def test_a_draft_that_would_not_fit_beside_the_target_is_ruled_out(tmp_path, cache):
    target = mixed_folder(tmp_path / "models")
    enough = Picker(read_header(target), GgufOptions(), MUCH, folder=cache)
    plan = enough._memory(read_header(tmp_path / "models" / "fit.gguf"))
    for free, fits in ((plan.total_bytes, 1), (plan.total_bytes - 1, 0)):
        picks = pick(target, tmp_path / "models", cache=cache, free=free)
        assert len(picks.fit) == fits
    reason = next(each.reason for each in picks.ruled_out if each.name.endswith("fit.gguf"))
    assert reason.startswith("beside the target it does not fit")


def test_folders_are_found_in_whatever_form_they_are_written(tmp_path, monkeypatch):
    folder = tmp_path / unicodedata.normalize("NFC", "Загрузки мод ель é")
    write_tiny_gguf(made(folder) / "m.gguf")
    spellings = [str(folder), unicodedata.normalize("NFD", str(folder))]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    spellings += [folder.name, f"./{folder.name}", f"~/{folder.name}", f"{folder.name}/../{folder.name}"]
    for text in spellings:
        found, _ = find([Place(folder=folder_at(text))])
        assert [each.path.name for each in found] == ["m.gguf"]
    deep = tmp_path.joinpath(*(["x" * 60] * 5))
    write_tiny_gguf(made(deep) / f"{'y' * 60}.gguf")
    assert len(str(deep)) > 300
    found, _ = find([Place(folder=folder_at(str(deep)))])
    assert len(found) == 1
    with pytest.raises(InputError, match="nowhere does not exist; check the path"):
        folder_at("nowhere")
    with pytest.raises(InputError, match=r"m\.gguf is not a folder; name the folder it is in"):
        folder_at(str(folder / "m.gguf"))


def test_links_in_circles_and_second_names_list_each_file_once(tmp_path):
    models = made(tmp_path / "models")
    write_tiny_gguf(models / "a.gguf")
    (models / "circle").symlink_to(models)
    (models / "same.gguf").symlink_to(models / "a.gguf")
    made(models / "inner")
    (models / "inner" / "back").symlink_to(tmp_path)
    write_split_gguf(models / "inner" / "parts.gguf", 3, n_layers=2)
    found, notes = find([Place(folder=models), Place(folder=tmp_path)])
    assert [each.path.name for each in found] == ["a.gguf", "parts-00001-of-00003.gguf"]
    assert notes == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_folder_that_cannot_be_read_is_told(tmp_path):
    locked = made(tmp_path / "models" / "locked")
    write_tiny_gguf(tmp_path / "models" / "a.gguf")
    locked.chmod(0)
    try:
        found, notes = find([Place(folder=tmp_path / "models")])
    finally:
        locked.chmod(0o700)
    assert len(found) == 1
    assert "locked cannot be read" in notes[0]


def test_a_folder_that_goes_away_is_told(tmp_path):
    found, notes = find([Place(folder=tmp_path / "gone")])
    assert found == []
    assert "gone cannot be read" in notes[0]


def test_other_programs_folders_are_looked_through(tmp_path):
    for folder in (".lmstudio/models/a/b", ".cache/lm-studio/models/c", ".cache/llama.cpp"):
        write_tiny_gguf(made(tmp_path / folder) / f"{folder[-1]}.gguf")
    settings = StoreSettings(cache_dir=tmp_path / "own", hub_cache=tmp_path / "hub")
    places = usual_places(settings, {}, tmp_path)
    found, _ = find(places)
    assert [(each.source, each.path.name) for each in found] == [
        ("lmstudio", "b.gguf"),
        ("lmstudio", "c.gguf"),
        ("llama.cpp", "p.gguf"),
    ]


def test_of_several_parts_the_first_that_is_there_is_listed(tmp_path):
    for number in range(3, 6):
        (tmp_path / f"one-{number:05d}-of-01000.gguf").touch()
    for name in ("two-00002-of-00001.gguf", "two.gguf", "-00001-of-00002.gguf"):
        (tmp_path / name).touch()
    found, notes = find([Place(folder=tmp_path)])
    assert notes == []
    assert [each.path.name for each in found] == [
        "-00001-of-00002.gguf",
        "one-00003-of-01000.gguf",
        "two-00002-of-00001.gguf",
        "two.gguf",
    ]


def test_folders_that_cannot_be_looked_at_are_left_out(tmp_path, cache):
    """Those of a system's own Ollama, most often; names that are too long fail alike, for root too."""
    closed = tmp_path / ("a" * 300)
    settings = StoreSettings(cache_dir=closed, hub_cache=closed, ollama_dirs=(closed,))
    environ = {"LLAMA_CACHE": str(closed), "XDG_CACHE_HOME": str(closed)}
    assert usual_places(settings, environ, home=closed) == []
    write_tiny_gguf(tmp_path / "draft.gguf", n_layers=1)
    found, notes = find([Place(folder=tmp_path)], settings)
    assert ([each.path.name for each in found], notes) == (["draft.gguf"], [])
    assert cached_models(settings) == []
    target = write_tiny_gguf(tmp_path / "target.gguf", n_layers=8)
    assert choose_draft(target, GgufOptions(), settings=settings, folder=cache).reason


def test_every_listed_name_finds_its_file(tmp_path):
    settings = StoreSettings(
        cache_dir=tmp_path / "own", hub_cache=tmp_path / "hub", ollama_dirs=(tmp_path / "ollama",)
    )
    snapshot = made(settings.hub_cache / "models--user--repo-GGUF" / "snapshots" / "abc" / "sub folder")
    blob = write_tiny_gguf(made(settings.hub_cache / "models--user--repo-GGUF" / "blobs") / "123", n_layers=1)
    (snapshot / "model.Q4_0.gguf").symlink_to(blob)
    catalogued = settings.catalogue[0]
    write_tiny_gguf(made(settings.model_dir(catalogued)) / catalogued.file, n_layers=3)
    for name in ("registry.ollama.ai/aaa/llava/13b", "hf.co/u/r/Q4_K_M", "registry.ollama.ai/library/q/0.5b"):
        write_ollama(settings.ollama_dirs[0], name)
    found, notes = find(usual_places(settings, {}, tmp_path), settings)
    assert notes == []
    assert [each.name for each in found] == [
        catalogued.name,
        "hf:user/repo-GGUF:sub folder/model.Q4_0.gguf",
        "ollama:aaa/llava:13b",
        "ollama:hf.co/u/r:Q4_K_M",
        "ollama:q:0.5b",
    ]
    for each in found[1:]:  # the first has another hash than the catalogue's
        assert resolve(each.name, offline=True, settings=settings).path.samefile(each.path)


def test_auto_takes_a_draft_that_was_measured_to_pay_and_says_why(tmp_path, cache):
    target = mixed_folder(tmp_path / "models")
    settings = StoreSettings(cache_dir=tmp_path / "own", hub_cache=tmp_path / "hub")
    fit = tmp_path / "models" / "fit.gguf"
    for speedup, path, said in (
        (1.4, fit, "Recommended: predicted 1.40x"),
        (1.01, None, "no draft model, as the best"),
    ):
        remember_prediction(
            target, fit, GgufOptions(), "auto", prediction=told(speedup), findings=findings(cache, "checks")
        )
        chosen = choose_draft(target, GgufOptions(), settings=settings, folder=cache)
        assert chosen.path == path
        assert said in chosen.reason
        assert "\n" not in chosen.reason


def test_auto_says_that_nothing_fits(tmp_path, cache):
    target = write_tiny_gguf(made(tmp_path / "models") / "alone.gguf")
    settings = StoreSettings(cache_dir=tmp_path / "own", hub_cache=tmp_path / "hub")
    chosen = choose_draft(target, GgufOptions(), settings=settings, folder=cache)
    assert chosen.path is None
    assert chosen.reason.startswith("draft auto: no draft model, as there is no other model here")


def test_auto_stops_looking_when_its_second_is_over(tmp_path, cache):
    target = mixed_folder(tmp_path / "models")
    ticks = iter(range(100))
    settings = StoreSettings(cache_dir=tmp_path / "own", hub_cache=tmp_path / "hub")
    chosen = choose_draft(
        target, GgufOptions(), settings=settings, folder=cache, clock=lambda: next(ticks) * 0.6
    )
    assert chosen.path is None
    assert "no other model here fits this target (1 looked at; " in chosen.reason


def test_facts_of_a_projector_name_it(tmp_path):
    assert facts_of(read_header(write_other(tmp_path / "p.gguf", "clip"))).problem


def findings(cache, kind):
    from leadout.models.remember import Findings

    return Findings(kind, cache / kind)


def made(folder):
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def write_ollama(store, name):
    import hashlib
    import json

    blob = store / "blobs" / "new"
    blob.parent.mkdir(parents=True, exist_ok=True)
    write_tiny_gguf(blob, name=name)
    digest = hashlib.sha256(blob.read_bytes()).hexdigest()
    blob.rename(blob.with_name(f"sha256-{digest}"))
    size = blob.with_name(f"sha256-{digest}").stat().st_size
    manifest = store / "manifests" / name
    manifest.parent.mkdir(parents=True, exist_ok=True)
    layer = {"mediaType": "application/vnd.ollama.image.model", "digest": f"sha256:{digest}", "size": size}
    manifest.write_text(json.dumps({"layers": [layer]}))
