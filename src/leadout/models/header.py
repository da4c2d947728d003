"""What a GGUF file says of itself: facts and vocabulary, read without loading weights or a backend.

Whatever is wrong with a file is said here, before a backend sees it.
"""

from __future__ import annotations

import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from leadout.errors import ModelFileError
from leadout.models.gguf_format import Front, Strings, Tensor, Value
from leadout.models.model_files import absolute_path, all_parts, read_front

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
    tensors : mapping of name to Tensor
        Shape and format of the tensors of all parts.
    tensor_names : frozenset of str
        Their names.
    tensor_kinds : frozenset of int
        Number formats of the tensors (ggml.h, `enum ggml_type`).
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
    tensors: Mapping[str, Tensor]
    tensor_names: frozenset[str]
    tensor_kinds: frozenset[int]
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
    front = read_front(given)
    parts = all_parts(given, front)
    fronts = [front if part == given else read_front(part) for part in parts]
    return _header(parts, fronts)


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
    tensors = {name: tensor for front in fronts for name, tensor in front.tensors.items()}
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
        n_tensors=sum(len(front.tensors) for front in fronts),
        n_params=sum(tensor.n_elements for tensor in tensors.values()),
        n_bytes=sum(part.stat().st_size for part in parts),
        tensors=MappingProxyType(tensors),
        tensor_names=frozenset(tensors),
        tensor_kinds=frozenset(tensor.kind for tensor in tensors.values()),
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
        raise self.error(f"{key} is {_shown(value)}, not a text")

    def number(self, key: str, default: int = 0) -> int:
        value = self.metadata.get(key, default)
        if isinstance(value, np.ndarray) and value.size and value.dtype.kind in "iu":
            value = int(value.max())
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return value
        raise self.error(f"{key} is {_shown(value)}, not a whole number")

    def strings(self, key: str) -> Sequence[str]:
        value = self.metadata.get(key, Strings(b"", 0))
        if isinstance(value, Strings):
            return value
        raise self.error(f"{key} is {_shown(value)}, not a list of texts")

    def token_types(self, n_tokens: int) -> NDArray[np.int32] | None:
        key = "tokenizer.ggml.token_type"
        value = self.metadata.get(key)
        if value is None:
            return None
        if not isinstance(value, np.ndarray) or value.dtype.kind not in "iu" or len(value) != n_tokens:
            raise self.error(
                f"{key} is {_shown(value)}, not one whole number for each of {n_tokens:,} tokens"
            )
        types: NDArray[np.int32] = value.astype(np.int32)
        return types


def _shown(value: Value) -> str:
    return f"an array of {len(value):,} numbers" if isinstance(value, np.ndarray) else reprlib.repr(value)
