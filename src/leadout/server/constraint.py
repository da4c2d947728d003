"""The one place where a request's wish for a certain form of answer becomes a constraint on its tokens.

There is none yet: whatever would need one is refused by name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from leadout.server.refusal import RefusedError
from leadout.server.tool_form import Function


def constraint_of(
    *,
    format_field: str,
    format: dict[str, Any] | None,
    tools: Sequence[Function],
    tool_choice: object,
    tools_field: str = "tools[{}].function.strict",
) -> None:
    """What the answer must look like; None is free text, and all there is.

    Parameters
    ----------
    format_field : str
        Name of the field that `format` comes from, for messages.
    format : dict or None
        ``{"type": "text"}``, ``{"type": "json_object"}`` or ``{"type": "json_schema", ...}``.
    tools : sequence of Function
    tool_choice : object
        None, "auto", "none", "required", or the function that must be called.
    tools_field : str
        Name of the field of a tool's `strict`, with {} for its number.

    Raises
    ------
    RefusedError
        400, naming the field, for what cannot be honoured.
    """
    kind = None if format is None else format.get("type")
    if kind not in (None, "text"):
        raise RefusedError(
            400,
            f"{format_field} of type {kind!r} is not supported yet; ask for the form in the prompt",
            param=format_field,
            code="not_supported",
        )
    if tool_choice not in (None, "auto", "none"):
        raise RefusedError(
            400,
            "tool_choice can be none or auto; that a tool must be called is not supported yet",
            param="tool_choice",
            code="not_supported",
        )
    for at, each in enumerate(tools):
        if each.strict:
            field = tools_field.format(at)
            raise RefusedError(
                400, f"{field} is not supported yet; leave it out", param=field, code="not_supported"
            )
