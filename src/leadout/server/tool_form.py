"""Tools as requests describe them, as chat templates want them, and as parsers of calls want them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from leadout.server.form import Form


class Function(Form):
    """A function that the model may call."""

    name: Annotated[str, Field(min_length=1, max_length=256)]
    description: str | None = None
    parameters: dict[str, Any] | None = Field(None, description="A JSON schema of its arguments.")
    strict: bool | None = None


class Tool(Form):
    """A tool; functions are the only kind."""

    type: Literal["function"]
    function: Function


class NamedFunction(Form):
    """A function by its name."""

    name: str


class ToolChoiceForm(Form):
    """The tool that must be called."""

    type: Literal["function"]
    function: NamedFunction


def choice_kind(value: object) -> str:
    """Tells the word of a tool choice from an object."""
    return "~word" if isinstance(value, str) else "~tool"


ChoiceWord = Annotated[Literal["none", "auto", "required"], Tag("~word")]
ToolChoice = Annotated[ChoiceWord | Annotated[ToolChoiceForm, Tag("~tool")], Discriminator(choice_kind)]


def described(tools: Sequence[Function]) -> list[dict[str, object]]:
    """Functions in the form that chat templates expect."""
    return [
        {
            "type": "function",
            "function": {
                "name": each.name,
                "description": each.description or "",
                "parameters": each.parameters or {"type": "object", "properties": {}},
            },
        }
        for each in tools
    ]


def parameter_types(tools: Sequence[Function]) -> dict[str, Mapping[str, object]]:
    """For each function, the schemas of its parameters by name."""
    types: dict[str, Mapping[str, object]] = {}
    for each in tools:
        properties = (each.parameters or {}).get("properties")
        types[each.name] = properties if isinstance(properties, dict) else {}
    return types
