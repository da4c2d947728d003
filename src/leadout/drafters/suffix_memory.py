"""Earlier answers, kept apart by client and bounded in memory; nothing is written anywhere unless asked for.

Knows texts as token ids only.
"""

from __future__ import annotations

from collections.abc import Sequence

from leadout.drafters.suffix_index import BYTES_PER_TOKEN, SuffixIndex
from leadout.errors import InputError

TOKENS_PER_CLIENT = 131_072
N_CLIENTS = 8


class SuffixMemory:
    """What was said to each client, for as long as there is room.

    A client's texts are in an index of its own, which is made when the first one ends: there is no way from
    one client's text to another's. When a client's index is full its oldest tokens are forgotten, a quarter
    at a time; when there is one client too many, the one unused longest is forgotten whole.

    Parameters
    ----------
    tokens_per_client : int >= 4
        Most tokens kept for a client, at `BYTES_PER_TOKEN` (52) each: 6.8 MB by default.
    n_clients : int >= 1
        Most clients.

    Raises
    ------
    InputError
        If a number is smaller.
    """

    def __init__(self, tokens_per_client: int = TOKENS_PER_CLIENT, n_clients: int = N_CLIENTS) -> None:
        if n_clients < 1:
            raise InputError(f"a suffix memory needs room for at least 1 client, got {n_clients}")
        SuffixIndex.check(tokens_per_client)
        self._capacity, self._n_clients = tokens_per_client, n_clients
        self._indexes: dict[str, SuffixIndex] = {}  # the one unused longest first

    @property
    def max_bytes(self) -> int:
        """The most that all clients together may take."""
        return self._n_clients * self._capacity * BYTES_PER_TOKEN

    @property
    def n_bytes(self) -> int:
        """What they take now."""
        return sum(index.n_bytes for index in self._indexes.values())

    @property
    def clients(self) -> tuple[str, ...]:
        """The clients that are remembered, the one unused longest first."""
        return tuple(self._indexes)

    def texts(self, client: str) -> list[list[int]]:
        """What is kept for `client`, oldest first; the first may lack its beginning."""
        index = self._indexes.get(client)
        return [] if index is None else list(index.texts())

    def index(self, client: str) -> SuffixIndex | None:
        """The index of a client's earlier texts, or None when there are none."""
        return self._indexes.get(client)

    def use(self, client: str) -> None:
        """Note that `client` is back, so that others are forgotten before it."""
        if client in self._indexes:
            self._indexes[client] = self._indexes.pop(client)

    def remember(self, client: str, text: Sequence[int]) -> None:
        """Keep a text of `client`."""
        if not text:
            return
        self.use(client)
        if client not in self._indexes:
            while len(self._indexes) >= self._n_clients:
                del self._indexes[next(iter(self._indexes))]
            self._indexes[client] = SuffixIndex(self._capacity)
        self._indexes[client].start()
        self._indexes[client].extend(text)

    def forget(self, client: str) -> None:
        """Drop all that is kept for `client`."""
        self._indexes.pop(client, None)
