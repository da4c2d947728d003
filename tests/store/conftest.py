from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fake_hub import FakeHub, serve_hub

from leadout.store.settings import StoreSettings


@pytest.fixture
def make_settings(tmp_path: Path) -> Callable[..., StoreSettings]:
    """Settings that look nowhere outside the test's folder; packages come from its `index` folder."""

    def make(**changes: object) -> StoreSettings:
        pip_environment = {
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": str(tmp_path / "index"),
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_EXTRA_INDEX_URL": "",
        }
        values = {
            "cache_dir": tmp_path / "cache",
            "hub_cache": tmp_path / "hub",
            "hub_offline": True,
            "pip_environment": pip_environment,
        }
        return StoreSettings(**(values | changes))  # type: ignore[arg-type]

    return make


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 200 KiB, where this machine lets us mount one."""
    folder = tmp_path / "small-disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", str(folder)]
    if (
        shutil.which("mount") is None
        or subprocess.run(mount, capture_output=True, check=False).returncode != 0
    ):
        pytest.skip("needs the right to mount a small disk")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.fixture
def hub() -> Iterator[FakeHub]:
    with serve_hub() as running:
        yield running
