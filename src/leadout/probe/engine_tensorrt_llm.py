"""TensorRT-LLM's ``trtllm-serve``: per-iteration statistics as JSON, drained by whoever reads them.

From its documentation and protocol source of 1.2; not run here.
"""

from __future__ import annotations

from collections.abc import Sequence

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
from leadout.probe.values import Ask, Counters, Finding, Inspection, Said

NO_STATS = Finding(
    level="warning",
    name="stats-disabled",
    text="/metrics tells nothing, so drafts cannot be counted",
    remedy="set enable_iter_perf_stats: true in the YAML that trtllm-serve is given with --config",
)
NO_SPEC = Finding(
    level="fault",
    name="no-speculative-config",
    text="iterations were reported, but none has specDecodingStats with drafts",
    remedy="set speculative_config (decoding_type and max_draft_len) in the YAML given with --config",
)


class TensorrtLlm:
    """See `Engine`. One probe each: reading the statistics takes them away from the server."""

    name = "tensorrt-llm"
    takes_ids = False
    n_top = 0
    undrafted: Fields | None = None
    advice = "set enable_iter_perf_stats: true, or compare with a plain server: --plain URL"

    def __init__(self) -> None:
        self._rounds = self._drafted = self._accepted = 0.0
        self._has_stats = False

    def recognise(self, http: Http) -> str | None:
        """By the owner of its models."""
        if owner(http) != "tensorrt_llm":
            return None
        version = http.page("/version").json
        return str(version.get("version", "")) if isinstance(version, dict) else ""

    def models(self, http: Http) -> Sequence[str]:
        """From ``/v1/models``."""
        return model_names(http)

    def request(self, ask: Ask, model: str) -> tuple[str, Json]:
        """The standard's fields, and its own neutral ones."""
        return COMPLETIONS, completion_body(ask, model, top_k=0, repetition_penalty=1.0)

    def read(self, chunks: Sequence[Json]) -> Said:
        """Nothing is told of one request's drafts."""
        return read_completion(chunks)

    def text_in(self, chunk: Json) -> str:
        """Of its choice."""
        return text_in_choices(chunk)

    def ids(self, http: Http, model: str, text: str) -> tuple[int, ...] | None:  # noqa: ARG002
        """Not told."""
        return None

    def counters(self, http: Http) -> Counters | None:
        """Sum what was drained so far."""
        iterations = http.page("/metrics", fresh=True).json
        if not isinstance(iterations, list):
            return None
        self._has_stats = self._has_stats or bool(iterations)
        for each in iterations:
            spec = each.get("specDecodingStats") or {}
            self._rounds += float(spec.get("numRequestsWithDraftTokens") or 0)
            self._drafted += float(spec.get("numDraftTokens") or 0)
            self._accepted += float(spec.get("numAcceptedTokens") or 0)
        if not self._has_stats:
            return None
        return Counters(rounds=self._rounds, drafted=self._drafted, accepted=self._accepted)

    def inspect(self, http: Http, model: str) -> Inspection:  # noqa: ARG002
        """Only whether statistics come at all."""
        if not self._has_stats:
            return Inspection(findings=(NO_STATS,))
        if self._drafted == 0:
            return Inspection(configured=False, findings=(NO_SPEC,))
        return Inspection(configured=True)
