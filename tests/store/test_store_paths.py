from __future__ import annotations

import os
import re
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest

import leadout
from leadout.errors import ModelFileError
from leadout.store import resolve
from leadout.store.paths import resolve_path

FOLDER = "Загрузки/мод ель é"


def write(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"GGUF")
    return path


@pytest.mark.parametrize("on_disk", ["NFC", "NFD"])
@pytest.mark.parametrize("typed", ["NFC", "NFD"])
def test_a_path_with_spaces_and_non_ascii_letters_is_found_in_either_normal_form(
    tmp_path: Path, on_disk: str, typed: str
) -> None:
    file = write(tmp_path / unicodedata.normalize(on_disk, f"{FOLDER}/й ö.gguf"))
    asked = tmp_path / unicodedata.normalize(typed, f"{FOLDER}/й ö.gguf")
    (found,) = resolve_path(str(asked))
    assert found.samefile(file)


def test_a_path_of_mixed_normal_forms_is_found(tmp_path: Path) -> None:
    file = write(tmp_path / unicodedata.normalize("NFD", "é") / unicodedata.normalize("NFC", "ö.gguf"))
    (found,) = resolve_path(
        str(tmp_path / unicodedata.normalize("NFC", "é") / unicodedata.normalize("NFD", "ö.gguf"))
    )
    assert found.samefile(file)


def test_a_twin_folder_in_the_other_normal_form_does_not_hide_the_file(tmp_path: Path) -> None:
    nfc, nfd = (tmp_path / unicodedata.normalize(form, "é") for form in ("NFC", "NFD"))
    nfc.mkdir()
    file = write(nfd / "m.gguf")
    (found,) = resolve_path(str(nfc / "m.gguf"))
    assert found.samefile(file)


def test_tilde_and_relative_paths_start_where_a_shell_would(tmp_path: Path) -> None:
    file = write(tmp_path / "models" / "m.gguf")
    code = "from leadout.store import resolve; import sys; print(resolve(sys.argv[1]).path)"
    source = str(Path(leadout.__file__).parents[1])
    environment = os.environ | {"HOME": str(tmp_path), "USERPROFILE": str(tmp_path), "PYTHONPATH": source}
    for text, folder in (
        ("~/models/m.gguf", "/"),
        ("models/m.gguf", tmp_path),
        ("m.gguf", tmp_path / "models"),
    ):
        run = subprocess.run(
            [sys.executable, "-c", code, text],
            env=environment,
            cwd=folder,
            capture_output=True,
            text=True,
            check=True,
        )
        assert Path(run.stdout.strip()) == file


def test_a_long_path_is_found(tmp_path: Path) -> None:
    file = write(tmp_path.joinpath(*["a" * 50] * 6, "m.gguf"))
    assert len(str(file)) > 300
    assert resolve_path(str(file)) == (file,)


def test_a_file_without_an_extension_is_found_by_path(tmp_path: Path) -> None:
    file = write(tmp_path / "blob")
    assert resolve(str(file)).files == (file,)
    assert resolve(str(file)).source == "path"


def test_a_missing_file_is_named_by_its_absolute_path() -> None:
    expected = Path("nowhere/m.gguf").absolute()
    with pytest.raises(
        ModelFileError, match=re.escape(f"model file {expected} does not exist; check the path")
    ):
        resolve("nowhere/m.gguf")


def test_a_name_too_long_for_any_file_is_missing_and_not_a_crash() -> None:
    with pytest.raises(ModelFileError, match="does not exist"):
        resolve("./" + "x" * 300 + ".gguf")


def test_an_unknown_user_is_an_error_and_not_a_crash() -> None:
    with pytest.raises(ModelFileError, match="write the whole path"):
        resolve("~no-such-user-here/m.gguf")


def test_a_missing_path_that_looks_like_a_repository_points_to_the_hub_form() -> None:
    with pytest.raises(ModelFileError, match="for a hub repository write hf:user/repo"):
        resolve("user/repo")


@pytest.mark.skipif(os.name == "nt", reason="backslashes separate folders there")
def test_backslashes_where_they_are_no_separators_are_explained() -> None:
    with pytest.raises(ModelFileError, match="folders are separated by '/'"):
        resolve("models\\m.gguf")


def test_a_folder_is_refused_and_its_models_are_listed(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match=r"is a folder, and it holds no \.gguf file"):
        resolve(str(tmp_path))
    write(tmp_path / "m.gguf")
    with pytest.raises(ModelFileError, match=r"is a folder, it holds m\.gguf; name a \.gguf file"):
        resolve(str(tmp_path))


@pytest.mark.skipif(os.name == "nt", reason="no such files there")
def test_a_special_file_is_told_from_a_missing_one(tmp_path: Path) -> None:
    fifo = tmp_path / "m.gguf"
    os.mkfifo(fifo)
    for special in (fifo, Path(os.devnull)):
        said = f"model path {special} is not a regular file; name a .gguf file"
        with pytest.raises(ModelFileError, match=re.escape(said)):
            resolve(str(special))


@pytest.mark.skipif(os.name == "nt", reason="a working folder cannot be removed there")
def test_a_removed_working_folder_is_an_error_and_not_a_crash(tmp_path: Path) -> None:
    kept = write(tmp_path / "m.gguf")
    code = f"""
import os
from leadout.errors import ModelFileError
from leadout.store import resolve
os.rmdir(os.getcwd())
print(resolve({str(kept)!r}).path)
try:
    resolve("./m.gguf")
except ModelFileError as error:
    print(error)
"""
    gone = tmp_path / "gone"
    gone.mkdir()
    environment = {**os.environ, "PYTHONPATH": str(Path(leadout.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=gone, env=environment, capture_output=True, text=True, check=True
    )
    found, error = done.stdout.splitlines()
    assert found == str(kept)
    assert error.startswith("model file ./m.gguf: the working folder cannot be found")
    assert error.endswith("write the whole path")


def test_any_part_of_a_split_model_gives_all_parts_in_order(tmp_path: Path) -> None:
    parts = tuple(write(tmp_path / f"m-0000{i}-of-00003.gguf") for i in (1, 2, 3))
    assert resolve(str(parts[1])).files == parts
    assert resolve(str(parts[1])).path == parts[0]


def test_a_missing_part_of_a_split_model_is_named(tmp_path: Path) -> None:
    write(tmp_path / "m-00001-of-00002.gguf")
    with pytest.raises(ModelFileError, match=r"is one of 2 parts, and .*m-00002-of-00002\.gguf is missing"):
        resolve(str(tmp_path / "m-00001-of-00002.gguf"))
