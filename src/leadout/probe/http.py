"""HTTP to one server: bounded, without proxies and redirects, every failure told in words.

The API key is sent as a bearer token and never leaves this object otherwise: whatever a server echoes of it
is blotted out of messages.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

import httpx

from leadout.checks import shown
from leadout.errors import InputError, ServerError, ServerRefusedError

MAX_BYTES = 16 * 2**20
"""Longest answer that is read; a probe asks for far less."""

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """What a GET gave, whatever its status."""

    status: int
    headers: Mapping[str, str]
    text: str

    @property
    def json(self) -> Any:
        """The content, or None where it is no JSON or no success."""
        if self.status != 200:
            return None
        try:
            return json.loads(self.text)
        except ValueError:
            return None


class Http:
    """One server.

    Parameters
    ----------
    url : str
        Such as http://127.0.0.1:8000; a trailing /v1 is dropped.
    api_key : str or None
    timeout_s : float
        Longest silence.
    deadline : float
        On `time.monotonic`; a stream is cut there.

    Raises
    ------
    InputError
        If the URL is no http(s) URL of a server.
    """

    def __init__(self, url: str, *, api_key: str | None, timeout_s: float, deadline: float) -> None:
        self.url = checked_url(url)
        self._key, self._timeout_s, self._deadline = api_key, timeout_s, deadline
        self._pages: dict[str, Page] = {}
        self._denial: ServerRefusedError | None = None
        try:
            headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
            self._client = httpx.Client(
                base_url=self.url,
                headers=headers,
                timeout=httpx.Timeout(timeout_s, connect=min(10.0, timeout_s)),
                trust_env=False,
                # one connection a request: llama-server drops a connection after a stream without saying so
                limits=httpx.Limits(max_keepalive_connections=0),
            )
        except (UnicodeError, ValueError) as error:
            raise InputError(
                "the API key has characters that HTTP cannot carry; it must be plain ASCII"
            ) from error

    def __enter__(self) -> Http:
        """Use it in a `with` block."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connections."""
        self._client.close()

    def page(self, path: str, *, fresh: bool = False) -> Page:
        """GET a page of any status; asked once and remembered unless `fresh`.

        Raises
        ------
        ServerError
            If nothing answers.
        """
        if fresh or path not in self._pages:
            with self._failures(path), self._client.stream("GET", path) as response:
                text = self._read(response, path)
                if response.status_code in (401, 403):  # some pages want more rights than completions do
                    self._denial = self._denial or self._refusal(path, response.status_code, text)
                self._pages[path] = Page(status=response.status_code, headers=response.headers, text=text)
        return self._pages[path]

    def raise_denial(self) -> None:
        """Raise what the first page said that wanted a key, if there was one.

        Raises
        ------
        ServerRefusedError
        """
        if self._denial is not None:
            raise self._denial

    def post(self, path: str, body: Mapping[str, object]) -> Json:
        """POST and read one JSON object.

        Raises
        ------
        ServerRefusedError
            If it answers with 4xx.
        ServerError
            If it fails in any other way.
        """
        with self._failures(path), self._client.stream("POST", path, json=body) as response:
            text = self._read(response, path)
            self._check(path, response, text)
            return self._object(path, text)

    def stream(self, path: str, body: Mapping[str, object]) -> Iterator[tuple[float, Json]]:
        """POST and read JSON objects as they come, from server-sent events or from lines of JSON.

        Yields
        ------
        float, dict
            Seconds since the request, and the object.

        Raises
        ------
        ServerRefusedError, ServerError
            As in `post`, and when the stream breaks off.
        """
        start, n_bytes = time.monotonic(), 0
        with self._failures(path), self._client.stream("POST", path, json=body) as response:
            if response.status_code != 200:
                self._check(path, response, self._read(response, path))
            for line in response.iter_lines():
                now = time.monotonic()
                n_bytes += len(line)
                if n_bytes > MAX_BYTES:
                    raise ServerError(f"{self.url}{path} sent more than {MAX_BYTES:,} bytes for one answer")
                if now > self._deadline + self._timeout_s:
                    raise ServerError(f"{self.url}{path} was still sending when the probe's time was up")
                text = line.removeprefix("data:").strip()
                if not text or text == "[DONE]" or line.startswith((":", "event:", "id:", "retry:")):
                    continue
                yield now - start, self._object(path, text)

    def _read(self, response: httpx.Response, path: str) -> str:
        content = bytearray()
        for part in response.iter_bytes():
            content += part
            if len(content) > MAX_BYTES:
                raise ServerError(f"{self.url}{path} answered with more than {MAX_BYTES:,} bytes")
        return content.decode("utf-8", "replace")

    def _check(self, path: str, response: httpx.Response, text: str) -> None:
        status = response.status_code
        if status == 200:
            return
        if 300 <= status < 400:
            where = response.headers.get("location", "somewhere else")
            raise ServerError(f"{self.url}{path} sends us on to {where}; give the URL of the server itself")
        if 400 <= status < 500:
            raise self._refusal(path, status, text)
        raise ServerError(f"{self.url}{path} failed with HTTP {status}: {self._clean(text)}")

    def _refusal(self, path: str, status: int, text: str) -> ServerRefusedError:
        if status in (401, 403):
            given = "refuses the API key" if self._key else "wants an API key"
            said = f"{self.url}{path} {given} (HTTP {status}); name its variable with --api-key-env NAME"
        elif status == 404 and _is_html(text):
            said = f"{self.url}{path} does not exist there (HTTP 404, a web page); is this an engine's URL?"
        else:
            said = f"{self.url}{path} refused with HTTP {status}: {self._clean(text)}"
        return ServerRefusedError(said, status)

    def _object(self, path: str, text: str) -> Json:
        if _is_html(text):
            raise ServerError(
                f"{self.url}{path} answered with a web page instead of JSON; is this an engine's URL?"
            )
        try:
            read = json.loads(text)
        except ValueError as error:
            raise ServerError(
                f"{self.url}{path} answered with what is no JSON: {self._clean(text)}"
            ) from error
        if not isinstance(read, dict):
            raise ServerError(f"{self.url}{path} answered with no JSON object: {self._clean(text)}")
        if read.get("error") and "choices" not in read:
            raise ServerError(f"{self.url}{path} reported an error: {self._clean(json.dumps(read['error']))}")
        return read

    def _clean(self, text: str) -> str:
        """The text on one line, short, without the key."""
        if self._key:
            text = text.replace(self._key, "***")
        text = " ".join(text.split()) or "nothing"
        return text if len(text) <= 300 else f"{text[:297]}..."

    @contextmanager
    def _failures(self, path: str) -> Iterator[None]:
        """Failures of the connection as ours."""
        where = f"{self.url}{path}"
        try:
            yield
        except httpx.ConnectTimeout as error:
            raise ServerError(f"{self.url} does not answer; is the address right?") from error
        except httpx.ConnectError as error:
            raise ServerError(
                f"nothing answers at {self.url} ({error}); is the server up, and is the port right?"
            ) from error
        except httpx.TimeoutException as error:
            raise ServerError(
                f"{where} was silent for {self._timeout_s:g} s; see the server's log"
            ) from error
        except httpx.TransportError as error:
            raise ServerError(
                f"{where} broke off ({type(error).__name__}); the server may have died, see its log"
            ) from error
        except httpx.DecodingError as error:
            raise ServerError(f"{where} sent content that cannot be decoded: {error}") from error


def checked_url(url: str) -> str:
    """The server's base URL without a trailing slash or /v1.

    Raises
    ------
    InputError
        If it is no http(s) URL, or carries a password or a query.
    """
    try:
        parts = urlsplit(url.strip())
        has_host, _ = bool(parts.hostname), parts.port
    except ValueError:
        has_host, parts = False, urlsplit("")
    if parts.scheme not in ("http", "https") or not has_host:
        raise InputError(f"the URL is {shown(url)}; it must be one such as http://127.0.0.1:8000")
    if parts.username is not None or parts.password is not None:
        raise InputError("the URL carries a user or a password; give a key with --api-key-env NAME instead")
    if parts.query or parts.fragment:
        raise InputError(f"the URL is {shown(url)}; it must end at the server, without ? and #")
    return f"{parts.scheme}://{parts.netloc}{parts.path}".rstrip("/").removesuffix("/v1").rstrip("/")


def _is_html(text: str) -> bool:
    return text.lstrip()[:15].lower().startswith(("<!doctype html", "<html"))
