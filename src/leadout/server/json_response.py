"""JSON for the wire: plain values in, UTF-8 bytes out."""

from __future__ import annotations

import json

from starlette.responses import JSONResponse


def json_bytes(value: object) -> bytes:
    """Compact JSON; lone surrogates, which a client may have sent, become "?"."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


class JsonResponse(JSONResponse):
    """A response of plain values."""

    def render(self, content: object) -> bytes:
        """The body."""
        return json_bytes(content)
