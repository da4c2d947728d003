"""GGUF files cut into parts named name-00001-of-00003.gguf."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

_PART = re.compile(r"(?P<stem>.*)-(?P<part>\d{5})-of-(?P<count>\d{5})\.gguf", re.IGNORECASE | re.DOTALL)
_MAX_PARTS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class FileGroup:
    """One model: its file, or all parts of it in order, and those parts that are not there."""

    files: tuple[str, ...]
    missing: tuple[str, ...]


def part_names(name: str) -> tuple[str, ...]:
    """Names of all parts, in order, of the split file that `name` is a part of; `(name,)` when it is none."""
    match = _matched(name)
    if match is None:
        return (name,)
    end = name[match.end("count") :]
    return tuple(
        f"{match['stem']}-{part:05d}-of-{match['count']}{end}" for part in range(1, int(match["count"]) + 1)
    )


def whole_name(name: str) -> str:
    """What all parts of a split file have in common; `name` itself when it is no part of one."""
    match = _matched(name)
    return name if match is None else f"{match['stem']}-of-{name[match.start('count') :]}"


def _matched(name: str) -> re.Match[str] | None:
    match = _PART.fullmatch(name)
    if match is None or not 1 <= int(match["part"]) <= int(match["count"]) <= _MAX_PARTS:
        return None
    return match


def group_files(names: Iterable[str]) -> list[FileGroup]:
    """Group the GGUF files among `names` by model, sorted by name; projector files (mmproj) are left out."""
    present = {
        n for n in names if n.lower().endswith(".gguf") and "mmproj" not in n.rsplit("/", 1)[-1].lower()
    }
    groups = {part_names(name) for name in present}
    return [
        FileGroup(files=files, missing=tuple(f for f in files if f not in present))
        for files in sorted(groups)
    ]
