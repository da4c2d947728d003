"""What is known of one request when it is over: for its log line and for the metrics."""

from __future__ import annotations

import secrets
from time import perf_counter

from leadout.engine.events import Event, Finished, Round, Started
from leadout.server.metrics import Metrics


class Record:
    """Follows one request.

    Parameters
    ----------
    metrics : Metrics
        Told of every event.
    route : str
        Such as "/v1/chat/completions"; "" until it is known.

    Attributes
    ----------
    id : str
        Of the request; also its answer's ``x-request-id``.
    model : str
        Which model was asked; "" for requests that ask none.
    prompt, answer : str
        What was asked and said, where logs may show it.
    """

    def __init__(self, metrics: Metrics, route: str = "") -> None:
        self.id = f"req_{secrets.token_hex(12)}"
        self.route, self.model = route, ""
        self.prompt = self.answer = ""
        self.is_stream = False
        self._metrics = metrics
        self._began = perf_counter()
        self._first_s: float | None = None
        self._counts = dict.fromkeys(
            ("prompt_tokens", "cached_tokens", "completion_tokens", "target_passes", "drafted", "accepted"), 0
        )
        self._reasons: list[str] = []

    @property
    def seconds(self) -> float:
        """Since the request came."""
        return perf_counter() - self._began

    def take(self, event: Event) -> None:
        """Take one event of the request's generation."""
        match event:
            case Started():
                self._start(event)
            case Round():
                self._round(event)
            case Finished():
                self._reasons.append(event.reason)

    def end(self, status: int) -> dict[str, object]:
        """The request is over, with this status; everything that is known of it, without its text."""
        self._metrics.answered(self.route, status, self.seconds)
        told: dict[str, object] = {"id": self.id, "route": self.route, "status": status}
        told["seconds"] = round(self.seconds, 4)
        if self.model:
            told |= {"model": self.model, "stream": self.is_stream}
        if self._first_s is not None:
            told |= {"first_token_s": round(self._first_s, 4), **self._counts, "finish": self._reasons}
        if self.prompt or self.answer:
            told |= {"prompt": self.prompt, "answer": self.answer}
        return told

    def _start(self, event: Started) -> None:
        if event.index > 0:  # the prompt was counted with the first answer
            return
        if self._first_s is None:
            self._first_s = self.seconds
        self._counts["prompt_tokens"] += event.prompt_tokens
        self._counts["cached_tokens"] += event.cached_tokens
        self._metrics.started(self.model, event, self._first_s)

    def _round(self, event: Round) -> None:
        self._counts["completion_tokens"] += event.emitted
        self._counts["target_passes"] += 1
        self._counts["drafted"] += event.drafted
        self._counts["accepted"] += event.accepted
        self._metrics.round(self.model, event)
