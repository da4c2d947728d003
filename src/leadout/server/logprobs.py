"""Log probabilities in the words of the OpenAI interface."""

from __future__ import annotations

from collections.abc import Sequence

from leadout.engine.events import Token, TokenLogprob


def chat_logprobs(tokens: Sequence[Token]) -> list[dict[str, object]]:
    """One entry for every token, markup of reasoning and calls included."""
    return [_entry(token) for token in tokens]


def text_logprobs(tokens: Sequence[Token], offset: int = 0) -> dict[str, object]:
    """The older form of ``/v1/completions``; `offset` is where the first token's text begins."""
    texts = [_text(token.logprob) for token in tokens]
    offsets = []
    for text in texts:
        offsets.append(offset)
        offset += len(text)
    return {
        "tokens": texts,
        "token_logprobs": [None if each.logprob is None else each.logprob.logprob for each in tokens],
        "top_logprobs": [{_text(other): other.logprob for other in each.alternatives} for each in tokens],
        "text_offset": offsets,
    }


def _entry(token: Token) -> dict[str, object]:
    top = [_named(each) for each in token.alternatives]
    return {**_named(token.logprob), "top_logprobs": top}


def _named(each: TokenLogprob | None) -> dict[str, object]:
    if each is None:
        return {}
    return {"token": _text(each), "logprob": each.logprob, "bytes": list(each.piece)}


def _text(each: TokenLogprob | None) -> str:
    return "" if each is None else each.piece.decode("utf-8", "replace")
