"""Ollama: no counts of drafts anywhere; its Modelfile shows a DRAFT layer, its log the rest.

Read in the source of 0.33; not run here.
"""

from __future__ import annotations

from collections.abc import Sequence

from leadout.errors import ServerRefusedError
from leadout.probe.engine import Fields
from leadout.probe.http import Http, Json
from leadout.probe.values import Ask, Counters, Finding, Inspection, Said


class Ollama:
    """See `Engine`."""

    name = "ollama"
    takes_ids = False
    n_top = 20
    undrafted: Fields | None = None  # draft_num_predict 0 is a load-time option: it would reload the model
    advice = (
        "its log has 'starting llama-server cmd=... --spec-type ...' at load, or 'speculative decode stats' "
        "with MLX"
    )

    def recognise(self, http: Http) -> str | None:
        """By its greeting at ``/``."""
        if "Ollama is running" not in http.page("/").text:
            return None
        version = http.page("/api/version").json
        return str(version.get("version", "")) if isinstance(version, dict) else ""

    def models(self, http: Http) -> Sequence[str]:
        """The loaded ones, else all."""
        for path in ("/api/ps", "/api/tags"):
            page = http.page(path).json
            names = [str(each["name"]) for each in (page or {}).get("models") or ()]
            if names:
                return names
        return ()

    def request(self, ask: Ask, model: str) -> tuple[str, Json]:
        """``/api/generate``, raw: no template, no system prompt."""
        options: Json = {
            "num_predict": ask.max_tokens,
            "temperature": ask.temperature,
            "top_k": 1 if ask.temperature == 0 else 0,
            "top_p": 1.0,
            "min_p": ask.min_p,
            "typical_p": 1.0,
            "repeat_penalty": 1.0,
            "presence_penalty": 0.0,
            "frequency_penalty": 0.0,
        }
        if ask.stop:
            options["stop"] = [ask.stop]
        body: Json = {"model": model, "prompt": ask.prompt, "raw": True, "stream": False, "options": options}
        if ask.n_top > 0:
            body |= {"logprobs": True, "top_logprobs": ask.n_top}
        return "/api/generate", body

    def read(self, chunks: Sequence[Json]) -> Said:
        """Chunks are added up; the last one counts."""
        pieces = [str(chunk["response"]) for chunk in chunks if chunk.get("response")]
        counted = [int(chunk["eval_count"]) for chunk in chunks if chunk.get("eval_count") is not None]
        return Said(
            text="".join(pieces),
            pieces=tuple(pieces),
            n_tokens=counted[-1] if counted else None,
            tops=tuple(
                {str(top["token"]): float(top["logprob"]) for top in position.get("top_logprobs") or ()}
                for chunk in chunks
                for position in chunk.get("logprobs") or ()
            ),
        )

    def text_in(self, chunk: Json) -> str:
        """Its response."""
        return str(chunk.get("response") or "")

    def ids(self, http: Http, model: str, text: str) -> tuple[int, ...] | None:  # noqa: ARG002
        """Not told."""
        return None

    def counters(self, http: Http) -> Counters | None:  # noqa: ARG002
        """None are kept."""
        return None

    def inspect(self, http: Http, model: str) -> Inspection:
        """Whether the model has a DRAFT layer, and how many tokens it is to draft."""
        try:
            shown = http.post("/api/show", {"model": model})
        except ServerRefusedError:
            return Inspection()
        lines = str(shown.get("modelfile", "")).splitlines()
        has_draft = any(line.split()[:1] == ["DRAFT"] for line in lines)
        asked = [
            line.split()[-1] for line in str(shown.get("parameters", "")).splitlines() if _is_length(line)
        ]
        length = asked[-1] if asked else ""
        if length == "0" or not (has_draft or length):
            return Inspection(configured=False, findings=(_off(length),))
        parked = Finding(
            level="note",
            name="logprobs-park-drafting",
            text="with Ollama's MLX runner a request for logprobs is silently decoded without drafts",
            remedy="do not ask for logprobs where speed matters",
        )
        drafter = f"DRAFT layer, draft_num_predict {length or 4}" if has_draft else "heads inside the model"
        return Inspection(configured=True, drafter=drafter, findings=(parked,))


def _is_length(line: str) -> bool:
    return line.split()[:1] == ["draft_num_predict"]


def _off(length: str) -> Finding:
    if length == "0":
        text = "draft_num_predict is 0, which turns drafting off"
    else:
        text = (
            "the model has neither a DRAFT layer nor draft_num_predict; no environment variable turns it on"
        )
    return Finding(
        level="fault",
        name="no-draft-layer",
        text=text,
        remedy="add 'DRAFT <path>' (an MTP or DFlash head, not a plain small model) and "
        "'PARAMETER draft_num_predict 4' to the Modelfile and create the model again",
    )
