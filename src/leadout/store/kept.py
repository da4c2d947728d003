"""What lies in leadout's cache folder, by name, and its removal.

Only what leadout puts there is seen: files by their names and endings, in folders that it makes itself. So a
cache folder that is shared with other things loses none of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from leadout.store.disk import disk_errors
from leadout.store.settings import StoreSettings

_FINDINGS = ("*.json", "*.part")
_COPIES = ("*.gguf", "*.part", ".lock")
_MODEL = ("**/*.gguf", "**/*.whl", "**/*.partial", "**/.lock")
_KINDS: Mapping[str, tuple[str, Mapping[str, tuple[str, ...]]]] = MappingProxyType(
    {
        "quantised": (
            "copies of models, made for benchmarks",
            {"quantised": _COPIES, "scrambled": _COPIES, "openvino": ("**/*",)},
        ),
        "tuned": ("what `leadout tune` chose", {"tuned": _FINDINGS}),
        "checks": ("what `leadout check` found", {"checks": _FINDINGS, "records": _FINDINGS}),
        "learned": (
            "what passes cost here, and how often drafts stood",
            {"profiles": _FINDINGS, "pairs": _FINDINGS},
        ),
        "findings": (
            "facts about files and this machine, found again when needed",
            dict.fromkeys(("hashes", "headers", "machine", "trials", "vocabularies", "widths"), _FINDINGS),
        ),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """Files in the cache folder that belong together, what they are, and their bytes."""

    name: str
    what: str
    files: tuple[Path, ...]
    n_bytes: int


def kept(settings: StoreSettings | None = None) -> list[Kept]:
    """All that leadout keeps, models first; what has no files is left out."""
    settings = settings or StoreSettings.from_environment()
    root = settings.cache_dir
    found = [
        _kept(root, model.name, f"model, {model.title}", {f"models/{model.name}": _MODEL})
        for model in settings.catalogue
    ]
    found += [_kept(root, name, what, folders) for name, (what, folders) in _KINDS.items()]
    return [each for each in found if each.files]


def remove(things: list[Kept], settings: StoreSettings | None = None) -> None:
    """Delete these files, and the folders that are empty then; links go, what they point to stays.

    Raises
    ------
    StoreError
        If one cannot be deleted.
    """
    root = (settings or StoreSettings.from_environment()).cache_dir
    with disk_errors(root, 0):
        for file in (file for each in things for file in each.files):
            file.unlink(missing_ok=True)
            for folder in file.relative_to(root).parents:
                if folder != Path():
                    with suppress(OSError):  # not empty, or gone
                        (root / folder).rmdir()


def _kept(root: Path, name: str, what: str, folders: Mapping[str, tuple[str, ...]]) -> Kept:
    files = sorted({file for folder, patterns in folders.items() for file in _files(root, folder, patterns)})
    n_bytes = 0
    for file in files:
        with suppress(OSError):  # gone at this moment
            n_bytes += file.lstat().st_size
    return Kept(name=name, what=what, files=tuple(files), n_bytes=n_bytes)


def _files(root: Path, folder: str, patterns: tuple[str, ...]) -> Iterator[Path]:
    """Files by these patterns in a folder, none of them through a link that leads out of the cache."""
    for pattern in patterns:
        for file in (root / folder).glob(pattern):
            is_file = file.is_symlink() or file.is_file()
            if is_file and file.parent.resolve().is_relative_to(root.resolve()):
                yield file
