"""The page at ``/``: files beside this one, served as they are and kept from everything but this server."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

from fastapi import APIRouter, Response

_FOLDER = Path(__file__).parent / "page"
_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_HEADERS = {
    # nothing inline, nothing from elsewhere, and nobody may frame it
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-cache",
}

PAGE_FILES = {
    "/" if file.name == "index.html" else f"/page/{file.name}": file
    for file in sorted(_FOLDER.iterdir())
    if file.suffix in _TYPES
}
"""The page's paths, which need no key: they are the same for everybody, and ask for the key themselves."""


def page_routes() -> APIRouter:
    """One route for each file of the page."""
    router = APIRouter(include_in_schema=False)
    for path, file in PAGE_FILES.items():
        router.add_api_route(path, _giving(file), methods=["GET"])
    return router


def _giving(file: Path) -> Callable[[], Awaitable[Response]]:
    body = file.read_bytes()

    async def give() -> Response:
        return Response(body, media_type=f"{_TYPES[file.suffix]}; charset=utf-8", headers=_HEADERS)

    return give
