"""Finds and opens the files of a GGUF model; says what is wrong with them before a backend sees them."""

from __future__ import annotations

import mmap
import os
import re
import stat
import unicodedata
from pathlib import Path

from leadout.errors import ModelFileError
from leadout.models.foreign import describe_foreign
from leadout.models.gguf_format import MAGIC, DamagedError, Front, UnsupportedError, parse_front

_PART_NAME = re.compile(r"(?P<stem>.*)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf", re.DOTALL)


def absolute_path(path: str | Path) -> Path:
    """`path` made absolute, ``~`` expanded, links kept: the one rule for every model path.

    Raises
    ------
    ModelFileError
        If home or working folder cannot be found, or the path has a NUL character.
    """
    try:
        resolved = Path(os.path.abspath(Path(path).expanduser()))  # noqa: PTH100 - resolve() would follow links
    except (OSError, RuntimeError) as error:  # no such home folder; the working folder is gone
        raise ModelFileError(f"cannot resolve the model path {path}: {error}; give it in full") from error
    if "\0" in str(resolved):
        raise ModelFileError(f"the model path {str(path)!r} has a NUL character; give a path without")
    return _as_on_disk(resolved)


def _as_on_disk(path: Path) -> Path:
    """The path in the Unicode form that exists; macOS and Linux write é as one or as two characters."""
    for form in (str(path), unicodedata.normalize("NFC", str(path)), unicodedata.normalize("NFD", str(path))):
        if os.path.lexists(form):
            return Path(form)
    return path


def read_front(path: Path) -> Front:
    """The front part of the GGUF file at an absolute `path`.

    Raises
    ------
    ModelFileError
        If the file is missing, unreadable, of another kind, damaged or cut short.
    """
    try:
        status = path.stat()
        if stat.S_ISDIR(status.st_mode):
            raise ModelFileError(f"{path} is a folder; give the .gguf file itself{_gguf_files_in(path)}")
        if not stat.S_ISREG(status.st_mode):
            raise ModelFileError(f"{path} is not a regular file; give a .gguf file")
        if status.st_size == 0:
            raise ModelFileError(f"{path} is empty (0 bytes); fetch it again")
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _parse(path, data)
    except FileNotFoundError as error:
        raise ModelFileError(f"no model file at {path}{_what_is_there(path)}; check the path") from error
    except PermissionError as error:
        raise ModelFileError(f"no permission to read {path}; change its rights, or copy it") from error
    except OSError as error:
        raise ModelFileError(
            f"cannot read {path}: {error.strerror or error}; check the disk and the path"
        ) from error


def _parse(path: Path, data: mmap.mmap) -> Front:
    beginning, size = data[:64], len(data)
    if beginning[:4] != MAGIC:
        guess = describe_foreign(beginning)
        seen = f"it is {guess}" if guess else "no known kind of model file"
        raise ModelFileError(
            f"{path} is not a GGUF file: {seen} (begins with {beginning[:8]!r}, expected {MAGIC!r}); "
            "get the model's GGUF file"
        )
    view = memoryview(data)
    try:
        front = parse_front(view)
    except UnsupportedError as error:
        raise ModelFileError(
            f"{path} cannot be used: {error}; get another conversion of the model"
        ) from error
    except DamagedError as error:
        raise ModelFileError(f"{path} is damaged or cut short: {error}; fetch it again") from error
    finally:
        view.release()
    if front.n_bytes > size:
        raise ModelFileError(
            f"{path} is cut short: its tensor table needs {front.n_bytes:,} bytes, the file has {size:,}; "
            "fetch it again"
        )
    return front


def _what_is_there(path: Path) -> str:
    if path.is_symlink():
        return f"; it is a link to {path.readlink()}, which does not exist"
    return _gguf_files_in(path.parent) if path.parent.is_dir() else f"; {path.parent} does not exist"


def _gguf_files_in(folder: Path) -> str:
    try:
        names = sorted(entry.name for entry in folder.iterdir() if entry.suffix == ".gguf")
    except OSError:
        return ""
    if not names:
        return f"; {folder} holds no .gguf file"
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"; {folder} holds {', '.join(names[:3])}{more}"


def all_parts(path: Path, front: Front) -> tuple[Path, ...]:
    """All files of the model that `path` belongs to, in order; just `path` when it is not split.

    Raises
    ------
    ModelFileError
        If a part is missing, or the parts cannot be found because this one was renamed.
    """
    count = front.metadata.get("split.count", 0)
    if not isinstance(count, int) or count <= 1:
        return (path,)
    match = _PART_NAME.fullmatch(path.name)
    if match is None or int(match["count"]) != count:
        raise ModelFileError(
            f"{path} is one of {count} parts of a split model, but its name does not end in "
            f"-00001-of-{count:05d}.gguf; give the parts their names back, the others are found by them"
        )
    parts = tuple(path.with_name(f"{match['stem']}-{i:05d}-of-{count:05d}.gguf") for i in range(1, count + 1))
    missing = [part.name for part in parts if not part.exists()]
    if missing:
        names = ", ".join(missing[:3]) + (", ..." if len(missing) > 3 else "")
        raise ModelFileError(
            f"{path} is one of {count} parts and {len(missing)} of them missing from {path.parent}: {names}; "
            "fetch them into the same folder"
        )
    return parts
