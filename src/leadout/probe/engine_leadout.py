"""leadout's own server: OpenAI's form with a `speculation` object in `usage`, and a switch per request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from leadout.probe.engine import Fields
from leadout.probe.http import Http, Json
from leadout.probe.openai import (
    COMPLETIONS,
    completion_body,
    model_names,
    owner,
    read_completion,
    text_in_choices,
)
from leadout.probe.prometheus import read_totals
from leadout.probe.values import Ask, Counters, Finding, Inspection, Said


class Leadout:
    """See `Engine`."""

    name = "leadout"
    takes_ids = False
    n_top = 0
    undrafted: Fields | None = {"speculation": "off"}
    advice = "every answer's usage.speculation says what was drafted and why not"

    def __init__(self) -> None:
        self._reason = ""

    def recognise(self, http: Http) -> str | None:
        """By the owner of its models."""
        return "" if owner(http) == "leadout" else None

    def models(self, http: Http) -> Sequence[str]:
        """From ``/v1/models``."""
        return model_names(http)

    def request(self, ask: Ask, model: str) -> tuple[str, Json]:
        """The standard's fields and top_k."""
        return COMPLETIONS, completion_body(ask, model, top_k=0)

    def read(self, chunks: Sequence[Json]) -> Said:
        """With this request's own counts."""
        said = read_completion(chunks)
        for chunk in chunks:
            told = (chunk.get("usage") or {}).get("speculation")
            if isinstance(told, dict):
                self._reason = str(told.get("reason") or "")
                said = replace(
                    said, drafted=int(told.get("drafted") or 0), accepted=int(told.get("accepted") or 0)
                )
        return said

    def text_in(self, chunk: Json) -> str:
        """Of its choice."""
        return text_in_choices(chunk)

    def ids(self, http: Http, model: str, text: str) -> tuple[int, ...] | None:  # noqa: ARG002
        """Not told."""
        return None

    def counters(self, http: Http) -> Counters | None:
        """From ``/metrics``."""
        page = http.page("/metrics", fresh=True)
        if page.status != 200:
            return None
        totals = read_totals(page.text)
        return Counters(
            requests=totals.get("leadout_requests"),
            tokens=totals.get("leadout_generated_tokens"),
            drafted=totals.get("leadout_drafted_tokens"),
            accepted=totals.get("leadout_accepted_tokens"),
        )

    def inspect(self, http: Http, model: str) -> Inspection:  # noqa: ARG002
        """The reason that the last answer gave."""
        if not self._reason:
            return Inspection()
        said = Finding(level="note", name="engine-says", text=f"the server says: {self._reason}")
        return Inspection(findings=(said,))
