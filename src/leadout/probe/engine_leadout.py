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
    advice = "every answer's usage.speculation says what was drafted and why not"

    @property
    def undrafted(self) -> Fields | None:
        """The switch that its API documents."""
        return {"speculation": "off"}

    def recognise(self, http: Http) -> str | None:
        """By the owner of its models, or by its metrics."""
        return "" if owner(http) == "leadout" or "\nleadout_" in http.page("/metrics").text else None

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
            tokens=totals.get("leadout_completion_tokens"),
            drafted=totals.get("leadout_drafted_tokens"),
            accepted=totals.get("leadout_accepted_tokens"),
        )

    def inspect(self, http: Http, model: str) -> Inspection:
        """What an answer says of speculation."""
        path, body = self.request(Ask(prompt="One two three", max_tokens=2), model)
        told = (http.post(path, body).get("usage") or {}).get("speculation")
        if not isinstance(told, dict):
            return Inspection()
        is_on, reason = bool(told.get("enabled")), str(told.get("reason") or "")
        said = Finding(
            level="note" if is_on else "fault", name="engine-says", text=f"the server says: {reason}"
        )
        return Inspection(
            configured=is_on, drafter=str(told.get("drafter") or ""), findings=(said,) if reason else ()
        )
