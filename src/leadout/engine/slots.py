"""What each slot's cache holds, and which slot serves a prompt."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from leadout.drafters.prefix import common_prefix


class SlotPool:
    """Remembers what the caches of free slots hold.

    Parameters
    ----------
    n_slots : int
    can_copy : bool
        True when a prefix can be copied from slot to slot, so that a cache need not be cut to be used.
    """

    def __init__(self, n_slots: int, *, can_copy: bool) -> None:
        self._held: dict[int, list[int]] = {slot: [] for slot in range(n_slots)}  # longest unused first
        self._can_copy = can_copy

    @property
    def n_free(self) -> int:
        """Slots that nobody uses."""
        return len(self._held)

    def free(self) -> Iterator[tuple[int, Sequence[int]]]:
        """The free slots and what they hold."""
        yield from self._held.items()

    def acquire(self, prompt: Sequence[int]) -> tuple[int, int]:
        """Take a free slot for `prompt`.

        It is the one whose cache shares most of the prompt. Where prefixes can be copied, that one is left
        alone if more than half of what it holds would be lost, and the slot unused longest is taken.

        Returns
        -------
        slot : int
        shared : int
            Leading tokens of `prompt` that the slot's cache holds.
        """
        shared = {slot: common_prefix(held, prompt) for slot, held in self._held.items()}
        slot = max(shared, key=shared.__getitem__)  # max keeps the first of equals, the one unused longest
        if self._can_copy and 2 * shared[slot] < len(self._held[slot]):
            slot = next(iter(self._held))
        del self._held[slot]
        return slot, shared[slot]

    def release(self, slot: int, held: Sequence[int]) -> None:
        """Give `slot` back; its cache holds `held`."""
        self._held[slot] = list(held)
