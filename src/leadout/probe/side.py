"""One side of a comparison: a server with its engine and model, with or without drafts."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace

from leadout.probe.engine import Engine, reading
from leadout.probe.http import Http, Json
from leadout.probe.values import Ask, Counters, Inspection, Key, Prompt, Said

SETTLE_S = 3.0
"""Longest wait for a server's counters to catch up with its answers; vLLM updates them afterwards."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """What is asked.

    Parameters
    ----------
    engine : Engine
    http : Http
    model : str
    drafts : bool
        False uses the engine's switch for plain decoding.
    """

    engine: Engine
    http: Http
    model: str
    drafts: bool = True

    def ask(self, ask: Ask) -> Said:
        """One answer in one piece.

        Raises
        ------
        ServerError
        """
        path, body = self._request(ask)
        said = self.http.post(path, body)
        with reading(self.engine.name, self.http):
            return self.engine.read([said])

    def stream(self, ask: Ask) -> Said:
        """One answer as it comes, with times.

        Raises
        ------
        ServerError
        """
        path, body = self._request(ask)
        body["stream"] = True
        if path.endswith("/completions"):
            body["stream_options"] = {"include_usage": True}
        chunks: list[Json] = []
        times: list[float] = []
        with reading(self.engine.name, self.http):
            for at_s, chunk in self.http.stream(path, body):
                if self.engine.text_in(chunk):
                    times.append(at_s)
                chunks.append(chunk)
            said = self.engine.read(chunks)
        return said.timed(times[0], times[-1]) if times else said

    def next_law(self, prompt: Prompt) -> Mapping[Key, float] | None:
        """Log probabilities of the most probable next tokens; None where the engine tells none.

        The first token of an answer comes from the pass that reads the prompt. Nothing is drafted for it:
        this is the target's own law, with speculation on or off.

        Raises
        ------
        ServerError
        """
        if self.engine.n_top == 0:
            return None
        said = self.ask(Ask(prompt=prompt, max_tokens=1, n_top=self.engine.n_top))
        return said.tops[0] if said.tops and said.tops[0] else None

    def ids(self, text: str) -> tuple[int, ...] | None:
        """A text's tokens, where the engine tells."""
        with reading(self.engine.name, self.http):
            return self.engine.ids(self.http, self.model, text) if self.engine.takes_ids else None

    def counters(self) -> Counters | None:
        """What the server counted so far."""
        with reading(self.engine.name, self.http):
            return self.engine.counters(self.http)

    def inspect(self) -> Inspection:
        """What the server tells about its set-up."""
        with reading(self.engine.name, self.http):
            return self.engine.inspect(self.http, self.model)

    def counted_since(self, before: Counters | None, n_tokens: int) -> Counters | None:
        """What was counted since `before`, once at least `n_tokens` were, or after a while."""
        if before is None:
            return None
        until = time.monotonic() + SETTLE_S
        while True:
            now = self.counters()
            change = None if now is None else now.since(before)
            if change is None or change.tokens is None or change.tokens >= n_tokens:
                return change
            if time.monotonic() > until:
                return change
            time.sleep(0.1)

    def plain(self) -> Side | None:
        """The same server without drafts, where the engine has a switch."""
        return None if self.engine.undrafted is None else replace(self, drafts=False)

    def _request(self, ask: Ask) -> tuple[str, Json]:
        path, body = self.engine.request(ask, self.model)
        if not self.drafts:
            body |= dict(self.engine.undrafted or {})
        return path, body
