"""Reads the front part of a GGUF file: metadata and tensor table, never the weights.

The `gguf` package's reader makes an array of every token: 7 s for a vocabulary of 151,936, where walking
over the lengths takes 0.03 s. Hence this compact one. It trusts nothing: no count or length is believed
before the file is known to be long enough for it, so damaged files cost neither memory nor time.

Source: the GGUF specification, https://github.com/ggml-org/ggml/blob/master/docs/gguf.md, versions 2 and 3.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from reprlib import repr as shorten
from types import MappingProxyType
from typing import overload

import numpy as np
from numpy.typing import NDArray

MAGIC = b"GGUF"
MAX_ELEMENTS = 8_388_608
"""Longest array of strings that is read; the largest vocabularies have 262,144 entries."""

_STRING, _ARRAY = 8, 9
_SCALARS = {
    0: "<u1",
    1: "<i1",
    2: "<u2",
    3: "<i2",
    4: "<u4",
    5: "<i4",
    6: "<f4",
    7: "?",
    10: "<u8",
    11: "<i8",
    12: "<f8",
}
_MAX_BYTES = 268_435_456  # of one entry; the largest seen, an embedded tokenizer.json, has some 30 MB
_LENGTH = struct.Struct("<Q")
_MAX_DIMENSIONS = 4
_MIN_ENTRY, _MIN_TENSOR = 13, 32  # bytes of the smallest metadata entry and tensor description

_BLOCKS = {
    **{0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34), 9: (32, 40)},
    **{10: (256, 84), 11: (256, 110), 12: (256, 144), 13: (256, 176), 14: (256, 210), 15: (256, 292)},
    **{16: (256, 66), 17: (256, 74), 18: (256, 98), 19: (256, 50), 20: (32, 18), 21: (256, 110)},
    **{22: (256, 82), 23: (256, 136), 24: (1, 1), 25: (1, 2), 26: (1, 4), 27: (1, 8), 28: (1, 8)},
    **{29: (256, 56), 30: (1, 2), 34: (256, 54), 35: (256, 66), 39: (32, 17), 40: (64, 36), 41: (128, 18)},
}
"""Elements and bytes of a block, by tensor type (ggml.h, `enum ggml_type`)."""

KNOWN_KINDS = frozenset(_BLOCKS)
"""Tensor types of llama.cpp; ik_llama.cpp has more."""


class DamagedError(ValueError):
    """The bytes are no well-formed GGUF front part; the message says where and how, not which file."""


class UnsupportedError(ValueError):
    """A well-formed beginning, of a GGUF version or byte order that cannot be used."""


class Strings(Sequence[str]):
    """An array of strings, decoded when first looked at; bytes that are not UTF-8 are escaped."""

    def __init__(self, raw: bytes, length: int) -> None:
        self._raw, self._length = raw, length

    def __len__(self) -> int:
        return self._length

    @property
    def raw(self) -> bytes:
        """The entries as they lie in the file, each after its length."""
        return self._raw

    @overload
    def __getitem__(self, at: int) -> str: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[str, ...]: ...
    def __getitem__(self, at: int | slice) -> str | tuple[str, ...]:
        return self._decoded[at]

    def __iter__(self) -> Iterator[str]:
        return iter(self._decoded)

    def __repr__(self) -> str:
        return f"<{self._length} strings>"

    @cached_property
    def _decoded(self) -> tuple[str, ...]:
        texts, at, read, raw = [], 0, _LENGTH.unpack_from, self._raw
        for _ in range(self._length):
            start = at + 8
            at = start + read(raw, at)[0]
            texts.append(raw[start:at].decode(errors="backslashreplace"))
        return tuple(texts)


Value = bool | int | float | str | NDArray[np.generic] | Strings


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    """One line of the tensor table; `n_bytes` is None for a type that this reader does not know."""

    shape: tuple[int, ...]
    kind: int
    offset: int

    @property
    def n_elements(self) -> int:
        """Weights in this tensor."""
        return math.prod(self.shape)

    @property
    def n_bytes(self) -> int | None:
        """Bytes it takes in the file."""
        if self.kind not in _BLOCKS:
            return None
        elements, size = _BLOCKS[self.kind]
        return self.n_elements // elements * size


@dataclass(frozen=True, slots=True, kw_only=True)
class Front:
    """The front part of one GGUF file; `n_bytes` is what the whole file must have at least."""

    version: int
    metadata: Mapping[str, Value]
    tensors: Mapping[str, Tensor]
    n_bytes: int


def parse_front(data: memoryview | bytes) -> Front:
    """Parse metadata and tensor table of a whole GGUF file's bytes.

    Raises
    ------
    DamagedError
        If the bytes break the format, or end before the table does.
    UnsupportedError
        If version or byte order cannot be used.
    """
    reader = _Reader(data)
    if reader.take(4, "the magic") != MAGIC:
        raise DamagedError("it does not begin with GGUF")
    version = _checked_version(reader.number("<u4", "the version"))
    n_tensors = reader.count("tensors", _MIN_TENSOR)
    n_entries = reader.count("metadata entries", _MIN_ENTRY)
    metadata: dict[str, Value] = {}
    for _ in range(n_entries):
        key = reader.name("a metadata key")
        if key in metadata:
            raise DamagedError(f"the metadata key {shorten(key)} occurs twice")
        metadata[key] = reader.value(reader.number("<u4", f"the type of {shorten(key)}"), key)
    tensors: dict[str, Tensor] = {}
    for _ in range(n_tensors):
        name = reader.name("a tensor name")
        if name in tensors:
            raise DamagedError(f"the tensor {shorten(name)} occurs twice")
        tensors[name] = _tensor(reader, name)
    n_bytes = _needed_bytes(reader.at, metadata, tensors)
    return Front(
        version=version,
        metadata=MappingProxyType(metadata),
        tensors=MappingProxyType(tensors),
        n_bytes=n_bytes,
    )


def _checked_version(version: int) -> int:
    if version in (2, 3):
        return version
    if version & 0xFFFF == 0 and version:
        raise UnsupportedError("it is big-endian, and only little-endian files can be run here")
    if version == 1:
        raise UnsupportedError("it has GGUF version 1, from 2023; versions 2 and 3 are supported")
    raise UnsupportedError(f"it has GGUF version {version:,}; versions 2 and 3 are supported")


def _tensor(reader: _Reader, name: str) -> Tensor:
    what = f"the description of tensor {shorten(name)}"
    n_dimensions = reader.number("<u4", what)
    if n_dimensions > _MAX_DIMENSIONS:
        raise DamagedError(
            f"tensor {shorten(name)} has {n_dimensions} dimensions; at most {_MAX_DIMENSIONS} are allowed"
        )
    shape = tuple(reader.number("<u8", what) for _ in range(n_dimensions))
    return Tensor(shape=shape, kind=reader.number("<u4", what), offset=reader.number("<u8", what))


def _needed_bytes(table_end: int, metadata: Mapping[str, Value], tensors: Mapping[str, Tensor]) -> int:
    alignment = metadata.get("general.alignment", 32)
    if not isinstance(alignment, int) or alignment < 1 or alignment & (alignment - 1):
        raise DamagedError(f"general.alignment is {shorten(alignment)}; it must be a power of two")
    if not tensors:
        return table_end
    start = -(-table_end // alignment) * alignment
    return start + max(tensor.offset + (tensor.n_bytes or 0) for tensor in tensors.values())


class _Reader:
    """Takes values off the front of `data`; knows where it stands and never reads past the end."""

    def __init__(self, data: memoryview | bytes) -> None:
        self._data, self._size = data, len(data)
        self.at = 0

    def take(self, n_bytes: int, what: str) -> bytes:
        if n_bytes > _MAX_BYTES:
            raise DamagedError(f"{what} declares {n_bytes:,} bytes; at most {_MAX_BYTES:,} are read")
        end = self.at + n_bytes
        if end > self._size:
            raise DamagedError(f"{what} would end at byte {end:,}, but the file has {self._size:,}")
        taken = bytes(self._data[self.at : end])
        self.at = end
        return taken

    def number(self, kind: str, what: str) -> int:
        return int(np.frombuffer(self.take(np.dtype(kind).itemsize, what), kind)[0])

    def count(self, what: str, least_bytes: int) -> int:
        count = self.number("<u8", f"the number of {what}")
        if count * least_bytes > self._size:
            raise DamagedError(f"it declares {count:,} {what}, too many for a file of {self._size:,} bytes")
        return count

    def string(self, what: str) -> bytes:
        return self.take(self.number("<u8", what), what)

    def name(self, what: str) -> str:
        try:
            return self.string(what).decode()
        except UnicodeDecodeError as error:
            raise DamagedError(f"{what} before byte {self.at:,} is not UTF-8 text") from error

    def value(self, kind: int, key: str) -> Value:
        if kind == _STRING:
            return self.string(f"the value of {shorten(key)}").decode(errors="backslashreplace")
        if kind == _ARRAY:
            return self._array(key)
        if kind not in _SCALARS:
            raise DamagedError(f"{shorten(key)} has value type {kind}; 0..12 are known")
        dtype = np.dtype(_SCALARS[kind])
        value: bool | int | float = np.frombuffer(
            self.take(dtype.itemsize, f"the value of {shorten(key)}"), dtype
        )[0].item()
        return value

    def _array(self, key: str) -> Value:
        kind = self.number("<u4", f"the element type of {shorten(key)}")
        length = self.number("<u8", f"the length of {shorten(key)}")
        if kind == _STRING:
            return self._strings(key, length)
        if kind not in _SCALARS:
            raise DamagedError(
                f"{shorten(key)} is an array of value type {kind}; numbers and strings can be read"
            )
        dtype = np.dtype(_SCALARS[kind])
        raw = self.take(length * dtype.itemsize, f"the array {shorten(key)} of {length:,}")
        return np.frombuffer(raw, dtype)

    def _strings(self, key: str, length: int) -> Strings:
        if length > MAX_ELEMENTS or length * 8 > self._size - self.at:
            raise DamagedError(
                f"{shorten(key)} declares {length:,} strings, too many for a file of {self._size:,} bytes"
            )
        at, read, data, last = self.at, _LENGTH.unpack_from, self._data, self._size - 8
        for _ in range(length):
            if at > last:
                raise DamagedError(
                    f"the strings of {shorten(key)} go on past the file's end at byte {self._size:,}"
                )
            at += 8 + read(data, at)[0]
        raw = self.take(at - self.at, f"the strings of {shorten(key)}")
        return Strings(raw, length)
