"""Where leadout keeps what it can make or fetch again: models, and what was measured about them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import platformdirs


def cache_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """$LEADOUT_CACHE, else the user's cache folder of this system; it need not exist."""
    chosen = environ.get("LEADOUT_CACHE") or platformdirs.user_cache_dir("leadout", appauthor=False)
    return Path(chosen).expanduser()
