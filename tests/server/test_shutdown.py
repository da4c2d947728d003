"""A server that closes: what runs may end, what is new or waits is told so, and a second signal is quick."""

import signal

import httpx
import pytest
from live import WAIT_S, HeldModel, connect, live, until
from serving import HELLO, replying, served

from leadout.server.options import ServerOptions

ASKED = {"messages": HELLO, "temperature": 0, "stream": True}


def held(reply="0123456789" * 20, **about):
    model = HeldModel.like(replying(reply))
    return model, served(model, **about)


def everything(connection):
    said = b""
    while piece := connection.recv(65536):
        said += piece
    return said


def test_while_answers_end_new_requests_are_told_that_the_server_closes(caplog):
    model, toy = held()
    caplog.set_level("INFO", "leadout.server")
    with live(toy, options=ServerOptions(port=0, grace_s=30)) as server:
        connection = connect(server, ASKED)
        model.let_through(3)
        until(lambda: model.begun > 3)
        server.server.handle_exit(signal.SIGTERM, None)
        until(lambda: httpx.get(f"{server.url}/ready").status_code == 503)
        refused = httpx.post(f"{server.url}/v1/chat/completions", json={"model": "toy", **ASKED})
        assert refused.status_code == 503
        assert refused.json()["error"]["code"] == "closing"
        assert int(refused.headers["retry-after"]) >= 1
        assert httpx.get(f"{server.url}/health").status_code == 200
        model.let_all_through()
        said = everything(connection)
        assert said.count(b'"content":"') == 201  # the role's empty one, and each letter
        assert b"[DONE]" in said
        connection.close()
        server.thread.join(WAIT_S)
        assert not server.thread.is_alive()
    assert "stopping: 1 requests running, up to 30 s; Ctrl-C again ends at once" in caplog.messages
    assert model.closed


@pytest.mark.parametrize("stream", [True, False])
def test_what_waits_is_refused_when_the_server_closes(stream):
    model, toy = held()
    with live(toy, options=ServerOptions(port=0, grace_s=30)) as server:
        first = connect(server, ASKED)
        until(lambda: model.begun == 1)
        second = connect(server, {**ASKED, "stream": stream})
        until(lambda: toy.runner.load.queued == 1)
        server.server.handle_exit(signal.SIGTERM, None)
        until(lambda: httpx.get(f"{server.url}/ready").status_code == 503)
        model.let_all_through()
        assert b"HTTP/1.1 503" in second.recv(65536)
        assert b"[DONE]" in everything(first)
        first.close()
        second.close()


def test_a_second_signal_ends_answers_after_their_present_pass():
    model, toy = held("0123456789" * 700)
    with live(toy, options=ServerOptions(port=0, grace_s=10_000)) as server:
        connection = connect(server, ASKED)
        model.let_through(3)
        until(lambda: model.begun > 3)
        server.server.handle_exit(signal.SIGTERM, None)
        until(lambda: httpx.get(f"{server.url}/ready").status_code == 503)
        server.server.handle_exit(signal.SIGTERM, None)
        until(lambda: server.server.force_exit)
        model.let_all_through()
        server.thread.join(WAIT_S)
        assert not server.thread.is_alive()
        said = everything(connection)
        assert b'"finish_reason":"stop"' not in said
        assert b"the server is closing" in said
        connection.close()
    assert model.closed


def test_answers_of_which_some_wait_are_told_that_the_server_closes_when_grace_is_over():
    model, toy = held()
    with live(toy, options=ServerOptions(port=0, grace_s=0.2)) as server:
        connection = connect(server, {**ASKED, "n": 3, "stream": False})
        until(lambda: model.begun == 1)
        server.server.handle_exit(signal.SIGTERM, None)
        until(lambda: httpx.get(f"{server.url}/ready").status_code == 503)
        until(lambda: toy.runner.load.queued == 0 or model.let_through(1))
        model.let_all_through()
        said = everything(connection)
        assert said.startswith(b"HTTP/1.1 503")
        assert b"closing" in said
        connection.close()
