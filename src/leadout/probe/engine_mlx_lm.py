"""MLX-LM's server: it counts nothing, but one request can switch the draft model off.

Read in the source of 0.32; not run here.
"""

from __future__ import annotations

from collections.abc import Sequence

from leadout.probe.engine import Fields
from leadout.probe.http import Http, Json
from leadout.probe.openai import COMPLETIONS, completion_body, model_names, read_completion, text_in_choices
from leadout.probe.values import Ask, Counters, Finding, Inspection, Said

UNBATCHED = Finding(
    level="note",
    name="draft-stops-batching",
    text="with a draft model loaded, mlx_lm.server answers requests one at a time",
    remedy="serve many users without a draft model",
)


class MlxLm:
    """See `Engine`."""

    name = "mlx-lm"
    takes_ids = False
    n_top = 0  # its log probabilities come without the text of tokens as it was streamed
    advice = "a request with draft_model null is decoded plainly; the difference in time is all it shows"

    @property
    def undrafted(self) -> Fields | None:
        """The switch that its API documents."""
        return {"draft_model": None}

    def recognise(self, http: Http) -> str | None:
        """By Python's own HTTP server in front of ``/health`` and ``/v1/models``."""
        page = http.page("/health")
        is_python = "BaseHTTP" in page.headers.get("server", "")
        if not is_python or not isinstance(page.json, dict) or "status" not in page.json:
            return None
        return "" if isinstance(http.page("/v1/models").json, dict) else None

    def models(self, http: Http) -> Sequence[str]:
        """One name at most: its list is what lies in the cache, and the server knows its own default."""
        names = model_names(http)
        return names if len(names) == 1 else ()

    def request(self, ask: Ask, model: str) -> tuple[str, Json]:
        """The standard's fields; repetition_penalty 0 is off there."""
        return COMPLETIONS, completion_body(ask, model or "default_model", top_k=0)

    def read(self, chunks: Sequence[Json]) -> Said:
        """No counts of drafts."""
        return read_completion(chunks)

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
        """It does not say."""
        return Inspection(findings=(UNBATCHED,))
