"""How the server listens and what it allows: one frozen value, checked where it is built."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit

from leadout.checks import check_number, check_one_of, check_whole
from leadout.errors import InputError
from leadout.models.options import GgufOptions
from leadout.server.keep_alive import keep_alive_s

LogFormat = Literal["text", "json"]

MB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedGgufOptions(GgufOptions):
    """How a GGUF file is loaded to be served: as ever, but for several requests at once."""

    n_slots: int = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """Where to listen and whom to serve.

    Parameters
    ----------
    host : str
        Address to listen at; the default can be reached from this machine alone.
    port : int in 0..65535
        0 takes a free one.
    api_keys : tuple of str
        With keys, every request to a model must bring one of them; without, everybody is served.
    cors_origins : tuple of str
        Origins, such as ``https://app.example``, whose pages in a browser may read answers; "*" is all.
    allowed_hosts : tuple of str
        Names, beside the loopback ones, by which clients may call a server on a loopback address.
    max_body_mb : float > 0
        Largest request body.
    body_timeout_s, send_timeout_s, request_timeout_s : float > 0
        How long a client may take to send its request, how long it may leave what is sent to it unread, and
        how long a request may take in all, in seconds.
    grace_s : float >= 0
        How long running requests may go on after SIGTERM or Ctrl-C.
    max_queued : int >= 0
        Requests that may wait for a slot; further ones are told to come back.
    log_format : "text" or "json"
        How log lines are written.
    log_prompts : bool
        Let log lines show what was asked and answered.
    keep_alive : str
        How long a model stays in memory after its last request, where no request says so: seconds, or a
        duration such as "5m"; a negative one stays until another model needs its memory.
    otel : bool
        Export a span for every request by OpenTelemetry, where the OTEL_* variables of the environment say.

    Raises
    ------
    InputError
        If a value is outside its range; the message names field, value and range.
    """

    host: str = "127.0.0.1"
    port: int = 8080
    api_keys: tuple[str, ...] = ()
    cors_origins: tuple[str, ...] = ()
    allowed_hosts: tuple[str, ...] = ()
    max_body_mb: float = 32.0
    body_timeout_s: float = 30.0
    send_timeout_s: float = 30.0
    request_timeout_s: float = 3600.0
    grace_s: float = 10.0
    max_queued: int = 64
    log_format: LogFormat = "text"
    log_prompts: bool = False
    keep_alive: str = "-1"
    otel: bool = False

    def __post_init__(self) -> None:
        keep_alive_s(self.keep_alive)
        if not self.host:
            raise InputError("host is empty; it must be an address, such as 127.0.0.1 or 0.0.0.0")
        check_whole("port", self.port, 0, 65535)
        check_whole("max_queued", self.max_queued, 0, 100_000)
        check_one_of("log_format", self.log_format, ("text", "json"))
        for name, seconds in (
            ("body_timeout_s", self.body_timeout_s),
            ("send_timeout_s", self.send_timeout_s),
            ("request_timeout_s", self.request_timeout_s),
        ):
            check_number(name, seconds, 0.001, 1e9, "a number of seconds > 0")
        check_number("grace_s", self.grace_s, 0.0, 1e9, "a number of seconds >= 0")
        check_number("max_body_mb", self.max_body_mb, 0.001, 4096.0, "a number of MB in (0, 4096]")
        for key in self.api_keys:
            if not key.strip() or not key.isascii() or key != key.strip():
                raise InputError("an API key is empty, or has spaces around it or letters beyond ASCII")
        for origin in self.cors_origins:
            if origin != "*" and not _is_origin(origin):
                raise InputError(f"CORS origin {origin!r} is no origin, such as https://app.example, nor *")

    @property
    def max_body_bytes(self) -> int:
        """Largest request body in bytes."""
        return int(self.max_body_mb * MB)

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach the server."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host.strip("[]")).is_loopback
        except ValueError:
            return False


def _is_origin(text: str) -> bool:
    """Whether it is scheme, host and maybe port, and nothing else, as browsers write it."""
    try:
        parts = urlsplit(text)
        _ = parts.port  # raises where it is no number
    except ValueError:
        return False
    is_bare = text == f"{parts.scheme}://{parts.netloc}"
    return is_bare and bool(parts.scheme and parts.hostname) and not re.search(r"\s|@", text)
