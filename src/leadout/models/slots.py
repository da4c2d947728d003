"""The slots of a cache: which tokens each holds, passes over several of them, and checked roll-back.

The same for every library. Every cut is checked against the library's own count; a slot that cannot be
brought back is emptied and `RollbackError` raised, so that nothing continues on a wrong cache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from leadout.errors import BackendError, RollbackError
from leadout.models.base import Chunk
from leadout.models.binding import DECODED, NO_ROOM, Context


@dataclass(slots=True)
class _Slot:
    """What a slot's cache holds; where it cannot be cut, also the state saved at a shorter length.

    `reach` is the most it held when a pass began, of any slot, since it was empty.
    """

    tokens: list[int] = field(default_factory=list)
    snapshot: tuple[int, bytes] | None = None
    reach: int = 0

    def clear(self) -> None:
        self.tokens.clear()
        self.snapshot, self.reach = None, 0


class _Piece(NamedTuple):
    """Tokens start..stop-1 of a chunk; logits are wanted for its last n_rows."""

    chunk: int
    start: int
    stop: int
    n_rows: int


class SlotCache:
    """Slots over a `Context`.

    Parameters
    ----------
    context : Context
        The library's cache; closed with this one.
    n_ctx, n_slots, n_vocab : int
        Positions per slot, slots, and rows of logits.
    can_cut : bool
        True when entries can be dropped from the end; else a saved state is restored and tokens decoded
        again.
    last_errors : callable
        What the library last complained of.
    window : int
        Of a model with sliding windows, where the library gives the entries that no next token can see to
        other tokens: how many it sees. They are missing where a slot is cut back beyond them. 0 for never.
    """

    def __init__(
        self,
        context: Context,
        *,
        n_ctx: int,
        n_slots: int,
        n_vocab: int,
        can_cut: bool,
        last_errors: Callable[[], str],
        window: int = 0,
    ) -> None:
        self._context = context
        self._n_ctx = n_ctx
        self._n_vocab = n_vocab
        self._can_cut = can_cut
        self._last_errors = last_errors
        self._window = window
        self._slots = [_Slot() for _ in range(n_slots)]

    def length(self, slot: int) -> int:
        """As `Model.length`."""
        return len(self._slot(slot).tokens)

    def forward(self, chunks: Sequence[Chunk]) -> list[NDArray[np.float32]]:
        """As `Model.forward`."""
        self._check(chunks)
        if not self._can_cut:
            self._take_snapshots(chunks)
        groups = list(_split(chunks, len(self._context.batch.tokens), self._context.max_rows))
        lengths = [self.length(chunk.slot) for chunk in chunks]
        try:
            rows = self._run(chunks, groups)
            for chunk in chunks:
                self._slots[chunk.slot].tokens.extend(chunk.tokens)
        except BaseException:  # an interrupt too, which comes as soon as the library has returned
            for chunk, length in zip(chunks, lengths, strict=True):
                del self._slots[chunk.slot].tokens[length:]
            self._put_back(chunks)
            raise
        return rows

    def truncate(self, slot: int, length: int) -> None:
        """As `Model.truncate`."""
        held = self._slot(slot)
        if not 0 <= length <= len(held.tokens):
            raise BackendError(f"slot {slot} holds {len(held.tokens)} tokens; it cannot be cut to {length}")
        # What the library holds is asked as well: an interrupt may have parted it from our list.
        if length < len(held.tokens) or self._context.end(slot) != length:
            self._rewind(slot, length)

    def copy(self, source: int, target: int, length: int) -> None:
        """As `Model.copy`."""
        held, copied = self._slot(source), self._slot(target)
        if not 0 <= length <= len(held.tokens):
            raise BackendError(f"slot {source} holds {len(held.tokens)} tokens; {length} cannot be copied")
        if source != target:
            self._empty(target)
            if length == 0:
                return
            is_whole = not self._has_lost(source, length)
            if is_whole and self._context.copy(source, target, length if self._can_cut else None):
                copied.tokens.extend(held.tokens[:length] if self._can_cut else held.tokens)
                copied.snapshot, copied.reach = held.snapshot, held.reach
            else:
                self._empty(target)
                self._decode_again(target, held.tokens[:length])
            if self._context.end(target) != len(copied.tokens):
                self._give_up(target, f"copying {length} tokens of slot {source} to slot {target}")
        self.truncate(target, length)

    def close(self) -> None:
        """Free the cache; closing twice is allowed."""
        self._context.close()

    def _slot(self, slot: int) -> _Slot:
        if not 0 <= slot < len(self._slots):
            raise BackendError(f"slot {slot} does not exist; this model has slots 0..{len(self._slots) - 1}")
        return self._slots[slot]

    def _check(self, chunks: Sequence[Chunk]) -> None:
        seen = set()
        for chunk in chunks:
            length, n_new = self.length(chunk.slot), len(chunk.tokens)
            if chunk.slot in seen:
                raise BackendError(f"slot {chunk.slot} has two chunks in one pass; join them")
            seen.add(chunk.slot)
            if n_new == 0 or not 0 <= chunk.n_logits <= n_new:
                raise BackendError(f"a chunk of {n_new} tokens cannot give {chunk.n_logits} rows of logits")
            if length + n_new > self._n_ctx:
                raise BackendError(
                    f"slot {chunk.slot} holds {length} tokens and has room for {self._n_ctx}; "
                    f"{n_new} more do not fit"
                )
            for token in chunk.tokens:
                if not 0 <= token < self._n_vocab:
                    raise BackendError(f"token id {token} is outside the vocabulary 0..{self._n_vocab - 1}")

    def _run(self, chunks: Sequence[Chunk], groups: Sequence[list[_Piece]]) -> list[NDArray[np.float32]]:
        """Decode the groups in turn; once more, with the cache tidied up, when there was no room."""
        answer = self._decode_all(chunks, groups)
        if isinstance(answer, int):
            reason = "no room in the cache" if answer == NO_ROOM else f"code {answer}"
            raise BackendError(
                f"the forward pass failed ({reason}): {self._last_errors() or 'no more is known'}"
            )
        return answer

    def _decode_all(
        self, chunks: Sequence[Chunk], groups: Sequence[list[_Piece]]
    ) -> list[NDArray[np.float32]] | int:
        """Rows of each chunk, or the code of the pass that failed."""
        rows: list[list[NDArray[np.float32]]] = [[] for _ in chunks]
        for group in groups:
            code = self._decode(chunks, group)
            if code != DECODED:
                return code
            stop = 0
            for piece in group:
                stop += piece.stop - piece.start
                if piece.n_rows:
                    view = self._context.rows(stop - piece.n_rows, stop - 1)
                    # The next pass overwrites the library's memory: only rows of the last one stay views.
                    rows[piece.chunk].append(view if group is groups[-1] else view.copy())
        none = np.empty((0, self._n_vocab), np.float32)
        return [parts[0] if len(parts) == 1 else np.concatenate(parts) if parts else none for parts in rows]

    def _decode(self, chunks: Sequence[Chunk], group: Sequence[_Piece]) -> int:
        batch, at = self._context.batch, 0
        if self._window:
            self._note_reach(chunks, group)
        for piece in group:
            chunk, n = chunks[piece.chunk], piece.stop - piece.start
            base = len(self._slots[chunk.slot].tokens)
            batch.tokens[at : at + n] = chunk.tokens[piece.start : piece.stop]
            batch.positions[at : at + n] = np.arange(base + piece.start, base + piece.stop)
            batch.slots[at : at + n] = chunk.slot
            batch.wanted[at : at + n - piece.n_rows] = 0
            batch.wanted[at + n - piece.n_rows : at + n] = 1
            at += n
        return self._context.decode(at)

    def _note_reach(self, chunks: Sequence[Chunk], group: Sequence[_Piece]) -> None:
        """Remember how much every slot holds as this pass begins, with what the groups before it brought."""
        begun = {chunk.slot: len(chunk.tokens) for chunk in chunks[: group[0].chunk]}
        begun |= {chunks[piece.chunk].slot: piece.start for piece in group}
        for slot, held in enumerate(self._slots):
            held.reach = max(held.reach, len(held.tokens) + begun.get(slot, 0))

    def _take_snapshots(self, chunks: Sequence[Chunk]) -> None:
        """Save the state before tokens that may be taken back; a single token never is."""
        for chunk in chunks:
            held = self._slots[chunk.slot]
            if len(chunk.tokens) > 1 and held.tokens:
                held.snapshot = (len(held.tokens), self._context.save(chunk.slot, whole=False))

    def _put_back(self, chunks: Sequence[Chunk]) -> None:
        """Drop what a failed pass left in the slots."""
        for chunk in chunks:
            length = self.length(chunk.slot)
            if self._context.end(chunk.slot) != length:
                self._rewind(chunk.slot, length)

    def _rewind(self, slot: int, length: int) -> None:
        if length == 0:
            self._empty(slot)
        elif not self._can_cut or self._has_lost(slot, length):
            self._replay(slot, length)
        elif self._context.remove(slot, length) and self._context.end(slot) == length:
            del self._slots[slot].tokens[length:]
        else:
            self._give_up(slot, f"cutting slot {slot} to {length} tokens")

    def _has_lost(self, slot: int, length: int) -> bool:
        """Whether the next token after `length` ones may see entries that are not there any more."""
        return 0 < self._window <= self._slots[slot].reach and 0 < length < self._slots[slot].reach

    def _replay(self, slot: int, length: int) -> None:
        """Restore the saved state, or begin anew if it is too long, and decode the tokens after it again."""
        held = self._slots[slot]
        tokens, base = held.tokens[:length], self._restore(slot, length)
        del held.tokens[base:]
        self._decode_again(slot, tokens[base:])
        if self._context.end(slot) != length:
            self._give_up(slot, f"bringing slot {slot} back to {length} tokens")

    def _decode_again(self, slot: int, tokens: Sequence[int]) -> None:
        again = [Chunk(slot=slot, tokens=tokens, n_logits=0)]
        for group in _split(again, len(self._context.batch.tokens), self._context.max_rows):
            if self._decode(again, group) != DECODED:
                self._give_up(slot, f"decoding {len(tokens)} tokens of slot {slot} again")
        self._slots[slot].tokens.extend(tokens)

    def _restore(self, slot: int, length: int) -> int:
        """Bring the slot to a state of at most `length` tokens; returns how many that are."""
        held = self._slots[slot]
        if held.snapshot is not None and held.snapshot[0] <= length:
            base, state = held.snapshot
            is_restored = self._context.restore(slot, state, whole=False)
            # A hybrid's attention entries are not part of the state: cut them to match it.
            if is_restored and self._context.remove(slot, base) and self._context.end(slot) == base:
                return base
        self._context.remove(slot, 0)
        held.clear()
        return 0

    def _empty(self, slot: int) -> None:
        self._context.remove(slot, 0)
        self._slots[slot].clear()
        if self._context.end(slot) != 0:
            raise RollbackError(f"slot {slot} cannot be emptied; close the model and load it again")

    def _give_up(self, slot: int, what: str) -> None:
        self._empty(slot)
        raise RollbackError(f"{what} failed; the slot is empty now and its tokens must be given again")


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
