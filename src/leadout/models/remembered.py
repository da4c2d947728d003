"""Small JSON files in leadout's cache folder, written whole or not at all."""

from __future__ import annotations

import json
import os
import tempfile
from contextlib import suppress
from pathlib import Path


def read_json(file: Path) -> object:
    """What the file holds; None when there is none that can be read."""
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def write_json(file: Path, value: object) -> None:
    """Replace the file. A cache that cannot be written costs time, nothing else, so failures pass."""
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=file.parent, suffix=".part")
        with os.fdopen(descriptor, "w", encoding="utf-8") as opened:
            json.dump(value, opened)
        Path(name).replace(file)
