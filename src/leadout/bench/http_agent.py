"""An agent at a server: `python -m leadout.bench.http_agent`.

A loop of short calls over one growing conversation, asked over HTTP with `speculation` "auto" and "off" in
turns. What the model says goes into the conversation; what its tools answer is written down (`texts/`).
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Annotated

import httpx
import typer

from leadout.bench.record import Spread, write_record
from leadout.bench.server_process import ServerProcess
from leadout.bench.workloads import Conversation, read_workload
from leadout.errors import ProviderError

_TIMEOUT_S = 300.0
_N_CTX = 4096


def run_loop(
    client: httpx.Client, model: str, loop: Conversation, max_tokens: int, speculation: str
) -> tuple[float, list[str]]:
    """Seconds of the calls together, and what was answered.

    Raises
    ------
    ProviderError
        If a call is refused.
    """
    messages = [{"role": "system", "content": loop.system}]
    said: list[str] = []
    began = perf_counter()
    for turn in loop.turns:
        messages.append({"role": "user", "content": turn})
        body = {
            "model": model,
            "messages": messages,
            "temperature": 0,
            "max_tokens": max_tokens,
            "speculation": speculation,
        }
        response = client.post("/v1/chat/completions", json=body)
        if response.status_code != 200:
            raise ProviderError(f"status {response.status_code}: {response.text[:300]}")
        said.append(response.json()["choices"][0]["message"]["content"])
        messages.append({"role": "assistant", "content": said[-1]})
    return perf_counter() - began, said


def main(  # noqa: PLR0917 - typer's way
    target: Annotated[str, typer.Argument(help="Model to serve.")] = "smollm2-135m",
    draft: Annotated[str, typer.Option(help="As for leadout serve.")] = "suffix",
    calls: Annotated[int, typer.Option(min=1, max=20, help="Calls of the loop.")] = 10,
    max_tokens: Annotated[int, typer.Option(min=2, help="Longest answer.")] = 64,
    repeats: Annotated[int, typer.Option(min=1, help="Loops of each kind.")] = 3,
    threads: Annotated[int, typer.Option(min=1, help="Threads of the server.")] = 2,
    out: Annotated[Path, typer.Option(help="Where the figures go.")] = Path("benchmarks/server/agent.json"),
) -> None:
    """Seconds of an agent's calls over HTTP, with speculation and without it."""
    arguments: dict[str, object] = {**locals(), "out": str(out)}
    loop = read_workload("agent").conversations[0]
    loop, warm_up = (replace(loop, turns=loop.turns[:n]) for n in (calls, 1))
    flags = ["--draft", draft, "--threads", str(threads), "--ctx", str(_N_CTX), "--slots", "1"]
    seconds: dict[str, list[float]] = {"auto": [], "off": []}
    n_same = 0
    for turn in range(repeats):
        said = {}
        with (
            ServerProcess(target, flags) as server,  # a new one, that remembers no answer of the last loop
            httpx.Client(base_url=server.url, timeout=_TIMEOUT_S, trust_env=False) as client,
        ):
            run_loop(client, server.model, warm_up, max_tokens, "off")
            for kind in ("auto", "off") if turn % 2 else ("off", "auto"):
                taken_s, said[kind] = run_loop(client, server.model, loop, max_tokens, kind)
                seconds[kind].append(taken_s)
        n_same += said["auto"] == said["off"]
    speedup = Spread.of([off / auto for auto, off in zip(seconds["auto"], seconds["off"], strict=True)])
    print(f"speed over plain {speedup}; the same text in {n_same} of {repeats} loops")
    figures: dict[str, object] = {
        "speedup": speedup,
        "seconds": {name: Spread.of(values) for name, values in seconds.items()},
        "n_same": n_same,
    }
    write_record(out, "agent over HTTP", arguments, figures)


if __name__ == "__main__":
    typer.run(main)
