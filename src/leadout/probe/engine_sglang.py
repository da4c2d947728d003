"""SGLang: its own ``/generate`` with counts per request, and the resolved set-up in ``/server_info``.

Read in the source of 0.5.23.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from leadout.errors import ServerError
from leadout.probe.engine import Fields
from leadout.probe.http import Http, Json
from leadout.probe.prometheus import read_totals
from leadout.probe.values import Ask, Counters, Finding, Inspection, Said

_ACCEPT_ALL = 1.0


class Sglang:
    """See `Engine`."""

    name = "sglang"
    takes_ids = True
    n_top = 20
    undrafted: Fields | None = None
    advice = "its log shows 'accept len: ...' in 'Decode batch' lines only while an algorithm is active"

    def recognise(self, http: Http) -> str | None:
        """By ``/model_info``, called ``/get_model_info`` before."""
        for path in ("/model_info", "/get_model_info"):
            page = http.page(path).json
            if isinstance(page, dict) and "model_path" in page and "is_generation" in page:
                return str(_set_up(http).get("version", ""))
        return None

    def models(self, http: Http) -> Sequence[str]:  # noqa: ARG002
        """None: a server has one model, and ``/generate`` names none."""
        return ()

    def request(self, ask: Ask, model: str) -> tuple[str, Json]:  # noqa: ARG002
        """``/generate``, which tells ids and counts without being asked."""
        sampling: Json = {
            "max_new_tokens": ask.max_tokens,
            "temperature": ask.temperature,
            "top_p": 1.0,
            "top_k": -1,
            "repetition_penalty": 1.0,
            "presence_penalty": 0.0,
            "frequency_penalty": 0.0,
        }
        if ask.min_p > 0:
            sampling["min_p"] = ask.min_p
        if ask.stop:
            sampling["stop"] = [ask.stop]
        body: Json = {"sampling_params": sampling}
        if isinstance(ask.prompt, tuple):
            body["input_ids"] = list(ask.prompt)
        else:
            body["text"] = ask.prompt
        if ask.n_top > 0:
            body |= {"return_logprob": True, "top_logprobs_num": ask.n_top}
        return "/generate", body

    def read(self, chunks: Sequence[Json]) -> Said:
        """Chunks repeat all that came so far; the last one has everything.

        Raises
        ------
        ServerError
            If the answer has no ``meta_info``.
        """
        last = chunks[-1] if chunks else {}
        meta = last.get("meta_info")
        if not isinstance(meta, dict):
            raise ServerError(f"SGLang's answer has no meta_info: {str(last)[:200]}")
        texts = [str(chunk.get("text", "")) for chunk in chunks]
        starts = ["", *texts[:-1]]
        pieces = [text.removeprefix(start) for start, text in zip(starts, texts, strict=True)]
        ids = last.get("output_ids")
        verify = int(meta.get("spec_verify_ct") or 0)
        return Said(
            text=texts[-1],
            pieces=tuple(piece for piece in pieces if piece),
            ids=None if ids is None else tuple(int(token) for token in ids),
            n_tokens=int(meta.get("completion_tokens", 0)),
            tops=tuple(
                {int(token): float(value) for value, token, *_ in position or ()}
                for position in meta.get("output_top_logprobs") or ()
            ),
            drafted=int(meta.get("spec_num_proposed_drafts", 0)) if verify else 0,  # absent: nothing verified
            accepted=int(meta.get("spec_num_correct_drafts", 0)) if verify else 0,
        )

    def text_in(self, chunk: Json) -> str:
        """All text so far."""
        return str(chunk.get("text") or "")

    def ids(self, http: Http, model: str, text: str) -> tuple[int, ...] | None:
        """From ``/tokenize``."""
        said = http.post("/tokenize", {"model": model or "default", "prompt": text})
        return tuple(int(token) for token in said["tokens"])

    def counters(self, http: Http) -> Counters | None:
        """From ``/metrics``, there with ``--enable-metrics``; its gauges are averages and prove nothing."""
        page = http.page("/metrics", fresh=True)
        if page.status != 200:
            return None
        totals = read_totals(page.text)
        return Counters(
            requests=totals.get("sglang:num_requests"),
            tokens=totals.get("sglang:generation_tokens"),
            rounds=totals.get("sglang:spec_verify_calls"),
        )

    def inspect(self, http: Http, model: str) -> Inspection:  # noqa: ARG002
        """What ``/server_info`` says was resolved."""
        set_up = _set_up(http)
        if not set_up:
            return Inspection()
        algorithm = str(set_up.get("speculative_algorithm") or "")
        findings = list(_traps(set_up, algorithm))
        if not algorithm and not findings:
            findings.append(
                Finding(
                    level="fault",
                    name="no-speculative-algorithm",
                    text="the server runs without --speculative-algorithm",
                    remedy="add --speculative-algorithm NGRAM, or STANDALONE with "
                    "--speculative-draft-model-path D",
                )
            )
        return Inspection(configured=bool(algorithm), drafter=algorithm, findings=tuple(findings))


def _set_up(http: Http) -> Json:
    for path in ("/server_info", "/get_server_info"):
        page = http.page(path).json
        if isinstance(page, dict):
            return page
    return {}


def _traps(set_up: Json, algorithm: str) -> list[Finding]:
    found = []
    draft = set_up.get("speculative_draft_model_path")
    if draft and not algorithm:
        found.append(
            Finding(
                level="fault",
                name="draft-without-algorithm",
                text="--speculative-draft-model-path is set and --speculative-algorithm is not: "
                "the draft model is fetched and then ignored",
                remedy="add --speculative-algorithm STANDALONE (or EAGLE, EAGLE3 for such heads)",
            )
        )
    if not algorithm:
        return found
    if any(
        _is_below(set_up.get(f"speculative_accept_threshold_{kind}"), _ACCEPT_ALL)
        for kind in ("single", "acc")
    ):
        found.append(
            Finding(
                level="fault",
                name="lossy-rule",
                text="--speculative-accept-threshold-single or -acc is below 1: drafts are accepted that "
                "the model would not say",
                remedy="leave both at 1",
            )
        )
    if set_up.get("device") in ("cpu", "xpu"):
        found.append(
            Finding(
                level="warning",
                name="greedy-verify-device",
                text=f"on {set_up['device']} SGLang verifies by argmax alone: temperature and top_p have no "
                "effect on verified tokens",
                remedy="use temperature 0 only, or turn speculation off there",
            )
        )
    if set_up.get("max_running_requests") == 48:
        found.append(
            Finding(
                level="note",
                name="request-cap",
                text="at most 48 requests run at once, the cap that turning on speculation sets by itself",
                remedy="set --max-running-requests",
            )
        )
    found.append(
        Finding(
            level="note",
            name="min-p-unapplied",
            text="SGLang's verification applies temperature, top_k and top_p, but not min_p, and does not "
            "refuse it",
            remedy="do not rely on min_p with speculation",
        )
    )
    return found


def _is_below(value: Any, limit: float) -> bool:
    return isinstance(value, int | float) and value < limit
