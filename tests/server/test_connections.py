"""Clients that leave, wait, or do not read, against a real server on loopback."""

import socket

import httpx
import pytest
from live import HeldModel, connect, live, until
from serving import HELLO, replying, served

from leadout.server.options import ServerOptions

LONG = "all work and no play " * 25
ASKED = {"messages": HELLO, "temperature": 0}


def held(reply=LONG, **about):
    model = HeldModel.like(replying(reply))
    return model, served(model, **about)


def ask(server, body):
    return httpx.post(f"{server.url}/v1/chat/completions", json=body, timeout=60)


def read_up_to(connection, said):
    """Read until this has come."""
    read = b""
    while said not in read:
        piece = connection.recv(65536)
        assert piece, read
        read += piece


def let_go_until(model, holds, most=200):
    """Let pass after pass through until something is true, which must be long before the answer's end."""
    seen = 0

    def one_more():
        nonlocal seen
        if holds():
            return True
        model.let_through(1)
        seen += 1
        return False

    until(one_more)
    assert seen < most


@pytest.mark.parametrize("is_stream", [True, False])
def test_an_answer_ends_when_its_client_leaves(is_stream):
    model, toy = held()
    with live(toy, options=ServerOptions(port=0, grace_s=0)) as server:
        connection = connect(server, {**ASKED, "stream": is_stream})
        model.let_through(10)
        until(lambda: model.begun > 10)
        if is_stream:
            read_up_to(connection, b"data: ")
        connection.close()
        let_go_until(model, lambda: toy.runner.load.running == 0)
        model.let_all_through()
        answer = ask(server, {"model": "toy", **ASKED}).json()
        assert answer["choices"][0]["message"]["content"] == LONG


def test_a_prompt_is_not_read_on_when_its_client_leaves():
    model, toy = held()
    with live(toy, options=ServerOptions(port=0, grace_s=0)) as server:
        messages = [{"role": "user", "content": "x" * 7000}]  # read in 14 pieces
        connection = connect(server, {**ASKED, "messages": messages, "stream": True})
        until(lambda: model.begun == 1)
        connection.close()
        let_go_until(model, lambda: toy.runner.load.running == 0, most=14)
        model.let_all_through()


@pytest.mark.parametrize("is_stream", [True, False])
def test_a_waiting_request_never_starts_when_its_client_leaves(is_stream):
    model, toy = held()
    with live(toy, options=ServerOptions(port=0, grace_s=0)) as server:
        first = connect(server, ASKED)
        until(lambda: model.begun == 1)
        marked = [{"role": "user", "content": "MARK"}]
        second = connect(server, {**ASKED, "messages": marked, "stream": is_stream})
        until(lambda: toy.runner.load.queued == 1)
        second.close()
        let_go_until(model, lambda: toy.runner.load.queued == 0)
        assert toy.runner.load.running == 1
        model.let_all_through()
        read_up_to(first, LONG.encode()[:20])
        first.close()
        fed = [bytes(t for t in chunk.tokens if t < 256) for each in model.passes for chunk in each]
        assert not any(b"MARK" in each for each in fed)


def test_a_full_queue_says_when_to_come_back():
    model, toy = held(max_queued=0)
    with live(toy, options=ServerOptions(port=0, grace_s=0)) as server:
        first = connect(server, ASKED)
        until(lambda: model.begun == 1)
        response = ask(server, {"model": "toy", **ASKED})
        assert response.status_code == 429
        assert int(response.headers["retry-after"]) >= 1
        assert response.json()["error"]["type"] == "rate_limit_error"
        model.let_all_through()
        read_up_to(first, b"200 OK")
        first.close()


def test_a_client_that_does_not_read_is_let_go():
    toy = served(replying(LONG))
    options = ServerOptions(port=0, send_timeout_s=0.2, grace_s=0)
    body = {**ASKED, "stream": True, "logprobs": True, "top_logprobs": 20}  # 525 chunks of some kB
    with live(toy, options=options, sends=4096) as server:
        connection = connect(server, body, reads=4096)
        until(lambda: toy.runner.load.running == 1)
        until(lambda: toy.runner.load.running == 0)
        response = httpx.post(
            f"{server.url}/v1/chat/completions", json={"model": "toy", **ASKED, "max_tokens": 3}
        )
        assert response.json()["choices"][0]["message"]["content"] == LONG[:3]
        connection.close()


@pytest.mark.parametrize("is_stream", [True, False])
def test_a_request_that_takes_too_long_is_given_up(is_stream):
    model, toy = held()
    options = ServerOptions(port=0, request_timeout_s=0.3, grace_s=0)
    with live(toy, options=options) as server:
        body = {"model": "toy", **ASKED, "stream": is_stream}
        response = ask(server, body)
        assert response.status_code == 504
        assert response.json()["error"]["code"] == "timeout"
        let_go_until(model, lambda: toy.runner.load.running == 0)
        model.let_all_through()


def test_a_slow_sender_does_not_hold_up_others():
    toy = served(replying("Hi."))
    options = ServerOptions(port=0, body_timeout_s=0.3, grace_s=0)
    with live(toy, options=options) as server:
        slow = socket.create_connection(server.address)
        slow.sendall(
            b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Content-Length: 1000\r\n\r\n{"
        )
        answer = ask(server, {"model": "toy", **ASKED})
        assert answer.status_code == 200
        read_up_to(slow, b"408")
        slow.close()


def test_a_closing_server_lets_answers_end():
    model, toy = held("0123456789")
    with live(toy, options=ServerOptions(port=0, grace_s=30)) as server:
        connection = connect(server, {**ASKED, "stream": True})
        model.let_through(3)
        until(lambda: model.begun > 3)
        server.server.should_exit = True
        model.let_all_through()
        said = b""
        while piece := connection.recv(65536):
            said += piece
        assert b"[DONE]" in said
        assert b'"finish_reason":"stop"' in said
        connection.close()
        server.thread.join(60)
    assert model.closed
