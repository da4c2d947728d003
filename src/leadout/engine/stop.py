"""Stop strings, decided text by text: what may still become one is held back.

Knows nothing of tokens; end tokens and lengths are the session's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """Text that may go out now, and whether a stop string was found right behind it."""

    text: str
    found: bool


class StopStrings:
    """Watches a growing text for the first stop string.

    First is the one that is complete first; of several complete at once, the longest. So the cut does not
    depend on how the text was split into pieces.

    Parameters
    ----------
    stops : sequence of str
        Non-empty stop strings.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = tuple(stops)
        self._held = ""

    def feed(self, text: str) -> Scan:
        """Add `text`; nothing may be fed after a stop string was found."""
        text = self._held + text
        hits = [(at + len(stop), at) for stop in self._stops if (at := text.find(stop)) >= 0]
        if hits:
            self._held = ""
            return Scan(text=text[: min(hits)[1]], found=True)
        cut = len(text) - self._suspect(text)
        self._held = text[cut:]
        return Scan(text=text[:cut], found=False)

    def flush(self) -> str:
        """What was held back, now that no more text will come."""
        held, self._held = self._held, ""
        return held

    def _suspect(self, text: str) -> int:
        """Length of the longest end of `text` that begins a stop string."""
        longest = max(map(len, self._stops), default=1) - 1
        for size in range(min(longest, len(text)), 0, -1):
            if any(stop.startswith(text[-size:]) for stop in self._stops):
                return size
        return 0
