"""What many clients ask a server, and what they were told. Knows HTTP bodies, not who sends them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from leadout.errors import ProviderError

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"

_TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Tells the weather of a place.",
        "parameters": {"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]},
    },
}
_CODE = "def total(prices):\n    sum = 0\n    for price in prices:\n        sum += price\n    return sum\n\n"
_STORY = "The river ran past the mill, and the miller's daughter counted the boats that went by. "


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One kind of request.

    Parameters
    ----------
    name : str
    path : str
        The route.
    body : dict
        Without model and speculation.
    is_repeatable : bool
        Whether each reply must be the same: it is greedy or has a seed.
    """

    name: str
    path: str
    body: dict[str, object]
    is_repeatable: bool = True


def mixed_jobs(max_tokens: int) -> list[Job]:
    """Requests of every kind, with answers of up to `max_tokens`."""

    def chat(name: str, text: str, **settings: object) -> Job:
        body = {"messages": [{"role": "user", "content": text}], "max_tokens": max_tokens, **settings}
        return Job(name=name, path=CHAT, body=body, is_repeatable=_is_repeatable(settings))

    def completion(name: str, prompt: object, **settings: object) -> Job:
        body = {"prompt": prompt, "max_tokens": max_tokens, **settings}
        return Job(name=name, path=COMPLETIONS, body=body, is_repeatable=_is_repeatable(settings))

    greedy = {"temperature": 0}
    return [
        chat("greedy", "Name three rivers and say where they end.", **greedy),
        chat("seeded", "Write a line about the sea.", seed=11),
        chat("sampled", "Write a line about the hills.", temperature=1.1, top_p=0.9),
        chat("penalties", "List ten colours.", **greedy, frequency_penalty=0.7, repetition_penalty=1.2),
        chat("stop", "Count from one to twenty in words.", seed=5, stop=["four", "\n\n"]),
        chat("tools", "What is the weather in Oslo?", **greedy, tools=[_TOOL]),
        chat("several", "Say hello in a new way.", seed=3, n=3, temperature=0.9),
        chat("logprobs", "Is the sky blue?", **greedy, logprobs=True, top_logprobs=3),
        chat("bias", "Say yes or no.", seed=8, logit_bias={"5": -2.0, "11": 1.5}, top_k=20, min_p=0.02),
        completion("repeating", _CODE * 3, **greedy),
        completion("prompts", ["Once upon a time", "def add(a, b):"], seed=2),
        completion("long prompt", _STORY * 20, **greedy),
    ]


def _is_repeatable(settings: dict[str, object]) -> bool:
    return settings.get("temperature") == 0 or "seed" in settings


@dataclass(slots=True)
class Told:
    """What a stream told: by answer its text with its calls, and its end.

    Attributes
    ----------
    answers : dict of int to str
    ends : dict of int to str
    is_whole : bool
        Whether the stream came to its own end.
    n_tokens : int
        Tokens of all answers, by the server's count.
    """

    answers: dict[int, str] = field(default_factory=dict)
    ends: dict[int, str] = field(default_factory=dict)
    is_whole: bool = False
    n_tokens: int = 0

    def says_as(self, other: Told) -> bool:
        """Whether the same was said."""
        return (self.answers, self.ends) == (other.answers, other.ends)


async def read_stream(lines: AsyncIterator[str]) -> Told:
    """All of a stream of server-sent events.

    Raises
    ------
    ProviderError
        If it tells an error, or stops before its end.
    """
    told = Told()
    async for line in lines:
        if line == "data: [DONE]":
            told.is_whole = True
        elif line.startswith("data: "):
            _take(told, json.loads(line.removeprefix("data: ")))
    if not told.is_whole:
        raise ProviderError("the stream stopped before its end")
    return told


def _take(told: Told, chunk: dict[str, object]) -> None:
    """Add one chunk."""
    if "error" in chunk:
        raise ProviderError(f"the stream tells an error: {chunk['error']}")
    usage, choices = chunk.get("usage"), chunk["choices"]
    if isinstance(usage, dict):
        told.n_tokens += usage["completion_tokens"]
    for choice in choices if isinstance(choices, list) else ():
        index, delta = choice["index"], choice.get("delta", {})
        said = choice.get("text") or delta.get("content") or delta.get("reasoning_content") or ""
        for call in delta.get("tool_calls", ()):
            said += "".join(call["function"].values())
        told.answers[index] = told.answers.get(index, "") + said
        if choice["finish_reason"] is not None:
            told.ends[index] = choice["finish_reason"]
