"""Hub models through the real client library and a hub on the loopback interface."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from fake_hub import FakeHub
from fake_index import Recorder, random_bytes, tiny_model, write_index

import leadout
from leadout.errors import StoreError
from leadout.store import StoreSettings, cached_models, pull, resolve
from leadout.store.catalogue import HubFile

Q4, Q8 = random_bytes(40_000, 4), random_bytes(80_000, 8)
MakeSettings = Callable[..., StoreSettings]


@pytest.fixture
def settings(make_settings: MakeSettings, hub: FakeHub) -> StoreSettings:
    hub.repos["user/repo"] = {
        "README.md": b"hello",
        "m-Q8_0.gguf": Q8,
        "m-Q4_K_M.gguf": Q4,
        "mmproj-Q4_K_M.gguf": b"x",
    }
    return make_settings(hub_endpoint=hub.endpoint, hub_offline=False)


def test_the_default_quantisation_is_fetched_into_the_hub_cache(settings: StoreSettings) -> None:
    progress = Recorder()
    resolved = resolve("hf:user/repo", settings=settings, progress=progress)
    assert resolved.path.read_bytes() == Q4
    assert (resolved.source, resolved.licence) == ("hub", "mit")
    assert resolved.path.is_relative_to(settings.hub_cache)
    assert progress.stages == [["fetching hf:user/repo", len(Q4), len(Q4), True]]


@pytest.mark.parametrize("choice", ["q8_0", "m-Q8_0.gguf"])
def test_a_quantisation_or_a_file_can_be_asked_for(settings: StoreSettings, choice: str) -> None:
    assert resolve(f"hf:user/repo:{choice}", settings=settings).path.read_bytes() == Q8


def test_all_parts_of_a_split_model_are_fetched(settings: StoreSettings, hub: FakeHub) -> None:
    hub.repos["user/split"] = {f"Q4_0/m-0000{i}-of-00003.gguf": bytes([i]) * 1000 for i in (1, 2, 3)}
    resolved = resolve("hf:user/split:Q4_0", settings=settings)
    assert [path.name for path in resolved.files] == [f"m-0000{i}-of-00003.gguf" for i in (1, 2, 3)]
    assert [path.read_bytes()[0] for path in resolved.files] == [1, 2, 3]
    assert len({path.parent for path in resolved.files}) == 1


def test_a_name_that_says_which_file_is_answered_from_the_cache_alone(
    settings: StoreSettings, hub: FakeHub
) -> None:
    path = resolve("hf:user/repo:Q8_0", settings=settings).path
    hub.requests.clear()
    assert resolve("hf:user/repo:Q8_0", settings=settings).path == path
    assert hub.requests == []
    assert pull("hf:user/repo:Q8_0", settings=settings).path == path
    assert hub.requests != []


def test_offline_finds_what_is_cached_and_asks_nobody(settings: StoreSettings, hub: FakeHub) -> None:
    path = resolve("hf:user/repo", settings=settings).path
    hub.requests.clear()
    assert resolve("hf:user/repo", offline=True, settings=settings).path == path
    with pytest.raises(
        StoreError, match=r"hf:user/repo:Q8_0 is not cached and offline is set; only m-Q4_K_M\.gguf"
    ):
        resolve("hf:user/repo:Q8_0", offline=True, settings=settings)
    with pytest.raises(StoreError, match=r"nothing of it is in .*run `leadout pull hf:user/other` online"):
        resolve("hf:user/other", offline=True, settings=settings)
    assert hub.requests == []


def test_the_offline_setting_of_the_hub_is_honoured(make_settings: MakeSettings, hub: FakeHub) -> None:
    hub.repos["user/repo"] = {"m.gguf": Q4}
    with pytest.raises(StoreError, match="is not cached and offline is set"):
        resolve("hf:user/repo", settings=make_settings(hub_endpoint=hub.endpoint, hub_offline=True))
    assert hub.requests == []


def test_an_unreachable_hub_falls_back_to_the_cache_and_says_so(
    settings: StoreSettings, hub: FakeHub
) -> None:
    path = resolve("hf:user/repo", settings=settings).path
    hub.status = 503
    resolved = resolve("hf:user/repo", settings=settings)
    assert resolved.path == path
    assert f"from the hub's cache: {hub.endpoint} answered 503" in resolved.notes[0]


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (401, r"refuses hf:user/repo \(401\): it is gated, private or misspelt"),
        (403, r"refuses hf:user/repo \(403\): it is gated, private or misspelt.*hf auth login"),
        (404, r"has no repository hf:user/repo, or not that file of it; check the spelling"),
        (500, r"answered 500 for hf:user/repo; try again later"),
    ],
)
def test_each_refusal_of_the_hub_costs_one_line(
    settings: StoreSettings, hub: FakeHub, status: int, message: str
) -> None:
    hub.status = status
    with pytest.raises(StoreError, match=message) as caught:
        resolve("hf:user/repo", settings=settings)
    assert "\n" not in str(caught.value)


def test_a_gated_file_points_to_the_login(settings: StoreSettings, hub: FakeHub) -> None:
    hub.gated.add("user/repo")
    with pytest.raises(StoreError, match=r"refuses hf:user/repo \(403\): it is gated"):
        resolve("hf:user/repo", settings=settings)


def test_a_repository_that_does_not_exist_is_named(settings: StoreSettings) -> None:
    with pytest.raises(StoreError, match="has no repository hf:user/nothing"):
        resolve("hf:user/nothing", settings=settings)


def test_a_missing_quantisation_lists_what_there_is(settings: StoreSettings) -> None:
    with pytest.raises(
        StoreError, match=r"has no 'Q2_K'; name one of its files: m-Q4_K_M\.gguf, m-Q8_0\.gguf$"
    ):
        resolve("hf:user/repo:Q2_K", settings=settings)


def test_a_hub_that_does_not_answer_is_given_up_in_seconds(make_settings: MakeSettings, hub: FakeHub) -> None:
    hub.stall_s = 30
    settings = make_settings(hub_endpoint=hub.endpoint, hub_offline=False, hub_timeout_s=0.5)
    start = time.monotonic()
    with pytest.raises(StoreError, match="cannot be reached for hf:user/repo"):
        resolve("hf:user/repo", settings=settings)
    assert time.monotonic() - start < 5


def test_a_hub_that_is_not_there_is_given_up_in_seconds(make_settings: MakeSettings) -> None:
    settings = make_settings(hub_endpoint="http://127.0.0.1:9", hub_offline=False)
    start = time.monotonic()
    with pytest.raises(
        StoreError, match=r"http://127\.0\.0\.1:9 cannot be reached for hf:user/repo \(ConnectError\)"
    ):
        resolve("hf:user/repo", settings=settings)
    assert time.monotonic() - start < 5


def test_too_little_space_for_a_hub_model_is_known_beforehand(settings: StoreSettings, hub: FakeHub) -> None:
    small = StoreSettings(
        cache_dir=settings.cache_dir,
        hub_cache=settings.hub_cache,
        hub_endpoint=settings.hub_endpoint,
        free_bytes=lambda folder: 100,
    )
    with pytest.raises(StoreError, match=r"no space left in .*hub: 40,000 bytes are needed, 100 are free"):
        resolve("hf:user/repo", settings=small)
    assert not any("resolve" in request for request in hub.requests)


@pytest.mark.filterwarnings("ignore:Not enough free disk space")
def test_a_disk_that_fills_up_while_the_hub_sends_is_reported(
    make_settings: MakeSettings, hub: FakeHub, small_disk: Path
) -> None:
    hub.repos["user/repo"] = {"m.gguf": bytes(1_000_000)}
    settings = make_settings(
        hub_endpoint=hub.endpoint, hub_offline=False, hub_cache=small_disk, free_bytes=lambda folder: 1 << 40
    )
    with pytest.raises(StoreError, match=r"no space left in .*small-disk: 1,000,000 bytes are needed"):
        resolve("hf:user/repo", settings=settings)


def test_a_page_that_is_no_hub_is_told_apart(settings: StoreSettings, hub: FakeHub) -> None:
    path = resolve("hf:user/repo", settings=settings).path
    hub.listing = b"<html>Please log in to this network</html>"
    assert resolve("hf:user/repo", settings=settings).path == path
    with pytest.raises(StoreError, match="is not a hub; check the network and HF_ENDPOINT"):
        resolve("hf:user/other", settings=settings)


def test_an_answer_that_the_library_cannot_read_names_the_library(
    settings: StoreSettings, hub: FakeHub
) -> None:
    hub.listing = b"[1, 2]"
    with pytest.raises(StoreError, match=r"huggingface_hub [0-9.]+ failed on hf:user/repo \(TypeError\)"):
        resolve("hf:user/repo", settings=settings)


def test_neither_import_nor_offline_use_loads_the_hub_library(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "from leadout.store import cached_models, resolve\n"
        "from leadout.errors import StoreError\n"
        "cached_models()\n"
        "try: resolve('hf:user/repo', offline=True)\n"
        "except StoreError: print({'huggingface_hub', 'httpx', 'httpx2', 'tqdm'} & set(sys.modules))\n"
    )
    environment = os.environ | {
        "HF_HOME": str(tmp_path),
        "PYTHONPATH": str(Path(leadout.__file__).parents[1]),
    }
    run = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == "set()"


def test_pull_removes_a_file_that_is_not_what_the_hub_lists(settings: StoreSettings, hub: FakeHub) -> None:
    hub.listed_sha256["m-Q4_K_M.gguf"] = "0" * 64
    with pytest.raises(
        StoreError, match=rf"has SHA-256 [0-9a-f]{{64}}, the hub lists {'0' * 64}; the file was removed"
    ):
        pull("hf:user/repo", settings=settings)
    assert cached_models(settings) == []


def test_secrets_stay_out_of_messages_and_the_environment_is_read(hub: FakeHub, tmp_path: Path) -> None:
    hub.repos["user/repo"] = {"m.gguf": Q4}
    hub.gated.add("user/repo")
    code = (
        "from leadout.store import resolve\n"
        "from leadout.errors import StoreError\n"
        "try: resolve('hf:user/repo')\n"
        "except StoreError as error: print(error)\n"
    )
    address = hub.endpoint.removeprefix("http://")
    environment = os.environ | {
        "HF_TOKEN": "hf_verysecrettoken",
        "HF_ENDPOINT": f"http://name:password@{address}",
        "HF_HOME": str(tmp_path),
        "PYTHONPATH": str(Path(leadout.__file__).parents[1]),
    }
    run = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert f"http://{address} refuses hf:user/repo" in run.stdout
    assert hub.tokens != {""}  # a secret was sent, so it could have been shown
    for secret in ("hf_verysecrettoken", "password"):
        assert secret not in run.stdout + run.stderr


CATALOGUED = tiny_model(Q4, 2, hub=HubFile(repo="user/repo", file="m-Q4_K_M.gguf"))


def catalogue_settings(make_settings: MakeSettings, hub: FakeHub, **changes: object) -> StoreSettings:
    return make_settings(
        hub_endpoint=hub.endpoint, catalogue=(CATALOGUED,), **({"hub_offline": False} | changes)
    )


def test_a_catalogue_model_comes_from_the_hub_first(
    settings: StoreSettings, make_settings: MakeSettings, hub: FakeHub
) -> None:
    catalogue = catalogue_settings(make_settings, hub, python="/no/such/python")
    path = resolve("tiny-model", settings=catalogue).path
    assert path.is_relative_to(catalogue.hub_cache)
    assert path.read_bytes() == Q4
    progress = Recorder()
    assert resolve("tiny-model", offline=True, settings=catalogue, progress=progress).path == path
    assert progress.stages == []
    listed = cached_models(catalogue)[0]
    assert (listed.name, listed.source, listed.state) == ("tiny-model", "catalogue", "complete")


def test_a_catalogue_model_in_the_hub_cache_is_found_without_a_network(
    settings: StoreSettings, make_settings: MakeSettings, hub: FakeHub
) -> None:
    resolve("hf:user/repo", settings=settings)
    hub.requests.clear()
    path = resolve("tiny-model", settings=catalogue_settings(make_settings, hub), offline=True).path
    assert path.read_bytes() == Q4
    assert hub.requests == []


def test_the_pinned_hash_decides_and_packages_step_in(
    settings: StoreSettings, make_settings: MakeSettings, hub: FakeHub, tmp_path: Path
) -> None:
    hub.repos["user/repo"]["m-Q4_K_M.gguf"] = Q8
    write_index(tmp_path / "index", CATALOGUED, Q4)
    catalogue = catalogue_settings(make_settings, hub)
    path = resolve("tiny-model", settings=catalogue).path
    assert path == catalogue.model_dir(CATALOGUED) / CATALOGUED.file
    assert path.read_bytes() == Q4
    assert not any("resolve" in request for request in hub.requests)  # the listing was enough to know


def test_packages_step_in_when_the_hub_cannot_be_reached(make_settings: MakeSettings, tmp_path: Path) -> None:
    write_index(tmp_path / "index", CATALOGUED, Q4)
    settings = make_settings(hub_endpoint="http://127.0.0.1:9", hub_offline=False, catalogue=(CATALOGUED,))
    assert resolve("tiny-model", settings=settings).path.read_bytes() == Q4


def test_when_both_sources_fail_both_reasons_are_told(
    settings: StoreSettings, make_settings: MakeSettings, hub: FakeHub, tmp_path: Path
) -> None:
    (tmp_path / "index").mkdir()
    del hub.repos["user/repo"]["m-Q4_K_M.gguf"]
    with pytest.raises(
        StoreError, match=r"pip could not download .* \(before that, m-Q4_K_M\.gguf of hf:user/repo is"
    ):
        resolve("tiny-model", settings=catalogue_settings(make_settings, hub))
    hub.repos["user/repo"]["m-Q4_K_M.gguf"] = Q8
    listed = hashlib.sha256(Q8).hexdigest()
    with pytest.raises(
        StoreError, match=rf"has SHA-256 {listed}, it must have {CATALOGUED.sha256}"
    ) as caught:
        resolve("tiny-model", settings=catalogue_settings(make_settings, hub))
    assert "\n" not in str(caught.value)
