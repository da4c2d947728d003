"""LM Studio: a draft model is named by each request, counts come back with each answer.

From its documentation of the REST API; not run here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from leadout.probe.engine import Fields
from leadout.probe.http import Http, Json
from leadout.probe.openai import completion_body, read_completion, served_models, text_in_choices
from leadout.probe.values import Ask, Counters, Finding, Inspection, Said

NO_DRAFT = Finding(
    level="fault",
    name="no-draft-named",
    text="LM Studio drafts only for requests that name a draft model, and this probe named none",
    remedy='probe again with --draft-model KEY, and send "draft_model": KEY in your own requests; '
    "MTP is a load option of the model instead (LM Studio 0.4.14 and later)",
)


class LmStudio:
    """See `Engine`.

    Parameters
    ----------
    draft_model : str or None
        What each request names.
    """

    name = "lmstudio"
    takes_ids = False
    n_top = 0
    advice = "'lms log stream' shows 'draft acceptance' lines"

    def __init__(self, draft_model: str | None = None) -> None:
        self._draft_model = draft_model

    @property
    def undrafted(self) -> Fields | None:
        """Name no draft model."""
        return {"draft_model": None} if self._draft_model else None

    def recognise(self, http: Http) -> str | None:
        """By ``/api/v0/models``, whose entries tell type and state."""
        entries = served_models(http, "/api/v0/models")
        return "" if entries and "state" in entries[0] and "type" in entries[0] else None

    def models(self, http: Http) -> Sequence[str]:
        """The loaded language models, less the draft model."""
        return [
            str(entry["id"])
            for entry in served_models(http, "/api/v0/models")
            if entry.get("state") == "loaded"
            and entry.get("type") in ("llm", "vlm")
            and entry["id"] != self._draft_model
        ]

    def request(self, ask: Ask, model: str) -> tuple[str, Json]:
        """``/api/v0/completions``, whose answers have counts."""
        body = completion_body(ask, model, top_k=0, repeat_penalty=1.0)
        if self._draft_model:
            body["draft_model"] = self._draft_model
        return "/api/v0/completions", body

    def read(self, chunks: Sequence[Json]) -> Said:
        """Counts are in ``stats`` or, in newer versions, in ``usage``; without a draft there are none."""
        said, drafted, accepted = read_completion(chunks), 0, 0
        for chunk in chunks:
            for counts in (chunk.get("stats"), chunk.get("usage")):
                if isinstance(counts, Mapping) and counts.get("total_draft_tokens_count") is not None:
                    drafted = int(counts["total_draft_tokens_count"])
                    accepted = int(counts.get("accepted_draft_tokens_count") or 0)
        return replace(said, drafted=drafted, accepted=accepted)

    def text_in(self, chunk: Json) -> str:
        """Of its choice."""
        return text_in_choices(chunk)

    def ids(self, http: Http, model: str, text: str) -> tuple[int, ...] | None:  # noqa: ARG002
        """Not told."""
        return None

    def counters(self, http: Http) -> Counters | None:  # noqa: ARG002
        """None are kept."""
        return None

    def inspect(self, http: Http, model: str) -> Inspection:  # noqa: ARG002
        """A draft model is set up if this probe names one."""
        if not self._draft_model:
            return Inspection(findings=(NO_DRAFT,))
        return Inspection(configured=True, drafter=self._draft_model)
