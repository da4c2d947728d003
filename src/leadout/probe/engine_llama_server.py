"""llama-server of llama.cpp: its own ``/completion`` with timings, ``/slots`` and ``/metrics``.

Read in the source of b11434 and run with it.
"""

from __future__ import annotations

from collections.abc import Sequence

from leadout.errors import ServerError
from leadout.probe.engine import Fields
from leadout.probe.http import Http, Json
from leadout.probe.prometheus import read_totals
from leadout.probe.values import Ask, Counters, Finding, Inspection, Said

_SPEC = "llamacpp:spec_decode_num_"

NO_TYPE = Finding(
    level="fault",
    name="missing-spec-type",
    text="the server runs without --spec-type; a draft model given with -md alone is loaded and freed "
    "again without a word",
    remedy="add --spec-type draft-simple beside -md, or --spec-type ngram-mod without a draft model",
)
NO_SLOTS = Finding(
    level="note",
    name="slots-hidden",
    text="/slots is turned off, so the server does not say whether a drafter was built",
    remedy="start it without --no-slots",
)
NO_METRICS = Finding(
    level="note",
    name="metrics-hidden",
    text="/metrics is turned off, so requests of others cannot be told from ours",
    remedy="start it with --metrics",
)


class LlamaServer:
    """See `Engine`."""

    name = "llama-server"
    takes_ids = True
    n_top = 40
    undrafted: Fields | None = None  # the fields speculative.* of a request are ignored
    advice = "its log says 'draft acceptance = ...' after each request that was drafted for"

    def recognise(self, http: Http) -> str | None:
        """By its Server header, or by ``/props`` where a proxy took that away."""
        props = http.page("/props").json
        is_known = isinstance(props, dict) and "default_generation_settings" in props
        if not is_known and http.page("/health").headers.get("server") != "llama.cpp":
            return None
        return str(props.get("build_info", "")) if isinstance(props, dict) else ""

    def models(self, http: Http) -> Sequence[str]:  # noqa: ARG002
        """None: ``/completion`` needs no name."""
        return ()

    def request(self, ask: Ask, model: str) -> tuple[str, Json]:
        """``/completion`` with every sampler neutral."""
        body: Json = {
            "prompt": list(ask.prompt) if isinstance(ask.prompt, tuple) else ask.prompt,
            "n_predict": ask.max_tokens,
            "temperature": ask.temperature,
            "top_k": 1 if ask.temperature == 0 else 0,
            "top_p": 1.0,
            "min_p": ask.min_p,
            "typical_p": 1.0,
            "top_n_sigma": -1.0,
            "xtc_probability": 0.0,
            "dry_multiplier": 0.0,
            "dynatemp_range": 0.0,
            "mirostat": 0,
            "repeat_penalty": 1.0,
            "presence_penalty": 0.0,
            "frequency_penalty": 0.0,
            "return_tokens": True,
        }
        if ask.stop:
            body["stop"] = [ask.stop]
        if model:
            body["model"] = model
        if ask.n_top > 0:
            body["n_probs"] = ask.n_top
        return "/completion", body

    def read(self, chunks: Sequence[Json]) -> Said:
        """Chunks have tokens and text; the last one, or the only one, has the timings.

        Raises
        ------
        ServerError
            If the answer has no timings.
        """
        timings = next((chunk["timings"] for chunk in reversed(chunks) if chunk.get("timings")), None)
        if not isinstance(timings, dict):
            raise ServerError(f"llama-server's answer has no timings: {str(chunks)[:200]}")
        ids = [int(token) for chunk in chunks for token in chunk.get("tokens") or ()]
        pieces = [str(chunk["content"]) for chunk in chunks if chunk.get("content")]
        positions = [each for chunk in chunks for each in chunk.get("completion_probabilities") or ()]
        return Said(
            text="".join(pieces),
            pieces=tuple(pieces),
            ids=tuple(ids),
            n_tokens=int(timings["predicted_n"]),
            tops=tuple(
                {int(top["id"]): float(top["logprob"]) for top in position.get("top_logprobs") or ()}
                for position in positions
            ),
            drafted=int(timings.get("draft_n", 0)),  # absent where nothing was drafted
            accepted=int(timings.get("draft_n_accepted", 0)),
        )

    def text_in(self, chunk: Json) -> str:
        """Its content."""
        return str(chunk.get("content") or "")

    def ids(self, http: Http, model: str, text: str) -> tuple[int, ...] | None:  # noqa: ARG002
        """From ``/tokenize``."""
        said = http.post("/tokenize", {"content": text, "add_special": True, "parse_special": True})
        return tuple(int(token) for token in said["tokens"])

    def counters(self, http: Http) -> Counters | None:
        """From ``/metrics``, there with ``--metrics``."""
        page = http.page("/metrics", fresh=True)
        if page.status != 200:
            return None
        totals = read_totals(page.text)
        return Counters(
            tokens=totals.get("llamacpp:tokens_predicted"),
            rounds=totals.get(f"{_SPEC}drafts"),
            drafted=totals.get(f"{_SPEC}draft_tokens"),
            accepted=totals.get(f"{_SPEC}accepted_tokens"),
        )

    def inspect(self, http: Http, model: str) -> Inspection:  # noqa: ARG002
        """``/slots`` says whether a drafter was built, and which types were asked for."""
        findings = [] if http.page("/metrics", fresh=True).status == 200 else [NO_METRICS]
        slots = http.page("/slots", fresh=True).json
        if not isinstance(slots, list) or not slots:
            return Inspection(findings=(NO_SLOTS, *findings))
        asked = {str(slot.get("params", {}).get("speculative.types", "")) for slot in slots}
        types = ",".join(sorted({each for names in asked for each in names.split(",")} - {"", "none"}))
        is_built = any(slot.get("speculative") for slot in slots)
        if not is_built:
            findings.insert(0, _not_built(types) if types else NO_TYPE)
        return Inspection(configured=is_built, drafter=types, findings=tuple(findings))


def _not_built(types: str) -> Finding:
    return Finding(
        level="fault",
        name="drafter-not-built",
        text=f"--spec-type {types} was asked for, but no drafter could be built: the draft's vocabulary does "
        "not fit (type, BOS and EOS, size within 128, the text of tokens from id 5 on), or there is no -md",
        remedy="take a draft with the target's own vocabulary (leadout check TARGET DRAFT compares them); "
        "the log line 'failed to initialize speculative decoding context' has more with -lv 4",
    )
