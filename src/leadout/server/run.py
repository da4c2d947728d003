"""Listening: a socket, uvicorn on it, and signals that end it gracefully."""

from __future__ import annotations

import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from starlette.types import ASGIApp

from leadout.engine.engine import Engine
from leadout.errors import BackendError, InputError
from leadout.server.app import make_app
from leadout.server.batcher import Batcher
from leadout.server.http_server import Drain, HttpServer
from leadout.server.logs import configure_logs
from leadout.server.options import ServerOptions
from leadout.server.pool import ModelPool
from leadout.server.registry import LoadedModels, Served

_BACKLOG = 2048
_SWITCH_S = 0.0005
"""How long one thread may keep the interpreter from another: Python's own 5 ms is a token's time."""


def listen(options: ServerOptions) -> socket.socket:
    """A socket at the address that was asked for.

    Raises
    ------
    InputError
        If nobody can listen there.
    """
    host = options.host.strip("[]")
    try:
        family = socket.getaddrinfo(host, options.port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, options.port), family=family, backlog=_BACKLOG)
    except (OSError, UnicodeError) as error:
        why = (isinstance(error, OSError) and error.strerror) or error
        raise InputError(
            f"cannot listen at {options.host}:{options.port}: {why}; give another --host or --port"
        ) from error


def url_of(listening: socket.socket) -> str:
    """Where clients find it."""
    host, port = listening.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def serve_engine(engine: Engine, listening: socket.socket, options: ServerOptions, *, name: str = "") -> None:
    """Serve one model until SIGTERM or Ctrl-C; the engine is closed then.

    Parameters
    ----------
    engine : Engine
    listening : socket
        See `listen`.
    options : ServerOptions
    name : str
        What requests call the model; "" is its own name.
    """
    configure_logs(options.log_format)
    served = Served.of(engine, Batcher(engine, max_queued=options.max_queued), name)
    models = LoadedModels({served.name: served})
    run_app(make_app(models, options), models.close, listening, options)


def serve_models(pool: ModelPool, listening: socket.socket, options: ServerOptions) -> None:
    """Serve models that are loaded when they are asked for, until SIGTERM or Ctrl-C; parameters as above."""
    configure_logs(options.log_format)
    run_app(make_app(pool, options), pool.close, listening, options)


def run_app(app: ASGIApp, drain: Drain, listening: socket.socket, options: ServerOptions) -> None:
    """Serve until SIGTERM or Ctrl-C; what runs then may go on for the grace time, or until a second signal.

    Raises
    ------
    BackendError
        If it could not start.
    """
    server = HttpServer(app, drain, header_timeout_s=options.body_timeout_s, grace_s=options.grace_s)
    with _signals_are_taken(), _quick_switches():
        server.run(sockets=[listening])
    if not server.started:
        raise BackendError("the server could not start; its log says why")


@contextmanager
def _signals_are_taken() -> Iterator[None]:
    """Uvicorn raises the signals that ended it once more; they have been obeyed by then."""
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, lambda *_: None) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


@contextmanager
def _quick_switches() -> Iterator[None]:
    """Let the thread that answers and the one that decodes take turns quickly."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH_S)
    try:
        yield
    finally:
        sys.setswitchinterval(before)
