"""What HTTP adds to the engine's own times, streaming: `python -m leadout.bench.http_latency`.

The same greedy answer comes from an engine in this process and from `leadout serve` in another, in turns.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Annotated
from urllib.parse import urlsplit

import typer

from leadout.bench.record import Spread, write_record
from leadout.bench.server_process import ServerProcess
from leadout.engine.events import Token
from leadout.engine.params import Params
from leadout.errors import ProviderError
from leadout.loading import load
from leadout.models.options import GgufOptions

_STORY = "Tell me a long story about a river and a boat that goes down to the sea."
_N_CTX = 2048

Times = tuple[float, float]
"""Seconds to the first token, and from each token to the next."""


def times_of(arrived: list[float]) -> Times:
    """From the moments at which tokens came, counted from the request."""
    if len(arrived) < 2:
        raise ProviderError("the answer has fewer than two tokens, so no time between them")
    return arrived[0], (arrived[-1] - arrived[0]) / (len(arrived) - 1)


def asker(server: ServerProcess, text: str, n_tokens: int) -> Callable[[], Times]:
    """Asks the server once, over a connection of its own; the client costs next to nothing."""
    address = urlsplit(server.url)
    body = json.dumps(
        {
            "model": server.model,
            "messages": [{"role": "user", "content": text}],
            "temperature": 0,
            "max_tokens": n_tokens,
            "stream": True,
        }
    ).encode()
    head = (
        "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )

    def ask() -> Times:
        arrived: list[float] = []
        with socket.create_connection((address.hostname, address.port or 80)) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            began = perf_counter()
            connection.sendall(head.encode() + body)
            while piece := connection.recv(65536):
                n = piece.count(b'"content":"') - piece.count(b'"content":""')
                arrived += [perf_counter() - began] * n
        return times_of(arrived)

    return ask


def main(
    target: Annotated[str, typer.Argument(help="Model to ask.")] = "smollm2-135m",
    tokens: Annotated[int, typer.Option(min=2, help="Tokens of an answer.")] = 100,
    repeats: Annotated[int, typer.Option(min=1, help="Answers from each.")] = 9,
    paragraphs: Annotated[int, typer.Option(min=1, help="Times that the prompt's text is repeated.")] = 1,
    out: Annotated[Path, typer.Option(help="Where the figures go.")] = Path("benchmarks/server/latency.json"),
) -> None:
    """Time to the first token and between tokens, through HTTP and from the engine."""
    text = _STORY * paragraphs
    with (
        load(target, options=GgufOptions(n_threads=1, n_ctx=_N_CTX, n_slots=2)) as engine,
        ServerProcess(target, ["--threads", "1", "--ctx", str(_N_CTX), "--slots", "2"]) as server,
    ):

        def direct() -> Times:
            began, arrived = perf_counter(), list[float]()
            for event in engine.stream_chat(
                [{"role": "user", "content": text}], Params(temperature=0, max_tokens=tokens)
            ):
                if isinstance(event, Token) and event.text:
                    arrived.append(perf_counter() - began)
            return times_of(arrived)

        ask = asker(server, text, tokens)
        direct(), ask()
        pairs = [(direct(), ask()) for _ in range(repeats)]
    figures: dict[str, object] = {}
    for at, name in enumerate(("first_token_ms", "gap_ms")):
        own, http = (Spread.of([1e3 * pair[who][at] for pair in pairs]) for who in (0, 1))
        figures[name] = {"engine": own, "http": http, "ratio": http.median / own.median}
        print(f"{name:<15} engine {own}, http {http}, ratio {http.median / own.median:.3f}")
    arguments: dict[str, object] = {
        "target": target,
        "tokens": tokens,
        "repeats": repeats,
        "paragraphs": paragraphs,
    }
    write_record(out, "http latency", arguments, figures)


if __name__ == "__main__":
    typer.run(main)
