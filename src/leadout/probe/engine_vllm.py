"""vLLM: counters in Prometheus form, ids in and out, `metrics.speculative_decoding` where it was asked for.

Read in the sources of 0.32 and 0.33.
"""

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
from leadout.probe.values import Ask, Counters, Finding, Inspection, Key, Said

_SPEC = "vllm:spec_decode_num_"
_LOSSY = ("synthetic", "fly")

NOT_CONFIGURED = Finding(
    level="fault",
    name="no-speculative-config",
    text="/metrics has no vllm:spec_decode counters: the server runs without a speculative configuration",
    remedy='start it with --speculative-config \'{"method": "draft_model", "model": "D", '
    '"num_speculative_tokens": 5}\' (always name the method), or {"method": "ngram", ...}',
)
NO_STATS = Finding(
    level="warning",
    name="stats-disabled",
    text="/metrics has no vllm: counters at all, so nothing can be counted",
    remedy="start the server without --disable-log-stats, which silences the counters too",
)


class Vllm:
    """See `Engine`."""

    name = "vllm"
    takes_ids = True
    n_top = 20
    undrafted: Fields | None = None
    advice = "its log says 'SpecDecoding metrics: Mean acceptance length ...' every 10 s while it drafts"

    def recognise(self, http: Http) -> str | None:
        """By the owner of its models, or by its metrics."""
        if owner(http) != "vllm" and "vllm:" not in http.page("/metrics").text:
            return None
        version = http.page("/version").json
        return str(version.get("version", "")) if isinstance(version, dict) else ""

    def models(self, http: Http) -> Sequence[str]:
        """From ``/v1/models``."""
        return model_names(http)

    def request(self, ask: Ask, model: str) -> tuple[str, Json]:
        """Ids are asked for, also as names in ``top_logprobs``."""
        more: Json = {"top_k": 0, "repetition_penalty": 1.0, "return_token_ids": True}
        if ask.n_top > 0:
            more["return_tokens_as_token_ids"] = True
        return COMPLETIONS, completion_body(ask, model, **more)

    def read(self, chunks: Sequence[Json]) -> Said:
        """With this request's own counts where ``--per-request-spec-decode-metrics`` is on."""
        said = read_completion(chunks, _key_of)
        for chunk in chunks:
            counts = (chunk.get("metrics") or {}).get("speculative_decoding")
            if counts:
                drafted = int(counts["num_draft_tokens"])
                said = replace(said, drafted=drafted, accepted=int(counts["num_accepted_draft_tokens"]))
        return said

    def text_in(self, chunk: Json) -> str:
        """Of its choice."""
        return text_in_choices(chunk)

    def ids(self, http: Http, model: str, text: str) -> tuple[int, ...] | None:
        """From ``/tokenize``."""
        said = http.post("/tokenize", {"model": model, "prompt": text, "add_special_tokens": True})
        return tuple(int(token) for token in said["tokens"])

    def counters(self, http: Http) -> Counters | None:
        """From ``/metrics``; the counters of speculation exist as soon as it is configured."""
        totals = read_totals(http.page("/metrics", fresh=True).text)
        if "vllm:generation_tokens" not in totals:
            return None
        return Counters(
            requests=totals.get("vllm:request_success"),
            tokens=totals["vllm:generation_tokens"],
            rounds=totals.get(f"{_SPEC}drafts"),
            drafted=totals.get(f"{_SPEC}draft_tokens"),
            accepted=totals.get(f"{_SPEC}accepted_tokens"),
        )

    def inspect(self, http: Http, model: str) -> Inspection:  # noqa: ARG002
        """Whether the counters exist; the resolved configuration in development mode."""
        totals = read_totals(http.page("/metrics", fresh=True).text)
        if "vllm:generation_tokens" not in totals:
            return Inspection(findings=(NO_STATS,))
        if f"{_SPEC}drafts" not in totals:
            return Inspection(configured=False, findings=(NOT_CONFIGURED,))
        config = http.page("/server_info?config_format=json").json
        spec = (
            (config.get("vllm_config") or {}).get("speculative_config") if isinstance(config, dict) else None
        )
        spec = spec if isinstance(spec, dict) else {}
        findings = []
        rule = spec.get("rejection_sample_method")
        if rule in _LOSSY:
            findings.append(
                Finding(
                    level="fault",
                    name="lossy-rule",
                    text=f"rejection_sample_method is {rule!r}, which changes what the model says",
                    remedy="use 'standard' or 'block'",
                )
            )
        return Inspection(configured=True, drafter=str(spec.get("method") or ""), findings=tuple(findings))


def _key_of(name: str) -> Key:
    number = name.removeprefix("token_id:")
    return int(number) if number.isdecimal() and number != name else name
