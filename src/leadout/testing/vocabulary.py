"""A small vocabulary for tests: a list of pieces, longest match first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from leadout.errors import InputError


class PieceVocabulary:
    """A vocabulary given by the bytes of each id; `encode` takes the longest piece that fits.

    Parameters
    ----------
    pieces : sequence of bytes
        Text of ids 0, 1, ...; b"" for an id without text (a control token or a padding row).
    bos, eos : int or None
        Ids that begin and end a sequence.
    ends : iterable of int
        Further ids that end an answer.
    markers : sequence of (str, int)
        Marker texts, such as ("<|im_start|>", 7), that become one id when `special` is asked for.
    """

    def __init__(
        self,
        pieces: Sequence[bytes],
        *,
        bos: int | None = None,
        eos: int | None = None,
        ends: Iterable[int] = (),
        adds_bos: bool = False,
        chat_template: str | None = None,
        markers: Sequence[tuple[str, int]] = (),
    ) -> None:
        self._pieces = tuple(pieces)
        self._bos, self._eos, self._adds_bos = bos, eos, adds_bos
        self._ends = frozenset(ends) | (frozenset() if eos is None else {eos})
        self._chat_template = chat_template
        self._markers = {marker.encode(): token for marker, token in markers}
        self._names = {token: marker for marker, token in markers}
        control = {token for token in (bos, eos) if token is not None} | set(self._markers.values())
        self._ids = {piece: i for i, piece in enumerate(self._pieces) if piece and i not in control}
        self._control = frozenset(control)

    @classmethod
    def numbered(cls, size: int, *, eos: int | None = None, bos: int | None = None) -> PieceVocabulary:
        """Piece of id i is " i", so that a text shows its ids."""
        return cls([f" {i}".encode() for i in range(size)], bos=bos, eos=eos)

    @property
    def size(self) -> int:
        """Number of ids."""
        return len(self._pieces)

    @property
    def bos(self) -> int | None:
        """Id that begins a sequence, or None."""
        return self._bos

    @property
    def eos(self) -> int | None:
        """Id that ends a sequence, or None."""
        return self._eos

    @property
    def adds_bos(self) -> bool:
        """True when prompts begin with `bos`."""
        return self._adds_bos

    @property
    def chat_template(self) -> str | None:
        """The Jinja chat template, or None."""
        return self._chat_template

    def is_end(self, token: int) -> bool:
        """True when `token` ends the answer."""
        return token in self._ends

    def text(self, token: int) -> str:
        """The entry itself; markers by their marker text."""
        return self._names.get(token) or self._pieces[token].decode("utf-8", "replace")

    def piece(self, token: int, *, special: bool = False) -> bytes:
        """Bytes of `token`; control tokens give b"" unless `special`."""
        if token not in self._control:
            return self._pieces[token]
        return self.text(token).encode() if special else b""

    def encode(self, text: str, *, add_bos: bool, special: bool) -> list[int]:
        """Ids of `text`, longest piece first."""
        ids = [self._bos] if add_bos and self._bos is not None else []
        table = {**self._ids, **self._markers} if special else self._ids
        longest = max(map(len, table), default=0)
        raw = text.encode()
        at = 0
        while at < len(raw):
            sizes = range(min(longest, len(raw) - at), 0, -1)
            size = next((n for n in sizes if raw[at : at + n] in table), 0)
            if not size:
                raise InputError(f"{raw[at:]!r} has no piece in this test vocabulary")
            ids.append(table[raw[at : at + size]])
            at += size
        return ids
