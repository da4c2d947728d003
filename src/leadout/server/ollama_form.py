"""The bodies of Ollama's ``/api/chat`` and ``/api/generate``.

Clients in Go send empty texts for what was not given, so these are taken for that.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Discriminator, Field, Tag

from leadout.engine.params import MAX_LOGPROBS, Params
from leadout.receipts import replayable
from leadout.server.chat_form import Effort
from leadout.server.form import Form, KeepAlive, Receipt, Speculation, only, refused
from leadout.server.ollama_options import OllamaOptions
from leadout.server.refusal import RefusedError
from leadout.server.tool_form import Function


def _no_images(value: list[Any] | None) -> list[Any] | None:
    if value:
        raise refused("cannot be honoured, as the models here read text only; leave it out")
    return value


Images = Annotated[list[Any] | None, AfterValidator(_no_images)]
Format = Annotated[
    Annotated[Literal["", "json"], Tag("~word")] | Annotated[dict[str, Any], Tag("~schema")],
    Discriminator(lambda value: "~schema" if isinstance(value, dict) else "~word"),
    Field(description='"json", or a JSON schema that the answer must follow.'),
]
Think = Annotated[
    Annotated[Literal["none", "low", "medium", "high"], Tag("~word")] | Annotated[bool, Tag("~truth")],
    Discriminator(lambda value: "~word" if isinstance(value, str) else "~truth"),
    Field(description="Whether, or how much, to reason before the answer; for templates that know it."),
]


class CalledTool(Form):
    """What was called, and with what."""

    name: str
    arguments: dict[str, Any] = Field(default_factory=dict)
    index: int | None = None
    description: str | None = None


class OllamaCall(Form):
    """A call in an earlier answer."""

    function: CalledTool
    id: str | None = None
    type: Literal["function"] | None = None


class OllamaMessage(Form):
    """One message of a conversation."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str | None = None
    thinking: str | None = None
    images: Images = None
    tool_calls: list[OllamaCall] | None = None
    tool_name: str | None = None
    tool_call_id: str | None = None

    def to_template(self) -> dict[str, object]:
        """The message as chat templates know it."""
        message: dict[str, object] = {"role": self.role, "content": self.content or ""}
        if self.tool_calls:
            message["tool_calls"] = [_call(each) for each in self.tool_calls]
        optional = {
            "name": self.tool_name,
            "tool_call_id": self.tool_call_id,
            "reasoning_content": self.thinking,
        }
        return message | {key: value for key, value in optional.items() if value}


class OllamaTool(Form):
    """A tool; functions are the only kind."""

    function: Function
    type: Literal["function"] = "function"


class OllamaForm(Form):
    """What both bodies have."""

    model: str
    stream: bool = True
    format: Format | None = None
    options: OllamaOptions = OllamaOptions.model_validate({})
    think: Think | None = None
    keep_alive: KeepAlive | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = Field(None, ge=0, le=MAX_LOGPROBS)
    truncate: Annotated[bool | None, only(False, because="prompts are never cut")] = None
    shift: Annotated[bool | None, only(False, because="nothing is ever dropped from the context")] = None
    speculation: Speculation | None = None
    receipt: Receipt | None = None

    def to_params(self) -> Params:
        """The request's parameters.

        Raises
        ------
        RefusedError
            If a value is outside its range, or `top_logprobs` stands alone.
        """
        if self.top_logprobs and not self.logprobs:
            raise RefusedError(400, "top_logprobs needs logprobs: true", param="top_logprobs")
        params = self.options.to_params(
            logprobs=(self.top_logprobs or 0) if self.logprobs else None, speculation=self.speculation
        )
        return replayable(params) if self.receipt else params

    @property
    def effort(self) -> Effort | None:
        """How much to reason, in the words of the OpenAI interface."""
        if isinstance(self.think, bool):
            return "medium" if self.think else "none"
        return self.think

    @property
    def response_format(self) -> dict[str, Any] | None:
        """The form of the answer, in the words of the OpenAI interface."""
        if self.format is None or self.format == "":
            return None
        if self.format == "json":
            return {"type": "json_object"}
        return {"type": "json_schema", "schema": self.format}


class OllamaChatForm(OllamaForm):
    """A chat; without messages the model is loaded, or unloaded, alone."""

    messages: list[OllamaMessage] = Field(default_factory=list)
    tools: list[OllamaTool] | None = None


class OllamaGenerateForm(OllamaForm):
    """An answer to one prompt; without one the model is loaded, or unloaded, alone."""

    prompt: str = ""
    system: str = ""
    raw: bool = Field(False, description="Continue the prompt as it is, without the chat template.")
    context: list[int] | None = Field(None, description="What an earlier answer ended with, to go on from.")
    images: Images = None
    suffix: Annotated[str | None, only("", because="text is continued, not filled in")] = None
    template: Annotated[
        str | None, only("", because="prompts are written by the model's own template; or use raw")
    ] = None
    width: Annotated[int | None, only(0, because="the models here write text only")] = None
    height: Annotated[int | None, only(0, because="the models here write text only")] = None
    steps: Annotated[int | None, only(0, because="the models here write text only")] = None


def _call(call: OllamaCall) -> dict[str, object]:
    arguments = json.dumps(call.function.arguments, ensure_ascii=False)
    function = {"name": call.function.name, "arguments": arguments}
    return {"id": call.id or "", "type": "function", "function": function}
