"""What lies in the cache folder, and that only that is removed."""

import pytest

from leadout.errors import StoreError
from leadout.store.kept import kept, remove
from leadout.store.settings import StoreSettings


@pytest.fixture
def settings(tmp_path):
    return StoreSettings.from_environment({"LEADOUT_CACHE": str(tmp_path / "cache"), "HOME": str(tmp_path)})


def put(settings, *names, text="12345"):
    for name in names:
        file = settings.cache_dir / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def names(settings):
    return [each.name for each in kept(settings)]


def test_everything_kept_has_a_name_and_a_size(settings):
    put(
        settings,
        "models/smollm2-135m/a.gguf",
        "models/smollm2-135m/b.partial",
        "tuned/1.json",
        "pairs/2.json",
    )
    put(settings, "quantised/x.gguf", "openvino/1/m.xml", "headers/3.json", "checks/4.json")
    assert {each.name: each.n_bytes for each in kept(settings)} == {
        "smollm2-135m": 10, "quantised": 10, "tuned": 5, "checks": 5, "learned": 5, "findings": 5,
    }  # fmt: skip


def test_what_is_named_goes_with_its_empty_folders_and_the_rest_stays(settings):
    put(settings, "tuned/1.json", "tuned/2.json", "pairs/2.json")
    remove([each for each in kept(settings) if each.name == "tuned"], settings)
    assert names(settings) == ["learned"]
    assert not (settings.cache_dir / "tuned").exists()
    remove(kept(settings), settings)
    assert list(settings.cache_dir.iterdir()) == []


def test_files_that_are_not_leadouts_are_neither_seen_nor_removed(settings):
    put(
        settings, "tuned/1.json", "tuned/diary.txt", "models/mine/m.gguf", "thesis.json", "records/album.flac"
    )
    remove(kept(settings), settings)
    left = {str(file.relative_to(settings.cache_dir)) for file in settings.cache_dir.rglob("*.*")}
    assert left == {"tuned/diary.txt", "models/mine/m.gguf", "thesis.json", "records/album.flac"}


def test_nothing_outside_the_folder_is_removed_through_links(settings, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "a.gguf").write_text("precious")
    (settings.cache_dir / "models").mkdir(parents=True)
    (settings.cache_dir / "models" / "smollm2-135m").symlink_to(outside)
    (settings.cache_dir / "quantised").mkdir()
    (settings.cache_dir / "quantised" / "b.gguf").symlink_to(outside / "a.gguf")
    assert names(settings) == ["quantised"]
    remove(kept(settings), settings)
    assert (outside / "a.gguf").read_text() == "precious"
    assert not (settings.cache_dir / "quantised").exists()


def test_a_file_that_cannot_be_deleted_is_an_error_of_the_store(settings):
    put(settings, "tuned/1.json")
    [tuned] = kept(settings)
    (settings.cache_dir / "tuned" / "1.json").unlink()
    (settings.cache_dir / "tuned" / "1.json").mkdir()
    with pytest.raises(StoreError, match=r"cannot write .*1\.json"):
        remove([tuned], settings)
