"""Version numbers, compared as numbers."""

from __future__ import annotations

import re
from typing import NewType

Version = NewType("Version", tuple[int, ...])


def version_of(text: str) -> Version:
    """``"0.33.0rc1"`` to ``(0, 33, 0)``; trailing zeros do not count, unknown text is empty.

    An empty version is older than any.
    """
    found = re.match(r"[vb]?(\d+(?:\.\d+)*)", text.strip())
    parts = [int(part) for part in found[1].split(".")] if found else []
    while parts and parts[-1] == 0:
        parts.pop()
    return Version(tuple(parts))
