"""Files of real models for tests marked `model` or `pair`."""

import os
from pathlib import Path

import pytest

from leadout.errors import StoreError
from leadout.store import resolve

SMALL = "smollm2-135m"
"""Fetched when it is not there; the others are used where they are cached."""


def real_model(name: str) -> Path:
    """A catalogue model's file; where it cannot be had the test is skipped, in CI never for the small one."""
    try:
        return resolve(name, offline=name != SMALL).path
    except StoreError as error:
        if name == SMALL and os.environ.get("CI"):
            raise
        pytest.skip(str(error))
