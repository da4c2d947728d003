"""Where one JSON value ends in text that comes in pieces; knows no more of JSON than strings and brackets."""

from __future__ import annotations


class JsonScanner:
    """Takes characters one by one.

    Attributes
    ----------
    depth : int
        Open brackets and braces.
    is_in_string : bool
        Whether the last character belongs to a string that goes on.
    """

    def __init__(self) -> None:
        self.depth = 0
        self.is_in_string = False
        self._is_escaped = False

    def take(self, character: str) -> None:
        """Go one character on."""
        if self.is_in_string:
            if self._is_escaped:
                self._is_escaped = False
            elif character == "\\":
                self._is_escaped = True
            elif character == '"':
                self.is_in_string = False
        elif character == '"':
            self.is_in_string = True
        elif character in "{[":
            self.depth += 1
        elif character in "}]":
            self.depth -= 1
