"""What each slot's cache holds, and which slot serves a prompt.

What was read for one client is never taken over by another: how much of a prompt is cached, and how soon its
first token comes, would tell what others ask.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from leadout.drafters.prefix import common_prefix


@dataclass(frozen=True, slots=True)
class _Held:
    """Tokens in a cache, and whose they are."""

    client: str = ""
    tokens: Sequence[int] = ()

    def of(self, client: str) -> Sequence[int]:
        """What this client may take over."""
        return self.tokens if client == self.client else ()


class SlotPool:
    """Remembers what the caches of free slots hold, and for whom.

    Parameters
    ----------
    n_slots : int
    can_copy : bool
        True when a prefix can be copied from slot to slot, so that a cache need not be cut to be used.
    """

    def __init__(self, n_slots: int, *, can_copy: bool) -> None:
        self._held = {slot: _Held() for slot in range(n_slots)}  # longest unused first
        self._can_copy = can_copy

    @property
    def n_free(self) -> int:
        """Slots that nobody uses."""
        return len(self._held)

    @property
    def n_held(self) -> int:
        """Tokens in the caches of all free slots."""
        return sum(len(held.tokens) for held in self._held.values())

    def free(self, client: str) -> Iterator[tuple[int, Sequence[int]]]:
        """The free slots and what they hold for this client."""
        yield from ((slot, held.of(client)) for slot, held in self._held.items())

    def acquire(self, prompt: Sequence[int], client: str) -> tuple[int, int]:
        """Take a free slot for `prompt`.

        It is the one whose cache shares most of the prompt. Where prefixes can be copied, that one is left
        alone if more than half of what it holds would be lost, and the slot unused longest is taken.

        Returns
        -------
        slot : int
        shared : int
            Leading tokens of `prompt` that the slot's cache holds for this client.
        """
        shared = {slot: common_prefix(held, prompt) for slot, held in self.free(client)}
        slot = max(shared, key=shared.__getitem__)  # max keeps the first of equals, the one unused longest
        if self._can_copy and 2 * shared[slot] < len(self._held[slot].tokens):
            slot = next(iter(self._held))
        del self._held[slot]
        return slot, shared[slot]

    def release(self, slot: int, client: str = "", held: Sequence[int] = ()) -> None:
        """Give `slot` back; its cache holds `held`, which was read for `client`."""
        self._held[slot] = _Held(client, list(held))
