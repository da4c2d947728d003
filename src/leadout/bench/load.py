"""A server under load: `python -m leadout.bench.load`.

Many clients stream requests of every kind, and some leave at random moments. Each greedy or seeded reply must
be what it is alone; then throughput is compared with speculation on and off, for many clients and for one.
"""

from __future__ import annotations

import asyncio
import random
import re
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import httpx
import numpy as np
import psutil
import typer

from leadout.bench.load_jobs import Job, Told, mixed_jobs, read_stream
from leadout.bench.record import Spread, write_record
from leadout.bench.server_process import ServerProcess
from leadout.errors import ProviderError

STUCK_S = 120.0
"""A request that takes longer is lost."""
_SHOWN = 20
_N_CTX = 2048
_SETTLING_S = 2.0
_MB = 1024 * 1024


@dataclass(slots=True)
class LoadReport:
    """What became of the requests.

    Attributes
    ----------
    whole, left, refused : counter of str
        By kind of request: answered to the end, left by their clients, refused with 429 or 503.
    n_checked : int
        Replies that were compared with what they are alone.
    wrong, lost : list of str
        Replies that differ, and requests that failed or took too long.
    n_tokens, seconds : int, float
        Tokens of whole replies, and the time of the load.
    """

    whole: Counter[str] = field(default_factory=Counter)
    left: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    n_checked: int = 0
    wrong: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    n_tokens: int = 0
    seconds: float = 0.0

    def add(self, name: str, told: Told, alone: Told | None) -> None:
        """Count a whole reply, and compare it with what it is alone where that is known."""
        self.whole[name] += 1
        self.n_tokens += told.n_tokens
        if alone is None:
            return
        self.n_checked += 1
        if not told.says_as(alone):
            self.wrong.append(f"{name}: {told.answers} and not {alone.answers}")

    def to_json(self) -> dict[str, object]:
        """For a record."""
        return {
            "whole": dict(self.whole),
            "left": dict(self.left),
            "refused": dict(self.refused),
            "checked": self.n_checked,
            "wrong": self.wrong[:_SHOWN],
            "n_wrong": len(self.wrong),
            "lost": self.lost[:_SHOWN],
            "n_lost": len(self.lost),
            "tokens": self.n_tokens,
            "seconds": self.seconds,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """What a load shares between its clients; `until` is a time of the monotonic clock."""

    jobs: Sequence[Job]
    alone: Mapping[str, Told]
    until: float
    report: LoadReport = field(default_factory=LoadReport)


@dataclass(frozen=True, slots=True, kw_only=True)
class Clients:
    """Who asks.

    Parameters
    ----------
    url : str
        The server's address.
    model : str
    n : int
        Clients at once; each asks again as soon as it is answered.
    leaving : float in 0..1
        Share of requests whose client goes away before the end.
    patience_s : float
        Latest moment, from the request on, at which those clients go.
    speculation : "auto" or "off"
    seed : int
        Of what is asked when, and who leaves.
    """

    url: str
    model: str
    n: int = 32
    leaving: float = 0.0
    patience_s: float = 3.0
    speculation: str = "auto"
    seed: int = 0

    async def alone(self, jobs: Sequence[Job]) -> dict[str, Told]:
        """What repeatable requests are told, one at a time and decoded plainly."""
        async with self._client() as client:
            return {job.name: await self._ask(client, job, "off") for job in jobs if job.is_repeatable}

    async def load(
        self, jobs: Sequence[Job], seconds: float, alone: Mapping[str, Told] | None = None
    ) -> LoadReport:
        """Ask for so many seconds, and until all that was asked by then is answered."""
        asked = _Asked(jobs=jobs, alone=alone or {}, until=time.monotonic() + seconds)
        began = time.monotonic()
        async with self._client() as client, asyncio.TaskGroup() as group:
            for number in range(self.n):
                group.create_task(self._keep_asking(client, asked, random.Random(1000 * self.seed + number)))
        asked.report.seconds = time.monotonic() - began
        return asked.report

    async def _keep_asking(self, client: httpx.AsyncClient, asked: _Asked, chance: random.Random) -> None:
        report = asked.report
        while time.monotonic() < asked.until:
            job = chance.choice(asked.jobs)
            is_leaving = chance.random() < self.leaving
            patience_s = chance.uniform(0.0, self.patience_s) if is_leaving else STUCK_S
            try:
                async with asyncio.timeout(patience_s):
                    told = await self._ask(client, job, self.speculation)
            except TimeoutError:
                if is_leaving:
                    report.left[job.name] += 1
                else:
                    report.lost.append(f"{job.name}: no end within {STUCK_S:g} s")
            except _RefusedError:
                report.refused[job.name] += 1
                await asyncio.sleep(1)
            except (ProviderError, httpx.HTTPError) as error:
                report.lost.append(f"{job.name}: {type(error).__name__}: {error}")
            else:
                report.add(job.name, told, asked.alone.get(job.name))

    async def _ask(self, client: httpx.AsyncClient, job: Job, speculation: str) -> Told:
        body = {
            **job.body,
            "model": self.model,
            "speculation": speculation,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        async with client.stream("POST", job.path, json=body) as response:
            if response.status_code in (429, 503):
                raise _RefusedError
            if response.status_code != 200:
                said = (await response.aread()).decode("utf-8", "replace")
                raise ProviderError(f"status {response.status_code}: {said[:300]}")
            return await read_stream(response.aiter_lines())

    def _client(self) -> httpx.AsyncClient:
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
        return httpx.AsyncClient(base_url=self.url, timeout=STUCK_S, limits=limits, trust_env=False)


class _RefusedError(Exception):
    """The server has too much to do."""


def counted(url: str, name: str) -> float:
    """The sum of a metric over its labels, as the server tells it now."""
    text = httpx.get(f"{url}/metrics", timeout=STUCK_S, trust_env=False).text
    return sum(float(value) for value in re.findall(rf"^{name}(?:{{.*}})? (\S+)$", text, re.MULTILINE))


def settle(url: str, within_s: float = STUCK_S) -> None:
    """Wait until nothing runs or waits; raises ProviderError when something is left over."""
    until = time.monotonic() + within_s
    while counted(url, "leadout_requests_running") or counted(url, "leadout_requests_queued"):
        if time.monotonic() > until:
            raise ProviderError("a slot is held, or a request waits, that nobody asks for")
        time.sleep(0.05)


async def throughput(clients: Clients, jobs: Sequence[Job], seconds: float) -> float:
    """Tokens a second of all answers together, from when the load is steady to its end."""
    asking = asyncio.create_task(clients.load(jobs, seconds + _SETTLING_S))
    await asyncio.sleep(_SETTLING_S)
    began, before = time.monotonic(), await _tokens(clients.url)
    await asyncio.sleep(max(0.0, seconds - 0.2))
    rate = (await _tokens(clients.url) - before) / (time.monotonic() - began)
    report = await asking
    if report.lost:
        raise ProviderError(f"requests were lost: {report.lost[:3]}")
    return rate


async def _tokens(url: str) -> float:
    return await asyncio.to_thread(counted, url, "leadout_completion_tokens_total")


async def _watch_memory(pid: int, every_s: float, seen: list[tuple[float, float]]) -> None:
    process = psutil.Process(pid)
    while True:
        seen.append((time.monotonic(), process.memory_info().rss / _MB))
        await asyncio.sleep(every_s)


def slope(seen: Sequence[tuple[float, float]]) -> float:
    """MB a minute over the second half of what was seen; 0 where that is too little to tell."""
    late = np.array(seen[len(seen) // 2 :])
    return float(np.polyfit(late[:, 0] / 60, late[:, 1], 1)[0]) if len(late) > 2 else 0.0


async def _loaded(
    server: ServerProcess, jobs: Sequence[Job], clients: Clients, seconds: float
) -> dict[str, object]:
    """The mixed load, with what became of it and of the server's memory."""
    alone = await clients.alone(jobs)
    memory: list[tuple[float, float]] = []
    watching = asyncio.create_task(_watch_memory(server.pid, 1.0, memory))
    report = await clients.load(jobs, seconds, alone)
    watching.cancel()
    with suppress(asyncio.CancelledError):
        await watching
    await asyncio.to_thread(settle, server.url)
    sizes = {"first": memory[0][1], "most": max(mb for _, mb in memory), "last": memory[-1][1]}
    print(
        f"{report.whole.total()} whole, {report.left.total()} left, {report.refused.total()} refused, "
        f"{len(report.lost)} lost; {report.n_checked} checked, {len(report.wrong)} wrong; "
        f"memory {sizes['first']:.0f} to {sizes['last']:.0f} MB, {slope(memory):+.2f} MB a minute"
    )
    return {**report.to_json(), "memory_mb": sizes, "memory_mb_per_minute": slope(memory)}


async def _compared(
    clients: Clients, jobs: Sequence[Job], window_s: float, repeats: int
) -> dict[str, dict[str, Spread]]:
    """Tokens a second of many clients and of one, speculatively and plainly; the two alternate."""
    figures: dict[str, dict[str, Spread]] = {}
    for n in (clients.n, 1):
        rates: dict[str, list[float]] = {"auto": [], "off": []}
        for turn in range(repeats):
            for speculation in ("auto", "off") if turn % 2 else ("off", "auto"):
                asking = Clients(
                    url=clients.url, model=clients.model, n=n, speculation=speculation, seed=turn
                )
                rates[speculation].append(await throughput(asking, jobs, window_s))
        figures[f"{n} clients"] = {name: Spread.of(values) for name, values in rates.items()}
        ratio = np.median(rates["auto"]) / np.median(rates["off"])
        print(f"{n} clients: {figures[f'{n} clients']} tokens/s, {ratio:.3f} of plain")
    return figures


def main(  # noqa: PLR0917 - typer's way
    target: Annotated[str, typer.Argument(help="Model to serve.")] = "smollm2-135m",
    draft: Annotated[str, typer.Option(help="As for leadout serve.")] = "suffix",
    provider: Annotated[str, typer.Option(help="As for leadout serve; empty is its own choice.")] = "",
    clients: Annotated[int, typer.Option(min=1, help="Clients at once.")] = 32,
    slots: Annotated[int, typer.Option(min=1, help="Requests that run at once.")] = 4,
    seconds: Annotated[float, typer.Option(help="Length of the mixed load; 0 leaves it out.")] = 180.0,
    window: Annotated[float, typer.Option(help="Seconds of each throughput window; 0 for none.")] = 15.0,
    repeats: Annotated[int, typer.Option(min=1, help="Windows of each kind.")] = 3,
    leaving: Annotated[float, typer.Option(help="Share of clients that leave.")] = 0.25,
    max_tokens: Annotated[int, typer.Option(min=1, help="Longest answer.")] = 48,
    threads: Annotated[int, typer.Option(min=1, help="Threads of the server.")] = 2,
    seed: Annotated[int, typer.Option(help="Of the load.")] = 0,
    out: Annotated[Path, typer.Option(help="Where the figures go.")] = Path("benchmarks/server/load.json"),
) -> None:
    """Put a server under load and write down what became of it."""
    arguments: dict[str, object] = {**locals(), "out": str(out)}
    jobs, figures = mixed_jobs(max_tokens), dict[str, object]()
    flags = ["--draft", draft, "--ctx", str(_N_CTX), *(["--provider", provider] if provider else [])]
    flags += ["--slots", str(slots), "--threads", str(threads), "--queue", str(4 * clients)]
    with ServerProcess(target, flags) as server:
        asking = Clients(url=server.url, model=server.model, n=clients, leaving=leaving, seed=seed)
        if seconds:
            figures["load"] = asyncio.run(_loaded(server, jobs, asking, seconds))
        if window:
            figures["tokens_per_s"] = asyncio.run(_compared(asking, jobs, window, repeats))
    write_record(out, "server load", arguments, figures)


if __name__ == "__main__":
    typer.run(main)
