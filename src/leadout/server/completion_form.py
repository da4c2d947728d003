"""The body of ``POST /v1/completions``."""

from __future__ import annotations

from typing import Annotated

from pydantic import Discriminator, Field, Tag

from leadout.server.chat_form import StreamOptions
from leadout.server.form import ResponseFormat, SamplingForm, Stop, Unused, only

MAX_PROMPTS = 256


def _kind(value: object) -> str:
    """Which of the four forms a prompt has, by its first element."""
    if not isinstance(value, list):
        return "~text"
    first = value[0] if value else ""
    if isinstance(first, list):
        return "~lists"
    return "~texts" if isinstance(first, str) else "~ids"


Texts = Annotated[list[str], Field(min_length=1, max_length=MAX_PROMPTS)]
Lists = Annotated[list[list[int]], Field(min_length=1, max_length=MAX_PROMPTS)]
Prompts = Annotated[
    Annotated[str, Tag("~text")]
    | Annotated[Texts, Tag("~texts")]
    | Annotated[list[int], Tag("~ids")]
    | Annotated[Lists, Tag("~lists")],
    Discriminator(_kind),
]


class CompletionForm(SamplingForm):
    """A text completion: prompts are continued as they are, without a chat template."""

    model: str
    prompt: Prompts = Field(description="Text or token ids, or a list of either.")
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    max_tokens: int | None = Field(
        None, description="Longest answer in tokens; to the end of the context where it is left out."
    )
    n: int | None = None
    stop: Stop | None = None
    logprobs: int | None = None
    response_format: ResponseFormat | None = None
    echo: Annotated[bool | None, only(False, because="prompts are not repeated")] = None
    best_of: Annotated[int | None, only(1, because="answers are not ranked; use n")] = None
    suffix: Annotated[str | None, only(because="text is continued, not filled in")] = None
    user: Unused = None

    def prompts(self) -> list[str | list[int]]:
        """All prompts, one at least."""
        if isinstance(self.prompt, str):
            return [self.prompt]
        first = self.prompt[0] if self.prompt else 0
        if isinstance(first, int):
            return [[each for each in self.prompt if isinstance(each, int)]]
        return [each for each in self.prompt if not isinstance(each, int)]
