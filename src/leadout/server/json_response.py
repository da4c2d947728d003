"""JSON for the wire: plain values in, UTF-8 bytes out."""

from __future__ import annotations

import json

from starlette.responses import Response


def json_bytes(value: object) -> bytes:
    """Compact JSON; lone surrogates, which a client may have sent, become "?"."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


class JsonResponse(Response):
    """A response of plain values."""

    media_type = "application/json"

    def render(self, content: object) -> bytes:
        """The body."""
        return json_bytes(content)
