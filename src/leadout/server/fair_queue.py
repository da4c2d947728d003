"""Who is next: fair between clients, first come first served within one."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Generic, TypeVar

T = TypeVar("T")


class FairQueue(Generic[T]):
    """Waiting items, each of a client.

    First is the oldest item of the client who has the fewest at work; of such clients, of the one whose turn
    was longest ago. So a client who asks for a hundred things at once gets the slots that others leave.
    """

    def __init__(self) -> None:
        self._waiting: dict[str, deque[T]] = {}
        self._turns: dict[str, int] = {}  # of waiting clients; the number of the turn they had last
        self._n_turns = 0

    def __len__(self) -> int:
        """Items that wait."""
        return sum(map(len, self._waiting.values()))

    def push(self, client: str, item: T) -> None:
        """Put an item behind those of its client."""
        self._waiting.setdefault(client, deque()).append(item)
        # who comes anew stands behind all who had a turn
        self._turns.setdefault(client, self._n_turns)

    def first(self, at_work: Mapping[str, int]) -> T | None:
        """Who is next, which is left where it is; `at_work` counts by client what runs already."""
        if not self._waiting:
            return None
        client = min(self._waiting, key=lambda name: (at_work.get(name, 0), self._turns[name]))
        return self._waiting[client][0]

    def served(self, client: str) -> None:
        """The client had a turn."""
        self._n_turns += 1
        if client in self._turns:
            self._turns[client] = self._n_turns

    def remove(self, client: str, item: T) -> None:
        """Take an item out, if it is there."""
        own = self._waiting.get(client)
        if own is None or item not in own:
            return
        own.remove(item)
        if not own:
            del self._waiting[client], self._turns[client]

    def __iter__(self) -> Iterator[T]:
        """All that wait, by client."""
        return iter([item for own in self._waiting.values() for item in own])
