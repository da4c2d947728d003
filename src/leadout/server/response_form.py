"""The body of ``POST /v1/responses``, and its items as chat messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from leadout.engine.params import MAX_LOGPROBS
from leadout.server.chat_form import Effort
from leadout.server.form import Form, Metadata, SamplingForm, ServiceTier, Unused, only
from leadout.server.message_form import Content, text_of
from leadout.server.tool_form import ChoiceWord, Function, choice_kind

_STATELESS = "nothing is stored here; send the whole conversation in input"
Status = Annotated[str | None, Field(description="Accepted, and not used.")]


class MessageItem(Form):
    """A message."""

    type: Literal["message"] = "message"
    role: Literal["user", "assistant", "system", "developer"]
    content: Content
    id: Unused = None
    status: Status = None
    phase: Unused = None


class CallItem(Form):
    """A call in an earlier answer."""

    type: Literal["function_call"]
    call_id: str
    name: str
    arguments: str
    id: Unused = None
    status: Status = None


class CallOutputItem(Form):
    """What a call came to."""

    type: Literal["function_call_output"]
    call_id: str
    output: Content
    id: Unused = None
    status: Status = None


class ReasoningItem(Form):
    """The reasoning of an earlier answer; given to templates that know it."""

    type: Literal["reasoning"]
    summary: Content | None = None
    content: Content | None = None
    encrypted_content: Unused = None
    id: Unused = None
    status: Status = None


def _item_kind(value: Any) -> Any:
    if isinstance(value, Form):
        return f"~{getattr(value, 'type', None)}"
    return f"~{value.get('type') or 'message'}" if isinstance(value, dict) else None


Item = Annotated[
    Annotated[MessageItem, Tag("~message")]
    | Annotated[CallItem, Tag("~function_call")]
    | Annotated[CallOutputItem, Tag("~function_call_output")]
    | Annotated[ReasoningItem, Tag("~reasoning")],
    Discriminator(
        _item_kind,
        custom_error_type="refused",
        custom_error_message="is of no type that is honoured here: "
        "message, function_call, function_call_output or reasoning",
    ),
]
Input = Annotated[
    Annotated[str, Tag("~text")] | Annotated[list[Item], Field(min_length=1), Tag("~items")],
    Discriminator(lambda value: "~items" if isinstance(value, list) else "~text"),
]


class ResponseTool(Form):
    """A function that the model may call; functions are the only kind of tool."""

    type: Literal["function"]
    name: Annotated[str, Field(min_length=1, max_length=256)]
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None

    def to_function(self) -> Function:
        """The function alone."""
        return Function(
            name=self.name, description=self.description, parameters=self.parameters, strict=self.strict
        )


class ResponseToolChoice(Form):
    """The tool that must be called."""

    type: Literal["function"]
    name: str


class TextFormat(Form):
    """The form an answer must have."""

    type: Literal["text", "json_object", "json_schema"]
    name: str | None = None
    description: str | None = None
    schema_: Annotated[dict[str, Any] | None, Field(alias="schema")] = None
    strict: bool | None = None


class TextOptions(Form):
    """How the text is to be."""

    format: TextFormat | None = None
    verbosity: Annotated[str | None, only("medium", because="models here have no such setting")] = None


class ReasoningOptions(Form):
    """How to reason."""

    effort: Effort | None = None
    summary: Annotated[
        str | None, only("auto", because="reasoning is told as it is, in the item's content")
    ] = None


class ResponseForm(SamplingForm):
    """A response; nothing of it is stored."""

    model: str
    input: Input
    instructions: str | None = None
    stream: bool | None = None
    max_output_tokens: int | None = Field(
        None, ge=1, description="Longest answer in tokens, reasoning included."
    )
    top_logprobs: int | None = Field(None, ge=0, le=MAX_LOGPROBS)
    tools: list[ResponseTool] | None = None
    tool_choice: (
        Annotated[ChoiceWord | Annotated[ResponseToolChoice, Tag("~tool")], Discriminator(choice_kind)] | None
    ) = None
    parallel_tool_calls: bool | None = Field(None, description="false keeps the first call alone.")
    text: TextOptions | None = None
    reasoning: ReasoningOptions | None = None
    include: list[Literal["reasoning.encrypted_content", "message.output_text.logprobs"]] | None = Field(
        None, description="Reasoning is always told in the open; logprobs are told where asked for."
    )
    truncation: Annotated[str | None, only("disabled", because="prompts are never cut")] = None
    previous_response_id: Annotated[str | None, only(because=_STATELESS)] = None
    store: Annotated[bool | None, only(False, because=_STATELESS)] = None
    background: Annotated[bool | None, only(False, because=_STATELESS)] = None
    user: Unused = None
    safety_identifier: Unused = None
    prompt_cache_key: Unused = None
    prompt_cache_retention: Unused = None
    metadata: Metadata = None
    service_tier: ServiceTier = None

    @property
    def logprobs(self) -> int | None:
        """How many alternatives to each token are wanted; None for no log probabilities."""
        is_asked = self.top_logprobs is not None or "message.output_text.logprobs" in (self.include or ())
        return (self.top_logprobs or 0) if is_asked else None

    def messages(self) -> list[dict[str, object]]:
        """The conversation as chat templates know it."""
        first: list[dict[str, object]] = []
        if self.instructions is not None:
            first = [{"role": "system", "content": self.instructions}]
        if isinstance(self.input, str):
            return [*first, {"role": "user", "content": self.input}]
        return [*first, *_messages(self.input)]


def _messages(
    items: Sequence[MessageItem | CallItem | CallOutputItem | ReasoningItem],
) -> list[dict[str, object]]:
    """Items as messages; reasoning, text and calls of one answer become one message."""
    messages: list[dict[str, object]] = []
    for item in items:
        match item:
            case MessageItem(role="assistant"):
                answer = _answer(messages, without="content")
                answer["content"] = text_of(item.content)
            case MessageItem():
                role = "system" if item.role == "developer" else item.role
                messages.append({"role": role, "content": text_of(item.content)})
            case ReasoningItem():
                answer = _answer(messages, without="reasoning_content")
                answer["reasoning_content"] = text_of(item.content) or text_of(item.summary)
            case CallItem():
                calls = _answer(messages).setdefault("tool_calls", [])
                function = {"name": item.name, "arguments": item.arguments}
                if isinstance(calls, list):
                    calls.append({"id": item.call_id, "type": "function", "function": function})
            case CallOutputItem():
                messages.append(
                    {"role": "tool", "tool_call_id": item.call_id, "content": text_of(item.output)}
                )
    for message in messages:
        message.setdefault("content", None if message.get("tool_calls") else "")
    return messages


def _answer(messages: list[dict[str, object]], *, without: str = "") -> dict[str, object]:
    """The assistant's message that the last item belongs to; a new one where that already has `without`."""
    last = messages[-1] if messages else {}
    is_open = (
        last.get("role") == "assistant" and without not in last and not (without and "tool_calls" in last)
    )
    if not is_open:
        last = {"role": "assistant"}
        messages.append(last)
    return last
