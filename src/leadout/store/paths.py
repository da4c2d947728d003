"""Paths as users type them to files that exist."""

from __future__ import annotations

import re
import unicodedata
from pathlib import Path

from leadout.errors import ModelFileError
from leadout.store.split import part_names


def is_file(path: str | Path) -> bool:
    """Tell whether `path` is a file; names that no file can have (too long, for one) are not."""
    try:
        return Path(path).is_file()
    except (OSError, ValueError):
        return False


def is_folder(path: Path) -> bool:
    """Tell whether `path` is a folder; one that may not be looked at is none."""
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def resolve_path(text: str) -> tuple[Path, ...]:
    """Find the file that `text` names, and with it all parts of a split model, the first one first.

    `~` is expanded, relative paths start at the working directory, and a name that only exists in another
    Unicode normal form (NFC, NFD) is found.

    Raises
    ------
    ModelFileError
        If there is no such file, with the absolute path; if it is a folder or a device; if a part is missing.
    """
    try:
        asked = Path(text).expanduser().absolute()
    except RuntimeError as error:
        raise ModelFileError(f"model file {text}: {error}; write the whole path") from error
    except OSError as error:
        raise ModelFileError(
            f"model file {text}: the working folder cannot be found ({error.strerror}); write the whole path"
        ) from error
    path = next((p for p in existing_forms(asked) if is_file(p)), None)
    if path is None:
        raise ModelFileError(_missing(text, asked))
    parts = tuple(path.with_name(name) for name in part_names(path.name))
    absent = [part for part in parts if not is_file(part)]
    if absent:
        raise ModelFileError(
            f"model file {path} is one of {len(parts)} parts, and {absent[0]} is missing; "
            "put all parts into the same folder"
        )
    return parts


def existing_forms(path: Path) -> list[Path]:
    """Every spelling of `path`, each component as given, in NFC or in NFD, that exists on disk."""
    found = [Path(path.anchor)]
    for part in path.parts[1:]:
        forms = dict.fromkeys((part, unicodedata.normalize("NFC", part), unicodedata.normalize("NFD", part)))
        found = [parent / form for parent in found for form in forms if _exists(parent / form)]
    return found


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def _missing(text: str, asked: Path) -> str:
    if any(is_folder(p) for p in existing_forms(asked)):
        inside = sorted(p.name for form in existing_forms(asked) for p in form.glob("*.gguf"))[:5]
        content = f"it holds {', '.join(inside)}" if inside else "and it holds no .gguf file"
        return f"model path {asked} is a folder, {content}; name a .gguf file"
    if existing_forms(asked):
        return f"model path {asked} is not a regular file; name a .gguf file"
    message = f"model file {asked} does not exist"
    if re.fullmatch(r"[\w.-]+/[\w.-]+", text) and not text.lower().endswith(".gguf"):
        return f"{message}; for a hub repository write hf:{text}"
    if "\\" in text and "\\" not in asked.anchor and "/" not in text:
        return f"{message}; on this system folders are separated by '/', not by '\\'"
    return f"{message}; check the path, or see `leadout models` for models with a name"
