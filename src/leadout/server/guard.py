"""What is checked before a route sees a request: the name it was sent to, its key, its size and its pace."""

from __future__ import annotations

import asyncio
import hashlib
import hmac

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from leadout.server.options import ServerOptions
from leadout.server.page_routes import PAGE_FILES
from leadout.server.refusal import OLLAMA_PATHS, RefusedError
from leadout.server.sse import ClientGoneError

OPEN_PATHS = frozenset({"/health", "/ready"})
_LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")


class Guard:
    """Refuses wrong host names, missing keys, and bodies that are too large, too slow or of the wrong type.

    Parameters
    ----------
    app : ASGIApp
    options : ServerOptions
    """

    def __init__(self, app: ASGIApp, options: ServerOptions) -> None:
        self._app, self._options = app, options
        self._hosts = (*_LOOPBACK_NAMES, *options.allowed_hosts)
        self._keys = [_digest(key) for key in options.api_keys]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        try:
            self._check_host(headers)
            self._check_key(scope, headers)
            if scope["method"] == "POST":  # no other route has a body
                self._check_body(scope, headers)
                receive = _replayed(await self._body(receive), receive)
        except RefusedError as refusal:
            await refusal.response(scope["path"])(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _check_host(self, headers: Headers) -> None:
        """On a loopback address, a page of another site must not reach the server by a name of its own."""
        is_checked = self._options.is_loopback or bool(self._options.allowed_hosts)
        host = _host_name(headers.get("host", ""))
        if is_checked and host not in self._hosts:
            raise RefusedError(
                403,
                f"this server is not called {host[:80]!r}; use localhost, or start it with --allowed-host",
                code="host_not_allowed",
            )

    def _check_key(self, scope: Scope, headers: Headers) -> None:
        """Compare with every key, each time for as long, and note whose request it is."""
        is_open = scope["path"] in OPEN_PATHS or scope["path"] in PAGE_FILES
        if not self._keys or is_open or scope["method"] == "OPTIONS":
            return
        kind, _, bearer = headers.get("authorization", "").partition(" ")
        given = _digest(bearer.strip() if kind.lower() == "bearer" else headers.get("x-api-key", ""))
        matches = [hmac.compare_digest(given, key) for key in self._keys]
        if not any(matches):
            raise RefusedError(401, "an API key is needed: Authorization: Bearer KEY", code="invalid_api_key")
        scope["leadout.client"] = given.hex()

    def _check_body(self, scope: Scope, headers: Headers) -> None:
        coding = headers.get("content-encoding", "identity").strip().lower()
        if coding != "identity":
            raise RefusedError(415, f"the body is sent as {coding[:40]!r}; send it as it is, not encoded")
        size, limit = headers.get("content-length", ""), self._options.max_body_bytes
        if size.isdigit() and int(size) > limit:
            raise too_large(limit)
        if scope["path"].startswith(OLLAMA_PATHS) and "origin" not in headers:
            # As Ollama takes it from `curl -d`. A page of another site would send its origin along.
            others = [each for each in scope["headers"] if each[0] != b"content-type"]
            scope["headers"] = [*others, (b"content-type", b"application/json")]
            return
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise RefusedError(
                415, f"the body must be sent as application/json, not as {kind[:40] or 'nothing'!r}"
            )

    async def _body(self, receive: Receive) -> bytes:
        """All of it, as long as it is small and quick enough."""
        body, limit = bytearray(), self._options.max_body_bytes
        try:
            async with asyncio.timeout(self._options.body_timeout_s):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise ClientGoneError("the client closed the connection while it sent its request")
                    body += message.get("body", b"")
                    if len(body) > limit:
                        raise too_large(limit)
                    if not message.get("more_body", False):
                        return bytes(body)
        except TimeoutError as error:
            raise RefusedError(
                408, f"the body did not come within {self._options.body_timeout_s:g} seconds"
            ) from error


def _replayed(body: bytes, receive: Receive) -> Receive:
    """Gives the body as one message, and then what comes after it."""
    is_given = False

    async def replay() -> Message:
        nonlocal is_given
        if is_given:
            return await receive()
        is_given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay


def too_large(limit: int) -> RefusedError:
    """The 413."""
    return RefusedError(413, f"the body is larger than {limit} bytes; send less, or start with --max-body")


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest()


def _host_name(host: str) -> str:
    """The name in a Host header, without its port; lower case."""
    host = host.strip().lower()
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0] if host.count(":") == 1 else host
