"""What HTTP adds to the engine's own times, streaming: `python -m leadout.bench.http_latency`.

The same greedy answer comes from an engine in this process and from `leadout serve` in another, in turns;
both decode plainly, so that both do the same work. Prompts are of two kinds. A *repeated* one is short and
all but its last token is cached, so its first token comes as early as any can, and what HTTP adds weighs the
most. A *new* one begins differently each time, as most of what people send does, and is read by both.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter
from typing import Annotated
from urllib.parse import urlsplit

import typer

from leadout.bench.record import Spread, write_record
from leadout.bench.server_process import ServerProcess
from leadout.engine.engine import Engine
from leadout.engine.events import Token
from leadout.engine.params import Params
from leadout.errors import ProviderError
from leadout.loading import load
from leadout.models.options import GgufOptions

_STORY = "Tell me a long story about a river and a boat that goes down to the sea. "
_N_CTX = 2048

Times = tuple[float, float]
"""Seconds to the first token, and from each token to the next."""

Ask = Callable[[str], Times]
"""Has a text answered once."""


def times_of(arrived: list[float]) -> Times:
    """From the moments at which tokens came, counted from the request."""
    if len(arrived) < 2:
        raise ProviderError("the answer has fewer than two tokens, so no time between them")
    return arrived[0], (arrived[-1] - arrived[0]) / (len(arrived) - 1)


def asks_engine(engine: Engine, n_tokens: int) -> Ask:
    """Asks the engine."""

    def ask(text: str) -> Times:
        arrived: list[float] = []
        began = perf_counter()
        for event in engine.stream_chat(
            [{"role": "user", "content": text}], Params(temperature=0, max_tokens=n_tokens)
        ):
            if isinstance(event, Token) and event.text:
                arrived.append(perf_counter() - began)
        return times_of(arrived)

    return ask


def asks_server(server: ServerProcess, n_tokens: int) -> Ask:
    """Asks the server, over a connection of its own each time; the client costs next to nothing."""
    address = urlsplit(server.url)

    def ask(text: str) -> Times:
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


def compared(own: Ask, http: Ask, texts: Sequence[str]) -> dict[str, object]:
    """Times of both for each text, and what HTTP's are of the engine's, pair by pair; prints a table.

    Who is asked first changes from pair to pair.
    """
    pairs: list[tuple[Times, Times]] = []
    for at, text in enumerate(texts):
        if at % 2:
            late = http(text)
            pairs.append((own(text), late))
        else:
            pairs.append((own(text), http(text)))
    figures: dict[str, object] = {}
    for at, name in enumerate(("first_token", "gap")):
        engine_ms, http_ms = (Spread.of([1e3 * pair[who][at] for pair in pairs]) for who in (0, 1))
        ratio = Spread.of([late[at] / early[at] for early, late in pairs])
        added_ms = Spread.of([1e3 * (late[at] - early[at]) for early, late in pairs])
        figures[name] = {"engine_ms": engine_ms, "http_ms": http_ms, "added_ms": added_ms, "ratio": ratio}
        print(f"  {name:<12} engine {engine_ms} ms, http {http_ms} ms, added {added_ms} ms, ratio {ratio}")
    return figures


def main(
    target: Annotated[str, typer.Argument(help="Model to ask.")] = "smollm2-135m",
    tokens: Annotated[int, typer.Option(min=2, help="Tokens of an answer.")] = 100,
    repeats: Annotated[int, typer.Option(min=1, help="Answers from each, of each kind.")] = 9,
    paragraphs: Annotated[
        int, typer.Option(min=1, help="Times that a new prompt has the repeated one's text.")
    ] = 16,
    out: Annotated[Path, typer.Option(help="Where the figures go.")] = Path("benchmarks/server/latency.json"),
) -> None:
    """Time to the first token and between tokens, through HTTP and from the engine."""
    flags = ["--draft", "none", "--threads", "1", "--ctx", str(_N_CTX), "--slots", "2"]
    figures: dict[str, object] = {}
    with (
        load(target, "none", options=GgufOptions(n_threads=1, n_ctx=_N_CTX, n_slots=2)) as engine,
        ServerProcess(target, flags) as server,
    ):
        own, http = asks_engine(engine, tokens), asks_server(server, tokens)
        for name, text_of in (
            ("repeated", lambda _: _STORY),
            ("new", lambda at: f"{at} times: {_STORY * paragraphs}"),
        ):
            warm, *texts = map(text_of, range(repeats + 1))
            own(warm), http(warm)
            n_tokens = len(engine.chat_ids([{"role": "user", "content": warm}]))
            print(f"{name} prompt of {n_tokens} tokens")
            figures[name] = {"prompt_tokens": n_tokens, **compared(own, http, texts)}
    arguments: dict[str, object] = {
        "target": target,
        "tokens": tokens,
        "repeats": repeats,
        "paragraphs": paragraphs,
    }
    write_record(out, "http latency", arguments, figures)


if __name__ == "__main__":
    typer.run(main)
