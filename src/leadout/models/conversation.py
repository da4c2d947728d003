"""A chat as it was asked for, before any template made text of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Message = Mapping[str, object]
"""A chat message: ``role``, ``content`` and whatever else the template knows (``tool_calls``, ``name``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """Messages up to where the reply begins.

    Parameters
    ----------
    messages : sequence of Message, length >= 1
    tools : sequence of mappings or None
        Descriptions of callable functions.
    variables : mapping or None
        Further template variables, such as ``enable_thinking``.
    """

    messages: Sequence[Message]
    tools: Sequence[Mapping[str, object]] | None = None
    variables: Mapping[str, object] | None = None
