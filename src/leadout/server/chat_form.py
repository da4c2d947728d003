"""The body of ``POST /v1/chat/completions``."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from leadout.engine.params import MAX_LOGPROBS
from leadout.server.form import Form, Metadata, ResponseFormat, SamplingForm, ServiceTier, Stop, Unused, only
from leadout.server.message_form import ChatMessage
from leadout.server.tool_form import Tool, ToolChoice

_NO_AUDIO = "the models here write text only"

Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh"]


class StreamOptions(Form):
    """What a stream tells beside the text."""

    include_usage: bool | None = Field(None, description="End with a chunk that has the usage.")
    include_origins: bool | None = Field(
        None, description="Tell with each chunk which tokens were drafted: its leadout.tokens."
    )
    include_obfuscation: Annotated[bool | None, only(False, because="nothing is padded here")] = None


class ChatForm(SamplingForm):
    """A chat completion."""

    model: str
    messages: Annotated[list[ChatMessage], Field(min_length=1)]
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    max_tokens: int | None = Field(None, description="Longest answer in tokens.")
    max_completion_tokens: int | None = Field(None, ge=1, description="The same; give one of the two.")
    n: int | None = None
    stop: Stop | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = Field(None, ge=0, le=MAX_LOGPROBS)
    tools: list[Tool] | None = None
    tool_choice: ToolChoice | None = None
    parallel_tool_calls: bool | None = Field(None, description="false keeps the first call alone.")
    response_format: ResponseFormat | None = None
    reasoning_effort: Effort | None = Field(None, description="For templates that know it.")
    chat_template_kwargs: dict[str, Any] | None = Field(None, description="Variables of the template.")
    user: Unused = None
    safety_identifier: Unused = None
    prompt_cache_key: Unused = None
    prompt_cache_retention: Unused = None
    metadata: Metadata = None
    store: Annotated[bool | None, only(False, because="nothing is stored here")] = None
    service_tier: ServiceTier = None
    modalities: Annotated[list[str] | None, only(["text"], because=_NO_AUDIO)] = None
    verbosity: Annotated[str | None, only("medium", because="models here have no such setting")] = None
