"""What a GGUF file says of itself: facts and vocabulary, read without loading weights or a backend.

Whatever is wrong with a file is said here, before a backend sees it.
"""

from __future__ import annotations

import mmap
import os
import re
import stat
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from leadout.errors import ModelFileError
from leadout.models.foreign import describe_foreign
from leadout.models.gguf_format import (
    MAGIC,
    DamagedError,
    Front,
    Strings,
    UnsupportedError,
    Value,
    parse_front,
)

_PART_NAME = re.compile(r"(?P<stem>.*)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf", re.DOTALL)
_STATE_KEYS = ("ssm.", "wkv.", "kda.", "shortconv.")
_ATTENTION_FREE = ("mamba", "rwkv", "arwkv")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Header:
    """What the file says; counts that it does not tell are 0.

    Parameters
    ----------
    path : Path
        Absolute path of the file, or of the first part of a split model; this is what a backend opens.
    parts : tuple of Path
        All files of the model in order; just `path` when it is not split.
    version : int
        GGUF version, 2 or 3.
    metadata : mapping
        Every entry of the (first) file; arrays of numbers are read-only arrays, those of strings `Strings`.
    architecture, name : str
        Model family, and the model's own name (the file's stem when it has none).
    n_layers, n_ctx_train, n_embd, n_head, n_head_kv, n_vocab : int
        Sizes; per-layer head counts are given by their largest. `n_vocab` counts padding entries.
    n_tensors, n_params, n_bytes : int
        Tensors and weights of all parts, and bytes of all files.
    sliding_window : int
        Tokens that windowed layers look back; 0 when no layer has a window.
    is_recurrent, is_hybrid : bool
        Layers keep a running state that cannot be cut back; *hybrid*: beside layers with attention.
    tokens : Strings
        Vocabulary entries as stored, decoded when first looked at.
    token_types : int32 array, shape (n_vocab,), or None
        GGUF token types: 1 normal, 2 unknown, 3 control, 4 user defined, 5 unused, 6 byte.
    chat_template : str or None
        The Jinja chat template.
    """

    path: Path
    parts: tuple[Path, ...]
    version: int
    metadata: Mapping[str, Value]
    architecture: str
    name: str
    n_layers: int
    n_ctx_train: int
    n_embd: int
    n_head: int
    n_head_kv: int
    n_vocab: int
    n_tensors: int
    n_params: int
    n_bytes: int
    sliding_window: int
    is_recurrent: bool
    is_hybrid: bool
    tokens: Sequence[str]
    token_types: NDArray[np.int32] | None
    chat_template: str | None


def read_header(path: str | Path) -> Header:
    """Read the header of a GGUF model, of all its parts when it is split.

    Parameters
    ----------
    path : str or Path
        The file; ``~`` and relative paths are resolved, symbolic links are kept (a download cache links
        readable names to hashed files). Any part of a split model will do.

    Raises
    ------
    ModelFileError
        If the file is missing, unreadable, no GGUF model, damaged, cut short, or a part is missing. The
        message is one line with the absolute path, what was seen and what to do.
    """
    given = absolute_path(path)
    front = _read_front(given)
    parts = _all_parts(given, front)
    fronts = [front if part == given else _read_front(part) for part in parts]
    return _header(parts, fronts)


def absolute_path(path: str | Path) -> Path:
    """`path` made absolute, ``~`` expanded, links kept: the one rule for every model path.

    Raises
    ------
    ModelFileError
        If the home folder is not known, or the path has a NUL character.
    """
    try:
        resolved = Path(os.path.abspath(Path(path).expanduser()))  # noqa: PTH100 - resolve() would follow links
    except RuntimeError as error:
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


def _read_front(path: Path) -> Front:
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


def _all_parts(path: Path, front: Front) -> tuple[Path, ...]:
    count = _Facts(path, front.metadata).number("split.count")
    if count <= 1:
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


def _check_together(facts: _Facts, fronts: Sequence[Front]) -> None:
    declared, seen = facts.number("split.tensors.count"), sum(len(front.tensors) for front in fronts)
    if len(fronts) > 1 and declared != seen:
        raise facts.error(f"its {len(fronts)} parts hold {seen} tensors together, {declared} are declared")


def _header(parts: tuple[Path, ...], fronts: Sequence[Front]) -> Header:
    facts = _Facts(parts[0], fronts[0].metadata)
    _check_together(facts, fronts)
    architecture = facts.text("general.architecture")
    if architecture is None:
        raise facts.error("it has no general.architecture, so it is not a model")
    tokens = facts.strings("tokenizer.ggml.tokens")
    n_head = facts.number(f"{architecture}.attention.head_count")
    keeps_state = any(
        key.startswith(tuple(f"{architecture}.{k}" for k in _STATE_KEYS)) for key in facts.metadata
    )
    tensors = [tensor for front in fronts for tensor in front.tensors.values()]
    return Header(
        path=parts[0],
        parts=parts,
        version=fronts[0].version,
        metadata=facts.metadata,
        architecture=architecture,
        name=facts.text("general.name") or parts[0].stem,
        n_layers=facts.number(f"{architecture}.block_count"),
        n_ctx_train=facts.number(f"{architecture}.context_length"),
        n_embd=facts.number(f"{architecture}.embedding_length"),
        n_head=n_head,
        n_head_kv=facts.number(f"{architecture}.attention.head_count_kv", n_head),
        n_vocab=len(tokens) or facts.number(f"{architecture}.vocab_size"),
        n_tensors=len(tensors),
        n_params=sum(tensor.n_elements for tensor in tensors),
        n_bytes=sum(part.stat().st_size for part in parts),
        sliding_window=facts.number(f"{architecture}.attention.sliding_window"),
        is_recurrent=keeps_state,
        is_hybrid=keeps_state and n_head > 0 and not architecture.startswith(_ATTENTION_FREE),
        tokens=tokens,
        token_types=facts.token_types(len(tokens)),
        chat_template=facts.text("tokenizer.chat_template"),
    )


class _Facts:
    """Typed look-ups in the metadata; an entry of another type is damage."""

    def __init__(self, path: Path, metadata: Mapping[str, Value]) -> None:
        self.path, self.metadata = path, metadata

    def error(self, what: str) -> ModelFileError:
        return ModelFileError(f"{self.path} is damaged or no language model: {what}; fetch it again")

    def text(self, key: str) -> str | None:
        value = self.metadata.get(key)
        if value is None or isinstance(value, str):
            return value
        raise self.error(f"{key} is {value!r}, not a text")

    def number(self, key: str, default: int = 0) -> int:
        value = self.metadata.get(key, default)
        if isinstance(value, np.ndarray) and value.size and value.dtype.kind in "iu":
            value = int(value.max())
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return value
        raise self.error(f"{key} is {value!r}, not a whole number")

    def strings(self, key: str) -> Sequence[str]:
        value = self.metadata.get(key, Strings(b"", 0))
        if isinstance(value, Strings):
            return value
        raise self.error(f"{key} is {value!r}, not a list of texts")

    def token_types(self, n_tokens: int) -> NDArray[np.int32] | None:
        key = "tokenizer.ggml.token_type"
        value = self.metadata.get(key)
        if value is None:
            return None
        if not isinstance(value, np.ndarray) or value.dtype.kind not in "iu" or len(value) != n_tokens:
            raise self.error(f"{key} is {value!r}, not one whole number for each of {n_tokens:,} tokens")
        types: NDArray[np.int32] = value.astype(np.int32)
        return types
