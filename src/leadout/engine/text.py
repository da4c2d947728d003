"""From token pieces to text: characters whose bytes are spread over several tokens come out whole.

Bytes that are not UTF-8 become U+FFFD; a character that is still incomplete at the end is dropped.
"""

from __future__ import annotations

import codecs


class TextDecoder:
    """Turns pieces into text as soon as it is certain."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, piece: bytes) -> str:
        """Text that became certain with `piece`; may be ""."""
        return self._decoder.decode(piece)
