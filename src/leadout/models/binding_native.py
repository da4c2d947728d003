"""A loaded GGUF library as a table of C functions, and the `Binding` and `Context` that use it.

llama.cpp and ik_llama.cpp share almost every signature; where they differ (which handle a call takes, names,
structures) `binding_llama` and `binding_ik` fill the table accordingly. Imports neither.
"""

from __future__ import annotations

import ctypes
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leadout.errors import BackendError
from leadout.models.binding import Batch, Facts

STATE_WHOLE, STATE_RUNNING = 0, 1
"""Flags of the state functions: everything, or only what cannot be cut (a hybrid's recurrent part)."""

_ERROR, _CONTINUED = 4, 5
_N_BYTES_PIECE = 256

LogCallback = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)


def declare(library: ctypes.CDLL, name: str, result: Any, *arguments: Any) -> Callable[..., Any]:
    """The C function `name` with its types; what others declared for the same function is left alone."""
    function = library[name]
    function.restype = result
    function.argtypes = arguments
    return function


PIECE_ARGUMENTS = (
    ctypes.c_void_p,
    ctypes.c_int32,
    ctypes.c_char_p,
    ctypes.c_int32,
    ctypes.c_int32,
    ctypes.c_bool,
)
"""Of `llama_token_to_piece`: vocabulary, token, buffer, size, strip, special."""

TOKENIZE_ARGUMENTS = (
    ctypes.c_void_p,
    ctypes.c_char_p,
    ctypes.c_int32,
    ctypes.POINTER(ctypes.c_int32),
    ctypes.c_int32,
    ctypes.c_bool,
    ctypes.c_bool,
)
"""Of `llama_tokenize`: vocabulary, text, its length, buffer, size, add special ones, read special ones."""


class LogTail:
    """Keeps a library's last complaints instead of letting it print.

    The library holds `callback` for as long as the process lives, so this object must live as long.
    """

    def __init__(self) -> None:
        self._lines: deque[str] = deque(maxlen=6)
        self.callback = LogCallback(self._hear)

    def clear(self) -> None:
        """Forget what was said so far."""
        self._lines.clear()

    def text(self) -> str:
        """The complaints since `clear`, in one line."""
        return "; ".join(line for line in (part.strip() for part in self._lines) if line)

    def _hear(self, level: int, text: bytes | None, _user_data: int | None) -> None:
        # Called on the library's own threads; deque.append is atomic.
        if text and level in (_ERROR, _CONTINUED) and (level == _ERROR or self._lines):
            self._lines.append(text.decode("utf-8", errors="replace"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Functions:
    """The C functions that `NativeBinding` and `NativeContext` call.

    `memory` is the handle that the cache functions take, `vocab` the one that the token functions take.
    """

    decode: Callable[..., Any]  # (context, batch) -> int
    logits: Callable[..., Any]  # (context, batch entry) -> address
    remove: Callable[..., Any]  # (memory, slot, start, stop) -> bool
    copy: Callable[..., Any]  # (memory, source, target, start, stop)
    last_position: Callable[..., Any]  # (memory, slot) -> int, -1 when empty
    state_size: Callable[..., Any]  # (context, slot, flags) -> bytes
    state_get: Callable[..., Any]  # (context, buffer, size, slot, flags) -> bytes written
    state_set: Callable[..., Any]  # (context, buffer, size, slot, flags) -> bytes read
    free_context: Callable[..., Any]  # (context)
    free_model: Callable[..., Any]  # (model)
    metadata: Callable[..., Any]  # (model, key, buffer, size) -> length or -1
    token_text: Callable[..., Any]  # (vocab, token) -> text
    token_piece: Callable[
        ..., Any
    ]  # (vocab, token, buffer, size, strip, special) -> length, negative if too long
    token_is_end: Callable[..., Any]  # (vocab, token) -> bool
    tokenize: Callable[
        ..., Any
    ]  # (vocab, text, size, buffer, size, add, special) -> count, negative if too many


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextHandle:
    """A context as the library gave it, with the sizes it was made for."""

    context: int
    memory: int
    n_batch: int
    max_rows: int


class NativeContext:
    """A `Context` over a C context."""

    def __init__(
        self, functions: Functions, handle: ContextHandle, batch_type: type[Any], n_vocab: int
    ) -> None:
        self._functions = functions
        self._context: int | None = handle.context
        self._memory = handle.memory
        self._n_vocab = n_vocab
        self._max_rows = handle.max_rows
        n = handle.n_batch
        self._batch = Batch(
            tokens=np.zeros(n, np.int32),
            positions=np.zeros(n, np.int32),
            slots=np.zeros(n, np.int32),
            wanted=np.zeros(n, np.int8),
        )
        self._ones = np.ones(n, np.int32)
        # The library wants a pointer to each entry's list of slots: here, to entry i of `slots`.
        self._slot_pointers = self._batch.slots.ctypes.data + 4 * np.arange(n, dtype=np.uintp)
        self._struct = _batch_struct(batch_type, self._batch, self._ones, self._slot_pointers)

    @property
    def batch(self) -> Batch:
        return self._batch

    @property
    def max_rows(self) -> int:
        return self._max_rows

    def decode(self, n_tokens: int) -> int:
        self._struct.n_tokens = n_tokens
        answer: int = self._functions.decode(self._context, self._struct)
        return answer

    def rows(self, first: int, last: int) -> NDArray[np.float32]:
        n_rows = last - first + 1
        start = self._row_address(first)
        if n_rows == 1 or self._row_address(last) - start == (n_rows - 1) * self._n_vocab * 4:
            return self._view(start, n_rows)
        return np.concatenate([self._view(self._row_address(entry), 1) for entry in range(first, last + 1)])

    def remove(self, slot: int, start: int) -> bool:
        return bool(self._functions.remove(self._memory, slot, start, -1))

    def copy(self, source: int, target: int, length: int | None) -> bool:
        start, stop = (-1, -1) if length is None else (0, length)
        self._functions.copy(self._memory, source, target, start, stop)
        return True

    def end(self, slot: int) -> int:
        last: int = self._functions.last_position(self._memory, slot)
        return last + 1

    def save(self, slot: int, *, whole: bool) -> bytes:
        flags = STATE_WHOLE if whole else STATE_RUNNING
        size: int = self._functions.state_size(self._context, slot, flags)
        buffer = np.empty(size, np.uint8)
        written: int = self._functions.state_get(self._context, buffer.ctypes.data, size, slot, flags)
        return buffer[:written].tobytes()

    def restore(self, slot: int, state: bytes, *, whole: bool) -> bool:
        flags = STATE_WHOLE if whole else STATE_RUNNING
        return bool(self._functions.state_set(self._context, state, len(state), slot, flags))

    def close(self) -> None:
        if self._context is not None:
            self._functions.free_context(self._context)
            self._context = None

    def _row_address(self, entry: int) -> int:
        address: int | None = self._functions.logits(self._context, entry)
        if not address:
            raise BackendError(f"the library gave no logits for entry {entry} of the batch")
        return address

    def _view(self, address: int, n_rows: int) -> NDArray[np.float32]:
        memory: Any = (ctypes.c_float * (n_rows * self._n_vocab)).from_address(address)
        flat: NDArray[np.float32] = np.frombuffer(memory, dtype=np.float32)
        return flat.reshape(n_rows, self._n_vocab)


class NativeBinding:
    """A `Binding` over a C model."""

    def __init__(
        self,
        functions: Functions,
        *,
        model: int,
        vocab: int,
        facts: Facts,
        log: LogTail,
        batch_type: type[Any],
        make_context: Callable[[int, int], ContextHandle],
    ) -> None:
        self._functions = functions
        self._model: int | None = model
        self._vocab = vocab
        self._facts = facts
        self._log = log
        self._batch_type = batch_type
        self._make_context = make_context

    @property
    def facts(self) -> Facts:
        return self._facts

    def open_context(self, *, n_ctx: int, n_slots: int) -> NativeContext:
        handle = self._make_context(n_ctx, n_slots)
        return NativeContext(self._functions, handle, self._batch_type, self._facts.n_vocab)

    def metadata(self, key: str) -> str | None:
        size: int = self._functions.metadata(self._model, key.encode(), None, 0)
        if size < 0:
            return None
        buffer = ctypes.create_string_buffer(size + 1)
        self._functions.metadata(self._model, key.encode(), buffer, size + 1)
        return buffer.value.decode("utf-8", errors="replace")

    def token_text(self, token: int) -> bytes:
        text: bytes | None = self._functions.token_text(self._vocab, token)
        return text or b""

    def token_piece(self, token: int, *, special: bool) -> bytes:
        size = _N_BYTES_PIECE
        buffer = ctypes.create_string_buffer(size)
        length: int = self._functions.token_piece(self._vocab, token, buffer, size, 0, special)
        if length < 0:
            size = -length
            buffer = ctypes.create_string_buffer(size)
            length = self._functions.token_piece(self._vocab, token, buffer, size, 0, special)
        return buffer.raw[: max(0, length)]

    def token_is_end(self, token: int) -> bool:
        return bool(self._functions.token_is_end(self._vocab, token))

    def tokenize(self, text: bytes, *, special: bool) -> list[int]:
        size = (
            len(text) + 8
        )  # a token is seldom shorter than a byte; if it is, the library says how many there are
        while True:
            buffer = (ctypes.c_int32 * size)()
            count: int = self._functions.tokenize(self._vocab, text, len(text), buffer, size, False, special)
            if count >= 0:
                return list(buffer[:count])
            size = -count

    def last_errors(self) -> str:
        return self._log.text()

    def close(self) -> None:
        if self._model is not None:
            self._functions.free_model(self._model)
            self._model = None


def _batch_struct(
    batch_type: type[Any], batch: Batch, ones: NDArray[np.int32], slot_pointers: NDArray[np.uintp]
) -> Any:
    struct = batch_type()
    sources: dict[str, NDArray[Any]] = {
        "token": batch.tokens,
        "pos": batch.positions,
        "n_seq_id": ones,
        "seq_id": slot_pointers,
        "logits": batch.wanted,
    }
    kinds = dict(batch_type._fields_)
    for field, array in sources.items():
        setattr(struct, field, ctypes.cast(array.ctypes.data, kinds[field]))
    return struct
