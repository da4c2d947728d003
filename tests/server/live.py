"""A real server in a thread of this process, and models whose passes can be held."""

import json
import socket
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass

from leadout.server.app import make_app
from leadout.server.http_server import HttpServer
from leadout.server.options import ServerOptions
from leadout.server.registry import LoadedModels
from leadout.server.run import listen, url_of
from leadout.testing import TableModel

WAIT_S = 30


@dataclass
class Live:
    url: str
    address: tuple
    server: HttpServer
    thread: threading.Thread


@contextmanager
def live(*models, options=None, sends=None):
    """Serve these models at a free port; `sends` is the size of a connection's send buffer in bytes."""
    options = options or ServerOptions(port=0)
    listening = listen(options)
    if sends is not None:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, sends)
    loaded = LoadedModels({each.name: each for each in models})
    server = HttpServer(
        make_app(loaded, options),
        loaded.close,
        header_timeout_s=options.body_timeout_s,
        grace_s=options.grace_s,
    )
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    until(lambda: server.started)
    try:
        yield Live(url_of(listening), listening.getsockname(), server, thread)
    finally:
        for model in (each.engine.target for each in models):
            if isinstance(model, HeldModel):
                model.let_all_through()
        server.should_exit = True
        thread.join(WAIT_S)
        listening.close()
    assert not thread.is_alive()


def until(holds):
    """Wait for something that must become true."""
    end = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < end, "it never came true"
        time.sleep(0.005)


class HeldModel(TableModel):
    """A model whose passes wait until they are let through."""

    @classmethod
    def like(cls, model):
        """The same model, held."""
        held = object.__new__(cls)
        held.__dict__.update(model.__dict__)
        held.permits = threading.Semaphore(0)
        held.is_free = False
        held.begun = 0
        return held

    def forward(self, chunks):
        self.begun += 1
        if not self.is_free:
            self.permits.acquire()
        return super().forward(chunks)

    def let_through(self, n):
        self.permits.release(n)

    def let_all_through(self):
        self.is_free = True
        self.permits.release()


def connect(live_server, body, path="/v1/chat/completions", reads=None):
    """A connection on which this request has been sent."""
    connection = socket.socket()
    if reads is not None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, reads)
    connection.settimeout(WAIT_S)
    connection.connect(live_server.address)
    data = json.dumps({"model": "toy", **body}).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    connection.sendall(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data)
    return connection
