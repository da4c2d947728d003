"""A GGUF file behind the `Model` seam: slots, chunks and roll-back, the same for every library.

Which tokens a slot holds is tracked here, and every cut of a cache is checked against the library's own count.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from leadout.errors import BackendError, RollbackError
from leadout.models.base import Chunk, ModelInfo, Rollback
from leadout.models.binding import DECODED, NO_ROOM, Binding, Context
from leadout.models.options import GgufOptions
from leadout.models.vocabulary import GgufVocabulary


@dataclass(slots=True)
class _Slot:
    """What a slot's cache holds, and the last state saved of it (replay only): the length it was saved at, and the state."""

    tokens: list[int] = field(default_factory=list)
    snapshot: tuple[int, bytes] | None = None

    def clear(self) -> None:
        self.tokens.clear()
        self.snapshot = None


class _Piece(NamedTuple):
    """Tokens start..stop-1 of a chunk; logits are wanted for its last n_rows."""

    chunk: int
    start: int
    stop: int
    n_rows: int


class GgufModel:
    """A loaded GGUF file; implements `Model`. Not safe to call from two threads at once.

    Parameters
    ----------
    binding : Binding
        The loaded file; closed with the model.
    options : GgufOptions
        What it was loaded with.
    name, path, provider_reason
        For `info`.
    """

    def __init__(
        self, binding: Binding, options: GgufOptions, *, name: str, path: Path, provider_reason: str = ""
    ) -> None:
        self._binding = binding
        self._options = options
        self._n_vocab = binding.facts.n_vocab
        self._n_ctx = options.context_length(binding.facts.n_ctx_train)
        self._vocab = GgufVocabulary(binding)
        self._context: Context | None = binding.open_context(n_ctx=self._n_ctx, n_slots=options.n_slots)
        self._slots = [_Slot() for _ in range(options.n_slots)]
        self._ramp = np.arange(self._n_ctx, dtype=np.int32)
        self._info = _info(
            binding, options, self._n_ctx, name=name, path=path, provider_reason=provider_reason
        )

    @property
    def info(self) -> ModelInfo:
        return self._info

    @property
    def vocab(self) -> GgufVocabulary:
        return self._vocab

    def length(self, slot: int) -> int:
        return len(self._slot(slot).tokens)

    def forward(self, chunks: Sequence[Chunk]) -> list[NDArray[np.float32]]:
        context = self._open()
        self._check(chunks)
        if self._info.rollback == "replay":
            self._take_snapshots(context, chunks)
        groups = list(_split(chunks, len(context.batch.tokens), context.max_rows))
        rows = self._run(context, chunks, groups)
        for chunk in chunks:
            self._slots[chunk.slot].tokens.extend(chunk.tokens)
        return rows

    def truncate(self, slot: int, length: int) -> None:
        context, held = self._open(), self._slot(slot)
        if not 0 <= length <= len(held.tokens):
            raise BackendError(f"slot {slot} holds {len(held.tokens)} tokens; it cannot be cut to {length}")
        if length < len(held.tokens):
            self._rewind(context, slot, length)

    def copy(self, source: int, target: int, length: int) -> None:
        context, held = self._open(), self._slot(source)
        if not 0 <= length <= len(held.tokens):
            raise BackendError(
                f"slot {source} holds {len(held.tokens)} tokens; {length} of them cannot be copied"
            )
        if source == target:
            self.truncate(source, length)
            return
        copied = self._slot(target)
        self._empty(context, target)
        if length == 0:
            return
        is_cut = self._info.rollback == "cut"
        context.copy(source, target, length if is_cut else None)
        copied.tokens.extend(held.tokens[:length] if is_cut else held.tokens)
        copied.snapshot = held.snapshot
        if context.end(target) != len(copied.tokens):
            self._fail_rollback(context, target, f"copying {length} tokens of slot {source} to slot {target}")
        self.truncate(target, length)

    def exact_widths(self) -> frozenset[int]:
        """Widths w for which one pass of w tokens gives the same bits as w passes of one token.

        Measured once per file, library, CPU and options in a small cache of its own, at three places; that costs about
        350 tokens of prefill and 150 single passes at worst. Later calls and processes read the user cache directory.
        """
        self._open()
        raise NotImplementedError

    def close(self) -> None:
        if self._context is not None:
            self._vocab.close()
            self._context.close()
            self._binding.close()
            self._context = None

    def _open(self) -> Context:
        if self._context is None:
            raise BackendError(f"the model {self._info.name!r} is closed; load it again to use it")
        return self._context

    def _slot(self, slot: int) -> _Slot:
        if not 0 <= slot < len(self._slots):
            raise BackendError(f"slot {slot} does not exist; this model has slots 0..{len(self._slots) - 1}")
        return self._slots[slot]

    def _check(self, chunks: Sequence[Chunk]) -> None:
        seen = set()
        for chunk in chunks:
            length, n_new = len(self._slot(chunk.slot).tokens), len(chunk.tokens)
            if chunk.slot in seen:
                raise BackendError(f"slot {chunk.slot} has two chunks in one pass; join them")
            seen.add(chunk.slot)
            if not 0 <= chunk.n_logits <= n_new or n_new == 0:
                raise BackendError(f"a chunk of {n_new} tokens cannot give {chunk.n_logits} rows of logits")
            if length + n_new > self._n_ctx:
                raise BackendError(
                    f"slot {chunk.slot} holds {length} tokens; {n_new} more exceed the context of {self._n_ctx}"
                )
            for token in chunk.tokens:
                if not 0 <= token < self._n_vocab:
                    raise BackendError(f"token id {token} is outside the vocabulary 0..{self._n_vocab - 1}")

    def _run(
        self, context: Context, chunks: Sequence[Chunk], groups: list[list[_Piece]]
    ) -> list[NDArray[np.float32]]:
        """Decode the groups in turn; on failure put every slot back to where it was."""
        answer = self._decode_groups(context, chunks, groups)
        if isinstance(answer, int) and answer == NO_ROOM and context.defragment():
            self._put_back(context, chunks)
            answer = self._decode_groups(context, chunks, groups)
        if isinstance(answer, int):
            self._put_back(context, chunks)
            reason = "no room in the cache" if answer == NO_ROOM else f"code {answer}"
            raise BackendError(
                f"the forward pass failed ({reason}): {self._binding.last_errors() or 'no reason given'}"
            )
        return answer

    def _decode_groups(
        self, context: Context, chunks: Sequence[Chunk], groups: list[list[_Piece]]
    ) -> list[NDArray[np.float32]] | int:
        rows: list[list[NDArray[np.float32]]] = [[] for _ in chunks]
        for group in groups:
            code = self._decode(context, chunks, group)
            if code != DECODED:
                return code
            at = 0
            for piece in group:
                at += piece.stop - piece.start
                if piece.n_rows:
                    view = context.rows(at - piece.n_rows, at - 1)
                    # Another pass will overwrite the library's memory, so only the last pass's rows stay views.
                    rows[piece.chunk].append(view if group is groups[-1] else view.copy())
        empty = np.empty((0, self._n_vocab), np.float32)
        return [parts[0] if len(parts) == 1 else np.concatenate(parts) if parts else empty for parts in rows]

    def _decode(self, context: Context, chunks: Sequence[Chunk], group: list[_Piece]) -> int:
        batch, at = context.batch, 0
        for piece in group:
            chunk, n = chunks[piece.chunk], piece.stop - piece.start
            base = len(self._slots[chunk.slot].tokens)
            batch.tokens[at : at + n] = chunk.tokens[piece.start : piece.stop]
            batch.positions[at : at + n] = self._ramp[base + piece.start : base + piece.stop]
            batch.slots[at : at + n] = chunk.slot
            batch.wanted[at : at + n - piece.n_rows] = 0
            batch.wanted[at + n - piece.n_rows : at + n] = 1
            at += n
        return context.decode(at)

    def _take_snapshots(self, context: Context, chunks: Sequence[Chunk]) -> None:
        for chunk in chunks:
            held = self._slots[chunk.slot]
            if len(chunk.tokens) > 1 and held.tokens:
                held.snapshot = (len(held.tokens), context.save(chunk.slot))

    def _put_back(self, context: Context, chunks: Sequence[Chunk]) -> None:
        """After a failed pass: drop what it left in the slots."""
        for chunk in chunks:
            length = len(self._slots[chunk.slot].tokens)
            if context.end(chunk.slot) != length:
                self._rewind(context, chunk.slot, length)

    def _rewind(self, context: Context, slot: int, length: int) -> None:
        held = self._slots[slot]
        if length == 0:
            self._empty(context, slot)
        elif self._info.rollback == "cut":
            if not context.remove(slot, length) or context.end(slot) != length:
                self._fail_rollback(context, slot, f"cutting slot {slot} to {length} tokens")
            del held.tokens[length:]
        elif self._info.rollback == "replay":
            self._replay(context, slot, length)
        else:
            self._fail_rollback(context, slot, self._info.rollback_reason)

    def _replay(self, context: Context, slot: int, length: int) -> None:
        """Restore the last state that is not too long (or none) and decode the tokens after it again."""
        held = self._slots[slot]
        tokens, snapshot = held.tokens[:length], held.snapshot
        base = 0
        if snapshot is not None and snapshot[0] <= length:
            base, state = snapshot
            if (
                not context.restore(slot, state)
                or not context.remove(slot, base)
                or context.end(slot) != base
            ):
                base = 0
        if base == 0:
            self._empty(context, slot)
        del held.tokens[base:]
        if base < length:
            chunk = Chunk(slot=slot, tokens=tokens[base:], n_logits=0)
            for group in _split([chunk], len(context.batch.tokens), context.max_rows):
                if self._decode(context, [chunk], group) != DECODED:
                    self._fail_rollback(
                        context, slot, f"decoding {length - base} tokens of slot {slot} again"
                    )
            held.tokens.extend(chunk.tokens)
        if context.end(slot) != length:
            self._fail_rollback(context, slot, f"bringing slot {slot} back to {length} tokens")

    def _empty(self, context: Context, slot: int) -> None:
        context.remove(slot, 0)
        self._slots[slot].clear()
        if context.end(slot) != 0:
            raise RollbackError(f"slot {slot} could not be emptied; close the model and load it again")

    def _fail_rollback(self, context: Context, slot: int, what: str) -> None:
        self._empty(context, slot)
        raise RollbackError(f"{what} failed; the slot is empty now, and its tokens must be given again")


def _split(chunks: Sequence[Chunk], n_batch: int, max_rows: int) -> Iterator[list[_Piece]]:
    """Cut the chunks into passes of at most n_batch tokens that want at most max_rows rows each."""
    group: list[_Piece] = []
    n_tokens = n_rows = 0
    for index, chunk in enumerate(chunks):
        start, n_all = 0, len(chunk.tokens)
        first_row = n_all - chunk.n_logits
        while start < n_all:
            room = min(n_batch - n_tokens, max(0, first_row - start) + max_rows - n_rows)
            if room <= 0:
                yield group
                group, n_tokens, n_rows = [], 0, 0
                continue
            stop = min(n_all, start + room)
            rows = max(0, stop - max(start, first_row))
            group.append(_Piece(index, start, stop, rows))
            n_tokens, n_rows, start = n_tokens + stop - start, n_rows + rows, stop
    if group:
        yield group


def _info(
    binding: Binding, options: GgufOptions, n_ctx: int, *, name: str, path: Path, provider_reason: str
) -> ModelInfo:
    facts = binding.facts
    rollback: Rollback = "cut" if facts.memory == "attention" else "replay"
    reason = "" if rollback == "cut" else f"the cache is {facts.memory}: a running state cannot be cut"
    return ModelInfo(
        name=name,
        path=path,
        provider=facts.provider,
        architecture=facts.architecture,
        n_layers=facts.n_layers,
        n_params=facts.n_params,
        n_bytes=facts.n_bytes,
        n_ctx=n_ctx,
        n_ctx_train=facts.n_ctx_train,
        n_slots=options.n_slots,
        n_vocab=facts.n_vocab,
        rollback=rollback,
        rollback_reason=reason,
        provider_reason=provider_reason,
    )
