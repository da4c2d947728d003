"""What is known of one request when it is over: for its log line and for the metrics."""

from __future__ import annotations

import secrets
from time import perf_counter

from leadout.engine.events import Event, Finished, Round, Started, Token
from leadout.models.conversation import Conversation
from leadout.server.metrics import Metrics
from leadout.server.registry import Prompt


class Record:
    """Follows one request.

    Parameters
    ----------
    metrics : Metrics
        Told of every event.
    shows_text : bool
        Let the log line show what was asked and said.

    Attributes
    ----------
    id : str
        Of the request; also its answer's ``x-request-id``.
    model : str
        Which model was asked; "" for requests that ask none.
    route : str
        Such as "/v1/chat/completions"; "" until it is known.
    is_stream : bool
        Whether the answer is sent as it comes.
    load_s : float
        Seconds from the request's arrival to when its model was there.
    """

    def __init__(self, metrics: Metrics, *, shows_text: bool = False) -> None:
        self.id = f"req_{secrets.token_hex(12)}"
        self.route = self.model = ""
        self.is_stream = False
        self.load_s = 0.0
        self._shows_text, self._prompts, self._answers = shows_text, list[object](), dict[int, str]()
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

    def ask(self, prompt: Prompt) -> None:
        """Take a prompt."""
        if self._shows_text:
            self._prompts.append(prompt.messages if isinstance(prompt, Conversation) else prompt)

    def take(self, event: Event) -> None:
        """Take one event of the request's generation."""
        if self._shows_text and isinstance(event, Token | Finished):
            self._answers[event.index] = self._answers.get(event.index, "") + event.text
        match event:
            case Started():
                self._start(event)
            case Round():
                self._round(event)
            case Finished():
                self._reasons.append(event.reason)

    def end(self, status: int) -> dict[str, object]:
        """The request is over, with this status; everything that is known of it."""
        self._metrics.answered(self.route, status, self.seconds)
        text = {"prompts": self._prompts, "answers": list(self._answers.values())}
        return {**self.told(status), **(text if self._shows_text else {})}

    def told(self, status: int) -> dict[str, object]:
        """What is known of it, without its text."""
        told: dict[str, object] = {"id": self.id, "route": self.route, "status": status}
        told["seconds"] = round(self.seconds, 4)
        if self.model:
            told |= {"model": self.model, "stream": self.is_stream}
        if self._first_s is not None:
            told |= {"first_token_s": round(self._first_s, 4), **self._counts, "finish": self._reasons}
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
