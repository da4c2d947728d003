"""The OpenAI form of completions, which most engines speak with additions of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from leadout.probe.http import Http, Json
from leadout.probe.values import Ask, Key, Said

COMPLETIONS = "/v1/completions"


def completion_body(ask: Ask, model: str, **more: object) -> Json:
    """Every sampling field of the standard, at its neutral value where the request leaves it."""
    body: Json = {
        "model": model,
        "prompt": list(ask.prompt) if isinstance(ask.prompt, tuple) else ask.prompt,
        "max_tokens": ask.max_tokens,
        "temperature": ask.temperature,
        "top_p": 1.0,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        **more,
    }
    if ask.min_p > 0:
        body["min_p"] = ask.min_p
    if ask.n_top > 0:
        body["logprobs"] = ask.n_top
    if ask.stop:
        body["stop"] = [ask.stop]
    return body


def read_completion(chunks: Sequence[Json], key_of: Callable[[str], Key] = str) -> Said:
    """Fold the chunks of ``/v1/completions``.

    Parameters
    ----------
    key_of : callable
        Makes a token's key of its name in ``top_logprobs``.
    """
    pieces, ids, tops = [], [], []
    n_tokens = None
    tells_ids = False
    for chunk in chunks:
        for choice in chunk.get("choices") or ():
            if choice.get("text"):
                pieces.append(str(choice["text"]))
            if choice.get("token_ids") is not None:
                tells_ids = True
                ids += [int(token) for token in choice["token_ids"]]
            tops += read_tops(choice.get("logprobs"), key_of)
        usage = chunk.get("usage")
        if usage and usage.get("completion_tokens") is not None:
            n_tokens = int(usage["completion_tokens"])
    if n_tokens is None and tells_ids:
        n_tokens = len(ids)
    return Said(
        text="".join(pieces),
        pieces=tuple(pieces),
        ids=tuple(ids) if tells_ids else None,
        n_tokens=n_tokens,
        tops=tuple(tops),
    )


def text_in_choices(chunk: Json) -> str:
    """The text of a chunk's first choice."""
    choices = chunk.get("choices") or ()
    return str(choices[0].get("text") or "") if choices else ""


def read_tops(logprobs: Any, key_of: Callable[[str], Key]) -> list[Mapping[Key, float]]:
    """The log probabilities of ``choices[].logprobs``, one mapping a token."""
    if not isinstance(logprobs, dict):
        return []
    return [
        {key_of(token): float(value) for token, value in (position or {}).items()}
        for position in logprobs.get("top_logprobs") or ()
    ]


def served_models(http: Http, path: str = "/v1/models") -> list[Json]:
    """The entries of the list of models; empty where there is none."""
    page = http.page(path).json
    entries = page.get("data") if isinstance(page, dict) else None
    return [entry for entry in entries or () if isinstance(entry, dict) and entry.get("id")]


def model_names(http: Http) -> list[str]:
    """Names of the served models; adapters on top of another model are left out."""
    return [str(entry["id"]) for entry in served_models(http) if entry.get("parent") is None]


def owner(http: Http) -> str:
    """Who owns the first model, which is how some engines sign."""
    return next((str(entry.get("owned_by", "")) for entry in served_models(http)), "")
