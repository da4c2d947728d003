"""Chat messages as requests bring them, and as chat templates want them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag

from leadout.server.form import Form, refused

_TEXT_PARTS = ("text", "input_text", "output_text", "reasoning_text", "summary_text", "refusal")


def _text_part(value: Any) -> Any:
    """Refuse parts that are no text, before their fields are looked at."""
    kind = value.get("type") if isinstance(value, dict) else None
    if isinstance(kind, str) and kind not in _TEXT_PARTS:
        raise refused(f"is of type {kind[:40]!r}, but the models here read text only")
    return value


class TextPart(Form):
    """A piece of text."""

    type: Literal["text", "input_text", "output_text", "reasoning_text", "summary_text", "refusal"]
    text: str = ""
    refusal: str = ""
    annotations: list[Any] | None = Field(None, description="Accepted, and not used.")
    logprobs: list[Any] | None = Field(None, description="Accepted, and not used.")


Content = Annotated[
    Annotated[str, Tag("~text")]
    | Annotated[list[Annotated[TextPart, BeforeValidator(_text_part)]], Tag("~parts")],
    Discriminator(lambda value: "~parts" if isinstance(value, list | tuple) else "~text"),
]
"""Text, or text in parts. (Names with "~" are left out of the paths that errors tell.)"""


def text_of(content: Content | None) -> str:
    """All of it in one text, parts joined by newlines."""
    if content is None or isinstance(content, str):
        return content or ""
    return "\n".join(part.text or part.refusal for part in content)


class CalledFunction(Form):
    """What was called, and with what."""

    name: str
    arguments: str


class ToolCallForm(Form):
    """A call in an earlier answer."""

    function: CalledFunction
    id: str | None = None
    type: Literal["function"] = "function"
    index: int | None = None


class ChatMessage(Form):
    """One message of a conversation."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: Content | None = None
    name: str | None = None
    tool_calls: list[ToolCallForm] | None = None
    tool_call_id: str | None = None
    reasoning_content: str | None = None
    refusal: str | None = None
    annotations: list[Any] | None = Field(None, description="Accepted, and not used.")

    def to_template(self) -> dict[str, object]:
        """The message as chat templates know it."""
        message: dict[str, object] = {"role": "system" if self.role == "developer" else self.role}
        has_text = self.content is not None or not self.tool_calls
        message["content"] = (text_of(self.content) or self.refusal or "") if has_text else None
        if self.tool_calls:
            message["tool_calls"] = [_call(each) for each in self.tool_calls]
        optional = {
            "name": self.name,
            "tool_call_id": self.tool_call_id,
            "reasoning_content": self.reasoning_content,
        }
        message |= {key: value for key, value in optional.items() if value is not None}
        return message


def _call(call: ToolCallForm) -> dict[str, object]:
    function = {"name": call.function.name, "arguments": call.function.arguments}
    return {"id": call.id or "", "type": "function", "function": function}
