"""Clients that break every rule: each gets a clear answer or is cut off, and the next one is served."""

import json
import socket
import struct
import threading

import httpx
import pytest
from fastapi import APIRouter, FastAPI
from fastapi.testclient import TestClient
from live import WAIT_S, connect, live, until
from pydantic import field_validator
from serving import HELLO, constant_chat, replying, served

from leadout.bench.load import counted
from leadout.server.body_route import BodyRoute
from leadout.server.form import Form
from leadout.server.options import ServerOptions

ASKED = {"model": "toy", "messages": HELLO, "temperature": 0}
HEAD = b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


@pytest.fixture(scope="module")
def server():
    options = ServerOptions(port=0, grace_s=0, body_timeout_s=0.5, max_body_mb=4)
    with live(served(replying("Hi."), max_queued=8), options=options) as running:
        yield running


@pytest.fixture(autouse=True)
def _still_serves(request):
    """After each abuse: the next client is served, and no slot is held."""
    yield
    if "server" in request.fixturenames:
        running = request.getfixturevalue("server")
        answer = httpx.post(f"{running.url}/v1/chat/completions", json=ASKED, timeout=60)
        assert answer.json()["choices"][0]["message"]["content"] == "Hi."
        until(lambda: counted(running.url, "leadout_requests_running") == 0)


def said(server, *pieces):
    """What a raw connection is told until the server closes it, or falls silent."""
    with socket.create_connection(server.address, timeout=WAIT_S) as connection:
        for piece in pieces:
            connection.sendall(piece)
        heard = b""
        try:
            while piece := connection.recv(65536):
                heard += piece
        except ConnectionResetError:
            pass
        return heard


def with_body(body, *headers, length=None):
    lines = b"".join(line + b"\r\n" for line in headers)
    size = len(body) if length is None else length
    return HEAD + lines + b"Content-Length: %d\r\nConnection: close\r\n\r\n" % size + body


def ask(server, **changed):
    return httpx.post(f"{server.url}/v1/chat/completions", json={**ASKED, **changed}, timeout=60)


@pytest.mark.parametrize(
    ("changed", "status", "param"),
    [
        ({"logit_bias": {str(i): 1.0 for i in range(100_000)}}, 400, None),
        ({"logit_bias": {str(i): 1.0 for i in range(200)}}, 200, None),
        ({"stop": ["x" * 1_000_000]}, 200, None),
        ({"stop": ["x"] * 100_000}, 400, "stop"),
        ({"stop": [""]}, 400, "stop"),
        ({"n": 128, "max_tokens": 2}, 200, None),
        ({"n": 10_000_000}, 400, "n"),
        ({"n": -1}, 400, "n"),
        ({"n": True}, 400, "n"),
        ({"max_tokens": 10**30}, 200, None),  # as much as there is room for
        ({"seed": 10**30}, 400, "seed"),
        ({"seed": -(10**30)}, 400, "seed"),
        ({"temperature": "hot"}, 400, "temperature"),
        ({"temperature": [0]}, 400, "temperature"),
        ({"top_logprobs": 10**6, "logprobs": True}, 400, "top_logprobs"),
        ({"messages": []}, 400, "messages"),
        ({"messages": {}}, 400, "messages"),
        ({"messages": [None]}, 400, "messages[0]"),
        ({"messages": [{"role": "user", "content": [{"type": "text", "text": 5}]}]}, 400, None),
        ({"messages": HELLO * 10_000}, 400, None),
        ({"chat_template_kwargs": {"x": [[[[]]]] * 1000}}, 200, None),
        ({"tools": [{"type": "function", "function": {"name": "f" * 100_000}}]}, 400, None),
        ({"user": "x" * 1_000_000}, 200, None),
        ({"model": "x" * 100_000}, 404, "model"),
        ({"model": None}, 400, "model"),
    ],
)
def test_absurd_values_get_a_clear_answer(server, changed, status, param):
    response = ask(server, **changed)
    assert response.status_code == status, response.text[:500]
    if status != 200:
        error = response.json()["error"]
        assert len(error["message"]) < 2000
        assert param is None or error["param"] == param


@pytest.mark.parametrize(
    "body",
    [
        b"{" * 100_000,
        b"[" * 1_000_000,
        b'{"a":' * 100_000,
        b'{"model": "toy", "messages": ' + b'[{"role":"user","content":' * 900,
        b"\xff" * 1000,
        b'{"model": "toy", "messages": [{"role": "user", "content": "\xff\xfe"}]}',
        b'{"model": "toy", "messages": [{"role": "user", "content": "\xed\xa0\x80"}]}',
        b'{"model": "toy", "temperature": NaN, "messages": [{"role": "user", "content": "x"}]}',
        b'{"model": "toy", "temperature": -Infinity, "messages": [{"role": "user", "content": "x"}]}',
        b'{"model": "toy", "max_tokens": ' + b"9" * 100_000 + b"}",
        b"\x00" * 50_000,
        b'"' + b"x" * 100_000,
    ],
    ids=range(12),
)
def test_broken_bodies_get_a_400(server, body):
    heard = said(server, with_body(body))
    assert heard.startswith(b"HTTP/1.1 400"), heard[:200]
    assert b'"error"' in heard


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        ([with_body(b"{}", length=1000)], b"408"),  # announces more than it sends
        ([with_body(b"", length=10**15)], b"413"),
        ([HEAD + b"Content-Length: -5\r\n\r\n{}"], b"400"),
        ([HEAD + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\n{}"], b"400"),
        ([HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n"], b"4"),
        (
            [HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"400001\r\n" + b"x" * 4_194_305],
            b"413",
        ),
        ([b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"], b"400"),  # TLS
        ([b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"], b"4"),
        ([b"GET / HTTP/1.1\r\nX: " + b"y" * 100_000 + b"\r\n\r\n"], b"400"),
        ([b"GET / HTTP/1.1\r\n\r\n"], b"400"),  # no Host
        ([b"GET http://evil.example/ HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n"], b"403"),
        ([b"DELETE /v1/models HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"], b"405"),
        ([b"OPTIONS /v1/models HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"], b"405"),
        ([b"HEAD /v1/nothing HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"], b"404"),
        ([b"BREW /v1/models HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"], b"405"),
        (
            [
                b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade, close\r\n"
                b"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: eA==\r\n\r\n"
            ],
            b"",
        ),
    ],
    ids=range(16),
)
def test_broken_requests_get_a_clear_answer(server, sent, status):
    heard = said(server, *sent)
    assert heard.startswith(b"HTTP/1.1 " + status) or not heard, heard[:200]
    assert b"HTTP/1.1 5" not in heard


def test_a_body_that_is_too_large_is_refused_while_it_is_sent(server):
    response = httpx.post(f"{server.url}/v1/completions", json={"prompt": "x" * 6_000_000}, timeout=60)
    assert response.status_code == 413


def test_a_head_that_never_ends_is_cut_off(server):
    for begun in (b"", b"GET /health HTT", HEAD):
        assert said(server, begun) == b""


def test_a_second_head_that_never_ends_is_cut_off(server):
    whole = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    heard = said(server, whole, b"GET /health HTT")
    assert heard.count(b"HTTP/1.1 200") == 1


def test_requests_in_a_pipeline_are_answered_in_turn(server):
    body = json.dumps(ASKED).encode()
    open_ended = HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body
    heard = said(server, open_ended * 4 + with_body(body))
    assert heard.count(b"HTTP/1.1 200") == 5
    assert heard.count(b'"content":"Hi."') == 5


def test_connections_that_are_reset_hold_nothing():
    toy = served(constant_chat([1.0]))
    with live(toy, options=ServerOptions(port=0, grace_s=0)) as server:
        for stream in (True, False) * 8:
            connection = connect(server, {**ASKED, "stream": stream, "max_tokens": 15000})
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.close()
        until(lambda: toy.runner.load.running == toy.runner.load.queued == 0)
        assert httpx.get(f"{server.url}/health").status_code == 200


class Noted(Form):
    """A form that notes who reads it."""

    text: str
    thread: str | None = None

    @field_validator("text")
    @classmethod
    def _note(cls, text):
        return text[:1] + threading.current_thread().name


@pytest.mark.parametrize(("size", "is_elsewhere"), [(10, False), (100_000, True)])
def test_large_bodies_are_read_beside_the_event_loop(size, is_elsewhere):
    router = APIRouter(route_class=BodyRoute)

    @router.post("/")
    async def read(form: Noted) -> dict[str, object]:
        return {"read": form.text, "loop": threading.current_thread().name}

    app = FastAPI()
    app.include_router(router)
    with TestClient(app) as client:
        told = client.post("/", json={"text": "x" * size}).json()
        assert (told["read"] != "x" + told["loop"]) is is_elsewhere
        wrong = client.post("/", json={"text": "x" * size, "more": 1})
        assert wrong.json()["detail"][0]["loc"] == ["body", "more"]
