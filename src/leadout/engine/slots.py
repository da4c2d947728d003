"""Which slot serves a prompt: the one whose cache shares most of it; of equals, the one unused longest."""

from __future__ import annotations

from collections.abc import Sequence

from leadout.drafters.prefix import common_prefix


class SlotPool:
    """Remembers what each slot's cache holds between requests."""

    def __init__(self, n_slots: int) -> None:
        self._held: list[list[int]] = [[] for _ in range(n_slots)]
        self._free = list(range(n_slots))  # longest unused first

    def acquire(self, prompt: Sequence[int]) -> tuple[int, int]:
        """Take a free slot for `prompt`.

        Returns
        -------
        slot : int
        shared : int
            Leading tokens of `prompt` that the slot's cache holds.
        """
        shared = {slot: common_prefix(self._held[slot], prompt) for slot in self._free}
        slot = max(self._free, key=shared.__getitem__)  # max keeps the first of equals
        self._free.remove(slot)
        return slot, shared[slot]

    def release(self, slot: int, held: Sequence[int]) -> None:
        """Give `slot` back; its cache holds `held`."""
        self._held[slot] = list(held)
        self._free.append(slot)
